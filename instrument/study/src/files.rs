//! Files that every `loadline` has with it: the workloads of `workloads/`, and studies that are no evaluations.

use std::path::Path;

/// A file of the repository and its text.
macro_rules! embedded {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../", $path)))
    };
}

/// The workloads, and the studies that are no evaluations: path, text. They can be named where files can, so that whoever
/// has only the program has something to begin with.
pub const FILES: [(&str, &str); 28] = [
    embedded!("workloads/append.f"),
    embedded!("workloads/block-sizes.fio"),
    embedded!("workloads/copyfiles.f"),
    embedded!("workloads/createfiles.f"),
    embedded!("workloads/deletefiles.f"),
    embedded!("workloads/fileserver.f"),
    embedded!("workloads/fsmark.f"),
    embedded!("workloads/listdirs.f"),
    embedded!("workloads/makedirs.f"),
    embedded!("workloads/mongo.f"),
    embedded!("workloads/networkfs.f"),
    embedded!("workloads/oltp.f"),
    embedded!("workloads/openfiles.f"),
    embedded!("workloads/randomread.f"),
    embedded!("workloads/randomrw.f"),
    embedded!("workloads/randomwrite.f"),
    embedded!("workloads/randwrite4k_fsync.f"),
    embedded!("workloads/removedirs.f"),
    embedded!("workloads/seqread.f"),
    embedded!("workloads/seqwrite.f"),
    embedded!("workloads/statfiles.f"),
    embedded!("workloads/varmail.f"),
    embedded!("workloads/videoserver.f"),
    embedded!("workloads/webproxy.f"),
    embedded!("workloads/webserver.f"),
    embedded!("studies/dbench.toml"),
    embedded!("studies/everyday.toml"),
    embedded!("studies/sysbench.toml"),
];

/// The text of a file that does not exist, if loadline has it with it: `varmail`, `varmail.f`, `workloads/varmail.f`, also
/// from below another folder (`../workloads/varmail.f`). Whoever gives an absolute path means that file and no other.
pub fn text(path: &Path) -> Option<&'static str> {
    if path.is_absolute() {
        return None;
    }
    let folder = path.parent().and_then(Path::file_name);
    let (name, known) = (path.file_name()?, FILES.iter().map(|(path, text)| (Path::new(path), text)));
    let is_it = |known: &Path| {
        let bare =
            folder.is_none() && known.extension() == Some("f".as_ref()) && known.file_stem() == Some(name);
        let same_folder = folder.is_none() || folder == known.parent().map(Path::as_os_str);
        bare || (same_folder && known.file_name() == Some(name))
    };
    known.into_iter().find(|(known, _)| is_it(known)).map(|(_, text)| *text)
}

/// The names of the embedded workloads in Filebench's language, without `.f`.
pub fn workload_names() -> Vec<&'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_prefix("workloads/")?.strip_suffix(".f")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_no_others() {
        let varmail = FILES.iter().find(|(path, _)| *path == "workloads/varmail.f").map(|(_, text)| *text);
        for name in [
            "varmail",
            "varmail.f",
            "workloads/varmail.f",
            "../workloads/varmail.f",
            "a/../workloads/varmail.f",
        ] {
            assert_eq!(text(Path::new(name)), varmail, "{name}");
        }
        for name in [
            "",
            "..",
            "workloads",
            "workloads/varmail",
            "/workloads/varmail.f",
            "mine/varmail.f",
            "varmail.g",
        ] {
            assert_eq!(text(Path::new(name)), None, "{name}");
        }
        assert!(text(Path::new("everyday.toml")).is_some() && text(Path::new("everyday")).is_none());
    }
}
