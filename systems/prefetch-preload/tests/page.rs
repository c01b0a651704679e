//! The file of the statistics does no harm: not to files that are there, and not to a process that has mapped it.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use prefetch_os::area::BYTES;

/// Has a shell do something in the directory of the statistics, where the page of its process is to be, and then become
/// a program that reads: `$$` is the page's name.
fn become_a_reader(statistics: &Path, before: &str) -> Vec<prefetch_os::area::Snapshot> {
    let directory = common::directory();
    common::cold_file(&directory.path().join("big"), 8);
    let script = format!("{before}; cd {}; exec cat big", directory.path().display());
    let mut command = Command::new("sh");
    command.current_dir(statistics).args(["-c", &script]).env("LD_PRELOAD", common::library());
    command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, std::fs::read(directory.path().join("big")).unwrap());
    common::pages(statistics)
}

fn is_of_cat(pages: &[prefetch_os::area::Snapshot]) -> bool {
    matches!(pages, [page] if page.name == "cat")
}

#[test]
fn a_page_is_allocated_whole() {
    use std::os::unix::fs::MetadataExt;
    let statistics = common::directory();
    assert!(is_of_cat(&become_a_reader(statistics.path(), ":")));
    let entry = std::fs::read_dir(statistics.path()).unwrap().next().unwrap().unwrap();
    let found = entry.metadata().unwrap();
    assert_eq!((found.len(), found.mode() & 0o777), (BYTES as u64, 0o600));
    assert!(found.blocks() * 512 >= BYTES as u64, "{} blocks", found.blocks());
}

#[test]
fn a_page_that_may_be_mapped_elsewhere_is_replaced_and_not_cut_off() {
    let statistics = common::directory();
    let before = format!("head -c {BYTES} /dev/zero | tr '\\0' x > $$; ln $$ kept");
    assert!(is_of_cat(&become_a_reader(statistics.path(), &before)));
    assert_eq!(std::fs::read(statistics.path().join("kept")).unwrap(), vec![b'x'; BYTES]);
}

#[test]
fn files_and_links_that_are_no_pages_stay_as_they_are() {
    for before in ["echo letter > $$", "echo letter > target; ln -s target $$", "echo letter > x; mkdir $$"] {
        let statistics = common::directory();
        assert!(become_a_reader(statistics.path(), before).is_empty(), "{before}");
        let entries = std::fs::read_dir(statistics.path()).unwrap().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let texts: Vec<_> = files.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
        assert!(!texts.is_empty() && texts.iter().all(|text| text == "letter\n"), "{before}: {texts:?}");
    }
}

#[test]
fn there_are_no_statistics_where_others_write() {
    let statistics = common::directory();
    std::fs::set_permissions(statistics.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(become_a_reader(statistics.path(), ":").is_empty());
    let link = common::directory();
    let own = common::directory();
    std::os::unix::fs::symlink(own.path(), link.path().join("link")).unwrap();
    assert!(become_a_reader(&link.path().join("link"), ":").is_empty());
}

#[test]
fn a_limit_on_the_length_of_files_ends_no_program() {
    let statistics = common::directory();
    // In blocks of 512 bytes: the page is longer. Its maker would get SIGXFSZ.
    assert!(become_a_reader(statistics.path(), "ulimit -f 64").is_empty());
}
