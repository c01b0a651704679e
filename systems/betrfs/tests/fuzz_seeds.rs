//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/betrfs_image.rs"]
mod betrfs_image_entry;
#[path = "../../../fuzz/entries/fuse_betrfs.rs"]
mod fuse_betrfs_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_fuse_betrfs_panics_or_takes_much_memory() {
    seeds::replay("fuse_betrfs", fuse_betrfs_entry::run);
}

#[test]
fn no_seed_of_betrfs_image_panics_or_takes_much_memory() {
    seeds::replay("betrfs_image", betrfs_image_entry::run);
}

#[test]
#[ignore = "no test: writes a new image for fuzz target betrfs_image"]
fn write_an_image_with_some_of_everything() {
    use betrfs::{Fs, NewFile, Options, RenameMode};
    let storage = betree::SimStorage::new(1 << 20);
    let options = Options::with_store(betree::Options::tiny());
    Fs::format(storage.clone(), &options).expect("a new file system");
    let fs = Fs::open(storage.clone(), &options).expect("which opens");
    let make = |parent, name: &str, mode, target: &[u8]| {
        fs.make(parent, name.as_bytes(), NewFile { mode, target, ..NewFile::default() }).expect(name).ino
    };
    let (file, dir) = (libc::S_IFREG | 0o644, libc::S_IFDIR | 0o755);
    let outer = make(1, "outer", dir, b"");
    let inner = make(outer, "inner", dir, b"");
    for number in 0..12 {
        let ino = make(if number % 2 == 0 { outer } else { inner }, &format!("file{number}"), file, b"");
        fs.write(ino, 0, &vec![number as u8; 500 * number], false).expect("written");
    }
    let sparse = make(1, "sparse", file, b"");
    fs.write(sparse, 100_000, b"far", false).expect("written");
    fs.set_xattr(sparse, b"user.small", b"value", false, false).expect("an attribute");
    fs.set_xattr(sparse, b"user.large", &[7; 3000], false, false).expect("an attribute");
    fs.link(sparse, inner, b"second").expect("a second name");
    fs.allocate(sparse, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 100_000, 2).expect("a hole");
    make(1, "link", libc::S_IFLNK | 0o777, b"outer/inner/file1");
    make(1, "fifo", libc::S_IFIFO | 0o600, b"");
    let moved = make(1, "moved", dir, b"");
    make(moved, "below", file, b"");
    fs.rename(1, b"moved", inner, b"moved", RenameMode::Replace).expect("moved");
    make(inner, &"n".repeat(255), file, b"");
    fs.unlink(1, b"fifo").expect("removed");
    fs.close().expect("closed");
    let packed = zstd::encode_all(&storage.image()[..], 19).expect("zstd");
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/images/betrfs.zst");
    std::fs::write(place, packed).expect("written");
}
