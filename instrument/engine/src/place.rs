//! Where the filesets of a workload go below a target's root.
//!
//! A workload file names directories of its author's machine (`/tmp`, `/mnt/ext4/data`). On a target they all move below
//! its root: the part that all paths share is dropped, the rest is kept, so that `path=/tmp,name=logs` becomes `logs`,
//! and `/tmp/a` beside `/tmp/b` become `a/...` and `b/...`. Nothing outside the root is ever touched.

use workload::Fileset;

use crate::error::Error;

/// The trees' roots below the target's root, in the order of `filesets`.
pub fn roots(filesets: &[Fileset]) -> Result<Vec<String>, Error> {
    let split: Vec<Vec<&str>> = filesets.iter().map(|fileset| components(&fileset.path)).collect();
    let shared = shared_length(&split);
    let mut roots: Vec<String> = Vec::with_capacity(filesets.len());
    for (fileset, path) in filesets.iter().zip(&split) {
        let name = components(&fileset.name);
        if name.is_empty() || name.contains(&"..") || path.contains(&"..") {
            return Err(Error::BadPath { fileset: fileset.name.clone(), path: fileset.path.clone() });
        }
        let root = path[shared..].iter().chain(&name).copied().collect::<Vec<_>>().join("/");
        if root.contains('\0') {
            return Err(Error::BadPath { fileset: fileset.name.clone(), path: fileset.path.clone() });
        }
        roots.push(root);
    }
    for (index, root) in roots.iter().enumerate() {
        for other in &roots[..index] {
            if root == other || inside(root, other) || inside(other, root) {
                return Err(Error::SharedTree { tree: root.clone(), other: other.clone() });
            }
        }
    }
    Ok(roots)
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

fn shared_length(paths: &[Vec<&str>]) -> usize {
    let Some(first) = paths.first() else { return 0 };
    let same =
        |length: &usize| paths.iter().all(|path| path.len() > *length && path[*length] == first[*length]);
    (0..first.len()).take_while(same).count()
}

fn inside(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fileset(path: &str, name: &str) -> Fileset {
        crate::testing::fileset(name, path, 1)
    }

    #[test]
    fn what_all_paths_share_is_dropped() {
        type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
        let cases: [Case; 5] = [
            (&[("/tmp", "big")], &["big"]),
            (&[("/tmp", "big"), ("/tmp", "logs")], &["big", "logs"]),
            (&[("/mnt/a", "x"), ("/mnt/b/c", "x")], &["a/x", "b/c/x"]),
            (&[("/", "x"), ("/tmp//y/.", "x")], &["x", "tmp/y/x"]),
            (&[("relative", "x")], &["x"]),
        ];
        for (filesets, expected) in cases {
            let filesets: Vec<_> = filesets.iter().map(|(path, name)| fileset(path, name)).collect();
            assert_eq!(roots(&filesets).unwrap(), expected);
        }
    }

    #[test]
    fn nothing_leaves_the_root() {
        assert!(roots(&[fileset("/tmp/../etc", "x")]).is_err());
        assert!(roots(&[fileset("/tmp", "../../etc")]).is_err());
        assert!(roots(&[fileset("/tmp", "/")]).is_err());
    }

    #[test]
    fn two_filesets_do_not_share_a_tree() {
        assert!(roots(&[fileset("/tmp", "a"), fileset("/tmp", "a")]).is_err());
        assert!(roots(&[fileset("/tmp", "a"), fileset("/tmp/a", "b")]).is_err());
        assert!(roots(&[fileset("/tmp", "a"), fileset("/tmp", "ab")]).is_ok());
    }
}
