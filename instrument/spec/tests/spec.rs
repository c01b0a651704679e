//! The stack syntax: what is read, what is shown, what is refused and how.

use proptest::prelude::*;
use spec::{Device, FsKind, ImageOptions, Regime, Size, StackSpec};

fn parse(text: &str) -> StackSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn words(text: &[String]) -> Vec<&str> {
    text.iter().map(String::as_str).collect()
}

#[test]
fn the_documented_examples() {
    let spec = parse("ext4,data=journal@image:4G");
    assert_eq!(spec.fs(), FsKind::Ext4);
    assert_eq!(words(spec.mount_options()), ["data=journal"]);
    let size = Some(Size::from_mib(4096));
    assert_eq!(*spec.device(), Device::Image(ImageOptions { size, ..ImageOptions::default() }));

    assert_eq!(*parse("xfs").device(), Device::Image(ImageOptions::default()));
    assert_eq!(parse("xfs@/dev/sdx").block_device().unwrap(), "/dev/sdx");
    assert_eq!(words(parse("btrfs,compress=zstd:3").mount_options()), ["compress=zstd:3"]);
    assert_eq!(*parse("dir:/mnt/x").device(), Device::Directory("/mnt/x".into()));
    assert_eq!(*parse("tmpfs,size=2G").device(), Device::Memory);

    let spec = parse("ext4@980pro:flush");
    assert_eq!(spec.regime(), Some(Regime::Flush));
    assert_eq!(*spec.device(), Device::Emulated { name: "980pro".into(), size: None, args: vec![] });
}

#[test]
fn mkfs_words_are_split_on_blanks_or_given_one_by_one() {
    let spec = parse("ext4,mkfs:-O,mkfs:^has_journal,noatime");
    assert_eq!(words(spec.mkfs_words()), ["-O", "^has_journal"]);
    assert_eq!(words(spec.mount_options()), ["noatime"]);
    assert_eq!(parse("ext4,noatime,\"mkfs:-O ^has_journal\""), spec);
    assert_eq!(parse("ext4,noatime,mkfs:\"-O ^has_journal\""), spec);
    let commas = parse("ext4,\"mkfs:-E stride=4,nodiscard\"");
    assert_eq!(words(commas.mkfs_words()), ["-E", "stride=4,nodiscard"]);
}

#[test]
fn image_arguments() {
    let spec = parse("ext4@image(8G,buffered,sector=4096):flush");
    let options = ImageOptions { size: Some(Size::from_mib(8192)), buffered: true, sector_bytes: Some(4096) };
    assert_eq!(*spec.device(), Device::Image(options));
    assert_eq!(spec.regime(), Some(Regime::Flush));
    assert_eq!(parse("ext4@image(8G)"), parse("ext4@image:8G"));
    assert_eq!(parse("ext4@image(direct)"), parse("ext4"));
}

#[test]
fn device_paths_may_hold_colons_and_a_regime_is_still_found() {
    let path = "/dev/disk/by-path/pci-0000:00:1f.2-ata-1";
    for (text, regime) in [
        (format!("xfs@{path}"), None),
        (format!("xfs@{path}:flush"), Some(Regime::Flush)),
        (format!("xfs@\"{path}\":flush"), Some(Regime::Flush)),
        ("xfs@\"/dev/a:flush\"".to_string(), None),
    ] {
        let spec = parse(&text);
        assert_eq!(spec.regime(), regime, "{text}");
        assert_eq!(parse(&spec.label()), spec, "{text}");
    }
}

#[test]
fn labels_are_short_and_canonical() {
    for (text, label) in [
        ("ext4@image", "ext4"),
        (" ext4 ", "ext4"),
        ("ext4@image(4096M)", "ext4@image:4G"),
        ("ext4@image(sector=4096)", "ext4@image(sector=4096)"),
        ("ext4@image(sector=4096,1G)", "ext4@image(1G,sector=4096)"),
        ("ext4@image:flush:1G", "ext4@image:1G:flush"),
        ("ext4@image:flush", "ext4@image:flush"),
        ("ext4,\"mkfs:-O x\",noatime", "ext4,noatime,mkfs:-O,mkfs:x"),
        ("ext4,\"context=a,b\"", "ext4,\"context=a,b\""),
        ("ext4,context=\"a,b\"@/dev/sdx", "ext4,\"context=a,b\"@/dev/sdx"),
        ("dir:\"/a b\"", "dir:\"/a b\""),
        ("dir:/a@b:c", "dir:\"/a@b:c\""),
        ("xfs@980pro(queues=4):8G:streams", "xfs@980pro(queues=4):8G:streams"),
    ] {
        assert_eq!(parse(text).label(), label, "{text}");
    }
}

fn label_list(text: &str) -> Vec<String> {
    StackSpec::parse_list(text).unwrap_or_else(|e| panic!("{e}")).iter().map(StackSpec::label).collect()
}

#[test]
fn a_comma_before_a_file_system_separates_stacks() {
    for (text, labels) in [
        ("ext4,xfs,btrfs", vec!["ext4", "xfs", "btrfs"]),
        ("ext4,data=journal,noatime,xfs", vec!["ext4,data=journal,noatime", "xfs"]),
        ("ext4@image:4G,xfs@/dev/sdx,dir:/mnt/x", vec!["ext4@image:4G", "xfs@/dev/sdx", "dir:/mnt/x"]),
        ("ext4, xfs; btrfs tmpfs", vec!["ext4", "xfs", "btrfs", "tmpfs"]),
        ("ext4@image(1G,buffered),f2fs,zfs", vec!["ext4@image(1G,buffered)", "f2fs", "zfs"]),
        ("ext4,\"mkfs:-O ^has_journal\",xfs", vec!["ext4,mkfs:-O,mkfs:^has_journal", "xfs"]),
        ("ext4,\"xfs\"", vec!["ext4,xfs"]),
        ("btrfs,compress=zstd:3,betrfs@/dev/sdx", vec!["btrfs,compress=zstd:3", "betrfs@/dev/sdx"]),
        ("ext4;ext4,noatime", vec!["ext4", "ext4,noatime"]),
    ] {
        assert_eq!(label_list(text), labels, "{text}");
    }
}

/// One line for each mistake: what is written, then the message.
fn messages(inputs: &[&str], message: impl Fn(&str) -> Option<String>) -> String {
    let lines = inputs.iter().map(|input| match message(input) {
        Some(message) => format!("{input:?}\n    {message}\n"),
        None => format!("{input:?}\n    ACCEPTED\n"),
    });
    lines.collect()
}

fn assert_golden(name: &str, found: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "differs from {path}; set UPDATE_GOLDEN=1 to accept");
}

#[test]
fn mistakes_are_explained() {
    let inputs = [
        "",
        "ext9",
        "ext",
        "EXT4",
        "data=journal",
        "/mnt/x",
        "dir",
        "dir:",
        "dir:/a,noatime",
        "ext4,",
        "ext4,,noatime",
        "ext4,\"noatime",
        "ext4@image(1G",
        "ext4@image)1G",
        "ext4@",
        "ext4@image:8",
        "ext4@image:8GB",
        "ext4@image:1G:2G",
        "ext4@image(1G):2G",
        "ext4@image(1G,fast)",
        "ext4@image(sector=100)",
        "ext4@image(buffered,direct)",
        "ext4@image:fast",
        "ext4@image:flush:none",
        "ext4@image:1G,noatime",
        "ext4@/tmp/x.img",
        "ext4@/dev/../etc/passwd",
        "ext4@a b",
        "btrfs,subvol=@home@image",
        "tmpfs@image",
        "tmpfs,mkfs:-x",
        "ext4,mkfs:",
        "ext4,remount",
        "ext4,loop=/dev/loop1",
        "ext4,a\nb",
    ];
    assert_golden(
        "parse_errors.txt",
        &messages(&inputs, |i| Some(i.parse::<StackSpec>().err()?.to_string())),
    );
}

#[test]
fn mistakes_in_lists_are_explained() {
    let inputs = [
        "",
        ",;",
        "ext4,xsf",
        "ext4,brtfs@image:1G",
        "noatime,ext4",
        "ext4 noatime",
        "ext4,dir",
        "ext4@image,ro",
    ];
    let message = |input: &str| Some(StackSpec::parse_list(input).err()?.to_string());
    assert_golden("list_errors.txt", &messages(&inputs, message));
}

fn option() -> impl Strategy<Value = String> {
    "[a-z_]{1,8}(=[a-zA-Z0-9,:;@()/ ^.-]{1,10})?".prop_filter("reserved or ambiguous", |word| {
        !["remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "user"]
            .contains(&word.split('=').next().unwrap())
    })
}

fn device() -> impl Strategy<Value = String> {
    let size = "[1-9][0-9]{0,3}[BKMGT]";
    prop_oneof![
        Just(String::new()),
        Just("@image".to_string()),
        size.prop_map(|size| format!("@image:{size}")),
        (size, any::<bool>(), prop::sample::select(vec!["512", "4096"])).prop_map(
            |(size, direct, sector)| {
                format!("@image({},sector={sector},{size})", if direct { "direct" } else { "buffered" })
            }
        ),
        "/dev/[a-z0-9:_-]{1,12}".prop_map(|path| format!("@{path}")),
        "[0-9a-z][a-z0-9._-]{0,8}".prop_map(|name| format!("@x{name}:1G")),
    ]
}

fn stack_text() -> impl Strategy<Value = String> {
    let fs = prop::sample::select(vec!["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2", "betrfs"]);
    let mkfs = "-[A-Z]( [a-z0-9,=^]{1,8})?";
    let regime = prop::sample::select(vec!["", ":flush", ":none", ":barrier", ":streams"]);
    (fs, prop::collection::vec(option(), 0..4), prop::collection::vec(mkfs, 0..3), device(), regime).prop_map(
        |(fs, options, mkfs, device, regime)| {
            let options: String = options.iter().map(|option| format!(",\"{option}\"")).collect();
            let mkfs: String = mkfs.iter().map(|words| format!(",\"mkfs:{words}\"")).collect();
            let regime = if device.is_empty() { "" } else { regime };
            format!("{fs}{options}{mkfs}{device}{regime}")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_label_reads_back_as_the_same_stack(text in stack_text()) {
        let spec: StackSpec = text.parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
        let label = spec.label();
        let again: StackSpec = label.parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
        prop_assert_eq!(&again, &spec);
        prop_assert_eq!(again.label(), label);
    }

    #[test]
    fn a_list_of_labels_reads_back_whatever_separates_them(
        texts in prop::collection::vec(stack_text(), 1..5),
        separator in prop::sample::select(vec![",", ";", " ", ", ", "\n"]),
    ) {
        let specs: Vec<StackSpec> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let list = specs.iter().map(StackSpec::label).collect::<Vec<_>>().join(separator);
        // a bare option one slip away from a file system's name is refused on purpose
        match StackSpec::parse_list(&list) {
            Ok(found) => prop_assert_eq!(found, specs),
            Err(error) => prop_assert!(error.to_string().contains("did you mean"), "{}", error),
        }
    }

    #[test]
    fn no_text_panics(text in "[ -~]{0,40}|[a-z0-9,;:@()\" =/]{0,40}") {
        let _ = text.parse::<StackSpec>();
        let _ = StackSpec::parse_list(&text);
    }

    #[test]
    fn whatever_is_accepted_reads_back(text in "(ext4|tmpfs|dir:)[a-z0-9,;:@()\" =/]{0,30}") {
        if let Ok(spec) = text.parse::<StackSpec>() {
            let label = spec.label();
            let again: Result<StackSpec, _> = label.parse();
            prop_assert_eq!(again, Ok(spec));
        }
    }
}

#[test]
fn a_stack_is_a_string_in_json() {
    let spec = parse("ext4,noatime@image:1G");
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(json, "\"ext4,noatime@image:1G\"");
    assert_eq!(serde_json::from_str::<StackSpec>(&json).unwrap(), spec);
    assert!(
        serde_json::from_str::<StackSpec>("\"ext9\"")
            .unwrap_err()
            .to_string()
            .contains("unknown file system")
    );
}
