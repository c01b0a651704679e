//! Studies: reading, resolving, writing; and what is said of a wrong one.

mod common;

use std::path::{Path, PathBuf};

use study::plan;
use study::results::MetricName;
use study::{CommandLine, Load, Settings, Study, StudyError, StudyVariant};

const FULL: &str = r#"
stacks = ["ext4", "xfs@image:2G", "ext4,data=journal"]

[study]
title = "Everything"
seed = 7
trials = 3
order = "listed"
seconds = "1m"
warmup = 2
ops = 1000
rate = 500
io = "uring:8"
timeout = "10m"
cold = true
memory = "1G"
compress = 50
duplicate = 10
strict = true
keep = true
stop_early = 0.05

[parameters]
nthreads = [1, 16]

[[workload]]
file = "w/one.f"
set = { dir = "/a b", size = 4096 }
seconds = 0.5
parameters = { iosize = ["4k", "1m"] }

[[workload]]
name = "inline"
text = "run 5"
io = "psync"

[[published]]
cell = { workload = "inline", stack = "ext4", parameters = { nthreads = 16 } }
metric = "latency_p99"
value = 12.5
unit = "ms"
source = "table 3"

[[claim]]
ratio = { of = { workload = "inline", stack = "xfs@image:2G", parameters = { nthreads = 1 } }, to = { workload = "inline", stack = "ext4", parameters = { nthreads = 1 } } }
expect = 1.8
tolerance = 0.1
source = "figure 2"
"#;

fn parse(text: &str) -> Result<Study, StudyError> {
    Study::parse(text, "study.toml", &|file| match file {
        "w/one.f" => Ok("set $nthreads=1\nrun 60\n".into()),
        other => Err(StudyError::Read {
            path: other.into(),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        }),
    })
}

#[test]
fn a_study_is_resolved_into_cells() {
    let study = parse(FULL).unwrap();
    let labels: Vec<String> = plan::cells(&study).iter().map(|cell| cell.label()).collect();
    assert_eq!(labels.len(), (2 * 2 + 2) * 3);
    assert_eq!(labels[0], "one iosize=4k nthreads=1 on ext4");
    assert_eq!(labels[1], "one iosize=4k nthreads=1 on xfs@image:2G");
    assert_eq!(labels[3], "one iosize=4k nthreads=16 on ext4");
    assert_eq!(labels[17], "inline nthreads=16 on ext4,data=journal");
    let published = plan::published(&study);
    assert_eq!((published[0].cell, published[0].metric), (15, MetricName::LatencyP99));
    assert_eq!(study.study.seconds.map(|seconds| seconds.0), Some(60.0));
    let set = study.workloads[0].variables(&plan::cells(&study)[3].parameters);
    let set: Vec<String> = set.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(set, ["dir=/a b", "size=4096", "iosize=4k", "nthreads=16"]);
}

#[test]
fn a_written_study_reads_as_an_equal_one_without_its_files() {
    let study = parse(FULL).unwrap();
    let text = study.to_toml();
    let again = Study::from_stored(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again, study);
    assert_eq!(again.hash(), study.hash());
    assert_eq!(plan::cells(&again), plan::cells(&study));
    assert_eq!(again.workloads[0].load.wml(), Some("set $nthreads=1\nrun 60\n"));
    let origin = Load::Wml { text: "set $nthreads=1\nrun 60\n".into(), origin: Some("w/one.f".into()) };
    assert_eq!(again.workloads[0].load, origin);
}

#[test]
fn a_script_of_any_letters_survives_being_embedded() {
    let script = "echo \"\"\"x'''\\\"\"\n\ttab \u{fc} \u{7f}\r\n'''\nrun";
    let study =
        Study::parse("stacks=['ext4']\n[[workload]]\nfile='a.f'", "s.toml", &|_| Ok(script.into())).unwrap();
    let again = Study::from_stored(&study.to_toml()).unwrap();
    assert_eq!(again.workloads[0].load.wml(), Some(script));
}

#[test]
fn a_study_without_a_title_is_called_like_its_file() {
    assert_eq!(parse("stacks=['ext4']\n[[workload]]\nfile='w/one.f'").unwrap().study.title, "study");
}

#[test]
fn files_are_found_relative_to_the_study() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("w")).unwrap();
    std::fs::write(folder.path().join("w/one.f"), b"# caf\xe9\nrun 5").unwrap();
    std::fs::write(folder.path().join("s.toml"), "stacks=['ext4']\n[[workload]]\nfile='w/one.f'").unwrap();
    let study = lab::read::study(&folder.path().join("s.toml"), &StudyVariant::default()).unwrap();
    assert_eq!(study.workloads[0].load.wml(), Some("# caf\u{fffd}\nrun 5"));
    assert!(matches!(
        lab::read::study(Path::new("/no/such.toml"), &StudyVariant::default()),
        Err(StudyError::Missing { .. })
    ));
}

/// A study may leave its stacks to the command line; without either it is refused.
#[test]
fn stacks_may_come_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    std::fs::write(&file, "[[workload]]\nname = 'a'\ntext = 'run 5'").unwrap();
    let stacks = spec::StackSpec::parse_list("ext4,xfs").unwrap();
    let told = StudyVariant { stacks: stacks.clone(), ..StudyVariant::default() };
    assert_eq!(lab::read::study(&file, &told).unwrap().stacks, stacks);
    let error = lab::read::study(&file, &StudyVariant::default()).unwrap_err().to_string();
    assert!(error.contains("no stack is named") && error.contains("--on"), "{error}");
    // what is simulated has no place, wherever the place is named
    std::fs::write(&file, "stacks = ['virtual']\n[[workload]]\nsimulate = 'dbench'").unwrap();
    let error = lab::read::study(&file, &told).unwrap_err().to_string();
    assert!(error.contains("runs on `virtual`, not on ext4"), "{error}");
}

#[test]
fn wrong_studies_are_explained() {
    let head = "stacks = ['ext4', 'xfs']\n";
    let tail = "[[workload]]\nname = 'a'\ntext = 'run'\n[[workload]]\nname = 'b'\ntext = 'run'\n";
    let cases = [
        ("unknown key", format!("{head}[study]\ntrails = 3\n{tail}")),
        ("key of another table", format!("{head}nthreads = 3\n{tail}")),
        ("setting at the top", format!("{head}seconds = 3\n{tail}")),
        ("wrong type", format!("{head}[study]\ntrials = \"three\"\n{tail}")),
        ("out of range", format!("{head}[study]\ntrials = 0\n{tail}")),
        ("percent", format!("{head}[study]\ncompress = 101\n{tail}")),
        ("time", format!("{head}[study]\nseconds = \"1 day\"\n{tail}")),
        ("engine", format!("{head}[study]\nio = \"libaio\"\n{tail}")),
        ("order", format!("{head}[study]\norder = \"random\"\n{tail}")),
        ("memory", format!("{head}[study]\nmemory = \"2\"\n{tail}")),
        ("stop early", format!("{head}[study]\nstop_early = 5\n{tail}")),
        ("rate", format!("{head}[study]\nrate = 0\n{tail}")),
        ("stack", format!("stacks = [\"ext4\", \"exf4\"]\n{tail}")),
        ("no stacks", format!("stacks = []\n{tail}")),
        ("stacks missing", tail.to_string()),
        ("stack twice", format!("stacks = ['ext4', 'ext4@image']\n{tail}")),
        ("no workload", "stacks = ['ext4']\nworkload = []\n".to_string()),
        ("workload without text", format!("{head}[[workload]]\nname = 'a'\n")),
        ("two workloads of a name", format!("{head}{tail}{tail}")),
        ("file and app", format!("{head}[[workload]]\nfile = 'w/one.f'\napp = 'tree'\n")),
        ("file and text", format!("{head}[[workload]]\nfile = 'w/one.f'\ntext = 'run'\n")),
        ("missing file", format!("{head}[[workload]]\nfile = 'w/two.f'\n")),
        ("several values set", format!("{head}{tail}set = {{ n = [1, 2] }}\n")),
        ("set and swept", format!("{head}[parameters]\nn = [1, 2]\n{tail}set = {{ n = 3 }}\n")),
        ("value twice", format!("{head}[parameters]\nn = [1, 1]\n{tail}")),
        ("list in a list", format!("{head}[parameters]\nn = [[1]]\n{tail}")),
        (
            "published for several",
            format!("{head}{tail}[[published]]\nvalue = 1\nunit = 'x'\nsource = 'y'\n"),
        ),
        (
            "published for none",
            format!("{head}{tail}[[published]]\ncell.workload = 'bb'\nvalue = 1\nunit = 'x'\nsource = 'y'\n"),
        ),
        (
            "claim of a stranger",
            format!(
                "{head}{tail}[[claim]]\nat_least = 2\nratio.of = {{ workload = 'a', stack = 'btrfs' }}\n\
                 ratio.to = {{ workload = 'a', stack = 'ext4' }}\n"
            ),
        ),
        (
            "claim without bound",
            format!(
                "{head}{tail}[[claim]]\nratio.of = {{ workload = 'a' }}\nratio.to = {{ workload = 'b' }}\n"
            ),
        ),
        ("syntax", format!("{head}[study\n{tail}")),
        ("not text", "= =".to_string()),
        ("nothing", String::new()),
    ];
    let mut report = String::new();
    for (name, text) in cases {
        let error = parse(&text).err().unwrap_or_else(|| panic!("{name} is accepted"));
        report.push_str(&format!("## {name}\n{error}\n\n"));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn reading_never_panics_on_pieces_of_a_study() {
    for (at, _) in FULL.char_indices() {
        let _ = parse(&FULL[at..]);
        let _ = parse(&FULL[..at]);
    }
}

fn command_line(on: &str, set: &[&str]) -> Result<Study, StudyError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("varmail.f");
    std::fs::write(&file, "run 60").unwrap();
    lab::read::command_line(&CommandLine {
        files: vec![file],
        on: on.into(),
        set: set.iter().map(|word| word.to_string()).collect(),
        settings: Settings { trials: 5, ..Settings::default() },
        ..CommandLine::default()
    })
}

#[test]
fn a_command_line_is_a_study() {
    let study = command_line("ext4,xfs", &["a=1", "nthreads=1,16", "$list=\"x,y\""]).unwrap();
    assert_eq!(study.study.title, "varmail on ext4 xfs");
    let labels: Vec<String> = plan::cells(&study).iter().map(|cell| cell.label()).collect();
    assert_eq!(
        labels,
        [
            "varmail nthreads=1 on ext4",
            "varmail nthreads=1 on xfs",
            "varmail nthreads=16 on ext4",
            "varmail nthreads=16 on xfs"
        ]
    );
    let variables = study.workloads[0].variables(&plan::cells(&study)[0].parameters);
    let text: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(text, ["a=1", "list=x,y", "nthreads=1"]);
    assert_eq!(Study::from_stored(&study.to_toml()).unwrap(), study, "it can be stored and resumed");
}

#[test]
fn wrong_command_lines_are_explained() {
    let error = |on: &str, set: &[&str]| command_line(on, set).unwrap_err().to_string();
    assert!(error("ext5", &[]).starts_with("--on: stack `ext5`"));
    assert_eq!(error("ext4", &["a"]), "--set a: write --set name=value");
    assert_eq!(error("ext4", &["a="]), "--set a=: `a` has an empty value");
    assert_eq!(error("ext4", &["a=1,1"]), "--set a=1,1: `a` has the value 1 twice");
    assert!(error("ext4 ext4", &[]).contains("stands twice"));
    let missing =
        CommandLine { files: vec![PathBuf::from("/no/such.f")], on: "ext4".into(), ..Default::default() };
    assert!(
        matches!(lab::read::command_line(&missing), Err(StudyError::Missing { path }) if path == "/no/such.f")
    );
}

#[test]
fn a_check_lists_the_programs_of_every_workload() {
    let script = |command: &str| {
        format!(
            "define process name=p {{ thread name=t {{ flowop hog name=h }} }}\nsystem \"{command}\"\nrun 1\n"
        )
    };
    let study = parse(&format!(
        "stacks = ['ext4']\n[[workload]]\nname = 'a'\ntext = \'\'\'{}\'\'\'\nset = {{ n = 7 }}\n\
         [[workload]]\nname = 'b'\ntext = \'\'\'{}\'\'\'\n",
        script("one $n"),
        script("two")
    ))
    .unwrap();
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    let checked = lab::check::workloads(&study, machine).unwrap();
    let started: Vec<(&str, &str)> = (checked.iter().flat_map(|one| &one.programs))
        .map(|one| (one.place.as_str(), one.command.as_str()))
        .collect();
    assert_eq!(started, [("a:2", "one 7"), ("b:2", "two")]);
    assert!(!study.study.allow_system);
    let allowing = Study { study: study::Settings { allow_system: true, ..study.study.clone() }, ..study };
    assert!(parse(&allowing.to_toml()).unwrap().study.allow_system, "the stored study keeps it");
}

#[test]
fn workloads_are_checked_before_the_first_trial() {
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    let script = "set $n=1\ndefine fileset name=f, path=/x, entries=$n\n\
        define process name=p { thread name=t, memsize=1m { flowop statfile name=s, filesetname=f } }\nrun 5\n";
    let study = |script: &str| {
        let text = "stacks=['ext4','xfs']\n[parameters]\nn=[10,20]\n[[workload]]\nfile='w.f'";
        Study::parse(text, "s.toml", &|_| Ok(script.into())).unwrap()
    };
    let checked = lab::check::workloads(&study(script), machine).unwrap();
    let entries: Vec<u64> =
        checked.iter().map(|checked| checked.model().unwrap().filesets[0].entries).collect();
    assert_eq!(entries, [10, 20], "once for each combination, not for each stack");
    let broken = lab::check::workloads(&study(&script.replace("filesetname=f", "filesetname=g")), machine);
    let Err(StudyError::Workload { workload, report }) = broken else { panic!("{broken:?}") };
    assert_eq!(workload, "w");
    assert!(report.contains("w.f:3"), "{report}");
}

#[test]
fn applications_are_checked_as_scripts_are() {
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    let check = |workload: &str| {
        lab::check::workloads(
            &parse(&format!("stacks = ['ext4']\n[[workload]]\n{workload}\n")).unwrap(),
            machine,
        )
    };
    let checked = check("app = 'read-shared'\nparameters = { config = ['app-only', 'os-only'] }").unwrap();
    assert!(checked.len() == 2 && checked.iter().all(|load| load.app().is_some() && load.model().is_none()));
    assert!(checked[0].seconds > 0.0);
    for (workload, wrong) in [
        (
            "app = 'large-fil'",
            "`large-fil` is not a load; known are ior, io500, mdtest, large-file, random-write",
        ),
        ("app = 'large-fil'", "did you mean `large-file`?"),
        (
            "name = 'w'\napp = 'large-file'\nset = { file_bites = 1 }",
            "w: large-file has no parameter `file_bites`",
        ),
        ("app = 'large-file'\nset = { file_bytes = 0 }", "file_bytes = 0 is not a whole number from 1"),
        ("app = 'read-shared'\nparameters = { config = ['auto', 'x'] }", "config = x is none of"),
    ] {
        let error = check(workload).unwrap_err().to_string();
        assert!(error.contains(wrong), "{workload}: {error}");
    }
}

#[test]
fn planned_seconds_are_those_of_workload_study_and_script_in_this_order() {
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    let seconds = |settings: &str, workload: &str| {
        let script = "define process name=p { thread name=t { flowop hog name=h } }\nwarmup 3\nrun 7\n";
        let text = format!("stacks=['ext4']\n[study]\n{settings}\n[[workload]]\nfile='w.f'\n{workload}");
        let study = Study::parse(&text, "s.toml", &|_| Ok(script.into())).unwrap();
        let loads = lab::check::workloads(&study, machine).unwrap();
        (loads[0].warmup_seconds, loads[0].seconds)
    };
    assert_eq!(seconds("", ""), (3.0, 7.0));
    assert_eq!(seconds("seconds = 5", ""), (3.0, 5.0));
    assert_eq!(seconds("seconds = 5\nwarmup = 2", "seconds = 4\nwarmup = 1"), (1.0, 4.0));
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_example_of_the_documentation_is_a_study() {
    let page = std::fs::read_to_string(repository().join("docs/studies.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let study =
        Study::parse(example, "docs", &|_| Ok("run 60".into())).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((study.stacks.len(), study.published.len(), study.claims.len()), (3, 1, 1));
}

#[test]
fn every_study_of_the_repository_can_be_run() {
    let machine = wml::Machine { ram_bytes: 2 << 30, cores: 2, free_bytes: 1 << 30 };
    let scene = StudyVariant { ram_bytes: 2 << 30, cores: 2, ..StudyVariant::default() };
    let mut studies = 0;
    for entry in std::fs::read_dir(repository().join("studies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let mut study = lab::read::study(&path, &scene).unwrap_or_else(|error| panic!("{error}"));
            study.choose(None, None).unwrap();
            lab::check::workloads(&study, machine)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            studies += 1;
        }
    }
    assert!(studies > 3);
}
