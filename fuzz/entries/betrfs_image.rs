//! A file system whose keys and values were changed in any way is checked, shown, opened, walked through and repaired, or
//! refused.

#[path = "image.rs"]
#[allow(dead_code, reason = "another target changes its bytes")]
mod image;

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use betree::{Db, KeyRange, WriteBatch};
use betrfs::{DirItem, DirStream, Fs, Options, Whence};
use image::Image;

/// A file system with some of everything: `cargo test -p loadline-betrfs --test fuzz_seeds -- --ignored` makes a new one.
const PACKED: &[u8] = include_bytes!("../images/betrfs.zst");
/// Changes of one file system.
const CHANGES_MAX: usize = 8;
/// Objects that are looked at: damaged directories may lead in a circle.
const OBJECTS_MAX: usize = 200;
/// Names that are read of a directory.
const NAMES_MAX: usize = 1000;
/// Bytes that are read at each of some places of a file.
const READ_BYTES: usize = 10_000;

struct Base {
    bytes: &'static [u8],
    /// All keys and values.
    items: Vec<(Vec<u8>, Vec<u8>)>,
}

fn options() -> Options {
    Options::with_store(betree::Options::tiny())
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let bytes: &'static [u8] = zstd::decode_all(PACKED).expect("a packed image").leak();
        let db = Db::open(Image::new(bytes), options().store).expect("a store");
        let items: Vec<_> = db.scan(&KeyRange::all()).map(|item| item.expect("a sound store")).collect();
        assert!(items.len() > 20, "a file system");
        Base { bytes, items }
    })
}

pub fn run(bytes: &[u8]) {
    let base = base();
    let changed = || -> Option<Image> {
        let image = Image::new(base.bytes);
        let mut u = Unstructured::new(bytes);
        let mut batch = WriteBatch::new();
        for _ in 0..CHANGES_MAX {
            if u.is_empty() || change(&mut u, base, &mut batch).is_err() {
                break;
            }
        }
        let db = Db::open(image.clone(), options().store).expect("a store");
        // Keys and values that the store itself refuses are none of a file system's.
        db.write(batch).ok()?;
        db.close().ok()?;
        Some(image)
    };
    if let Some(image) = changed() {
        if let Ok(report) = betrfs::check(image.clone(), false) {
            let _ = report.to_string();
        }
        let _ = betrfs::dump(image.clone(), &mut std::io::sink());
        walk(&image);
    }
    if let Some(image) = changed() {
        if let Ok(report) = betrfs::check(image.clone(), true) {
            let _ = report.to_string();
        }
        walk(&image);
    }
}

fn change(u: &mut Unstructured<'_>, base: &Base, batch: &mut WriteBatch) -> Result<()> {
    let (key, value) = u.choose(&base.items)?;
    match u.int_in_range(0..=5)? {
        0 => _ = batch.delete(key),
        1 => {
            // Another key: that of something else, or none that a file system makes.
            let mut key = key.clone();
            bytes(u, &mut key)?;
            batch.put(&key, value);
        }
        2 => {
            let (_, value) = u.choose(&base.items)?;
            batch.put(key, value);
        }
        _ => {
            let mut value = value.clone();
            bytes(u, &mut value)?;
            batch.put(key, &value);
        }
    }
    Ok(())
}

fn bytes(u: &mut Unstructured<'_>, text: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(1..=4)? {
        let at = u.int_in_range(0..=text.len())?;
        match u.int_in_range(0..=4)? {
            0 => text.truncate(at),
            1 => text.insert(at, u.arbitrary()?),
            2 => {
                let to = text.len().min(at + u.int_in_range(1..=10)?);
                text[at..to].fill(0xff);
            }
            3 if at < text.len() => _ = text.remove(at),
            _ if at < text.len() => text[at] = u.arbitrary()?,
            _ => {}
        }
    }
    Ok(())
}

/// Opens it, looks at all that a name leads to, and changes some of it.
fn walk(image: &Image) {
    let Ok(fs) = Fs::open(image.clone(), &options()) else { return };
    let mut todo = vec![1];
    let mut at = 0;
    while at < todo.len().min(OBJECTS_MAX) {
        let ino = todo[at];
        at += 1;
        let mut names = Vec::new();
        let mut add = |item: DirItem<'_>| {
            names.push(item.name.to_vec());
            names.len() < NAMES_MAX
        };
        let _ = fs.read_dir(ino, &mut DirStream::default(), 0, true, &mut add);
        for name in &names {
            if let Ok(attr) = fs.lookup(ino, name) {
                todo.push(attr.ino);
            }
        }
        object(&fs, ino);
        for name in names.iter().step_by(7) {
            let _ = (fs.unlink(ino, name), fs.rmdir(ino, name));
        }
    }
    let _ = (fs.sync(), fs.space(), fs.close());
}

fn object(fs: &Fs, ino: u64) {
    let Ok(attr) = fs.attr(ino) else { return };
    let mut out = vec![0; READ_BYTES];
    for offset in [0, 4090, attr.size / 2, attr.size.saturating_sub(5), u64::MAX - 1] {
        let _ = fs.read_into(ino, offset, &mut out);
        let _ = (fs.seek(ino, offset, Whence::Data), fs.seek(ino, offset, Whence::Hole));
    }
    let _ = fs.read_link(ino);
    for name in fs.xattrs(ino).unwrap_or_default() {
        let _ = fs.xattr(ino, &name);
    }
    let _ = (fs.write(ino, 5000, b"written", true), fs.set_xattr(ino, b"user.new", b"value", false, false));
}
