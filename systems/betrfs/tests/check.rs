//! Damage behind the file system's back: fsck names it, repairs it, and loses nothing that can be kept.

use betree::{Db, SimStorage, WriteBatch};
use betrfs::{DirStream, Fs, NewFile, Options, check, key, record};

const ROOT: u64 = 1;

fn make(fs: &Fs, parent: u64, name: &[u8], kind: u32) -> u64 {
    fs.make(parent, name, NewFile { mode: kind | 0o755, ..NewFile::default() }).expect("make").ino
}

/// `/dir/file` of three blocks, `/dir/sub/leaf`, `/linked` and `/dir/other` (one file), `/attributes`.
struct Sample {
    storage: SimStorage,
    dir: u64,
    file: u64,
    linked: u64,
}

fn options() -> Options {
    let mut options = Options::with_store(betree::Options::tiny());
    options.idle_nodes_max = 1000;
    options
}

impl Sample {
    fn new() -> Sample {
        let storage = SimStorage::new(16 << 20);
        Fs::format(storage.clone(), &options()).expect("format");
        let fs = Fs::open(storage.clone(), &options()).expect("open");
        let dir = make(&fs, ROOT, b"dir", libc::S_IFDIR);
        let file = make(&fs, dir, b"file", libc::S_IFREG);
        fs.write(file, 0, &[7; 10_000], false).expect("write");
        let sub = make(&fs, dir, b"sub", libc::S_IFDIR);
        let leaf = make(&fs, sub, b"leaf", libc::S_IFREG);
        fs.write(leaf, 0, b"leaf", false).expect("write");
        let linked = make(&fs, ROOT, b"linked", libc::S_IFREG);
        fs.write(linked, 0, b"linked", false).expect("write");
        fs.link(linked, dir, b"other").expect("link");
        let attributes = make(&fs, ROOT, b"attributes", libc::S_IFREG);
        fs.set_xattr(attributes, b"user.a", b"value", false, false).expect("set_xattr");
        fs.close().expect("close");
        assert!(findings(&storage).is_empty());
        Sample { storage, dir, file, linked }
    }

    fn dir_home(&self) -> Vec<u8> {
        key::home(key::ROOT_HOME, true, b"dir", self.dir)
    }

    fn file_home(&self) -> Vec<u8> {
        key::home(&self.dir_home(), false, b"file", self.file)
    }

    fn damage(&self, what: impl FnOnce(&Db, &mut WriteBatch)) {
        let db = Db::open(self.storage.clone(), options().store).expect("open");
        let mut batch = WriteBatch::new();
        what(&db, &mut batch);
        db.write(batch).expect("write");
        db.close().expect("close");
    }

    /// Damages what says where a file is; the file.
    fn damage_place(&self, what: impl FnOnce(&mut WriteBatch, u64)) -> u64 {
        let fs = Fs::open(self.storage.clone(), &options()).expect("open");
        let dir = fs.lookup(ROOT, b"dir").expect("lookup").ino;
        let file = fs.lookup(dir, b"file").expect("lookup").ino;
        drop(fs);
        self.damage(|_, batch| what(batch, file));
        file
    }

    /// Expects a finding with these words and a repair of everything.
    fn expect(&self, words: &str) {
        let before = self.storage.image();
        let found = findings(&self.storage);
        assert!(found.iter().any(|f| f.contains(words)), "no `{words}` in {found:?}");
        assert!(before == self.storage.image(), "a check without repair has written");
        let report = check(self.storage.clone(), true).expect("repair");
        assert!(report.repaired && report.is_clean(), "{report}");
        assert_eq!(findings(&self.storage), Vec::<String>::new(), "after the repair of `{words}`");
    }

    fn read(&self, path: &[&[u8]]) -> Vec<u8> {
        let fs = Fs::open(self.storage.clone(), &options()).expect("open");
        let ino = path.iter().fold(ROOT, |ino, name| fs.lookup(ino, name).expect("lookup").ino);
        fs.read(ino, 0, 1 << 20).expect("read")
    }

    fn names(&self, path: &[&[u8]]) -> Vec<Vec<u8>> {
        let fs = Fs::open(self.storage.clone(), &options()).expect("open");
        let ino = path.iter().fold(ROOT, |ino, name| fs.lookup(ino, name).expect("lookup").ino);
        let mut names = Vec::new();
        let add = &mut |item: betrfs::DirItem<'_>| {
            names.push(item.name.to_vec());
            true
        };
        fs.read_dir(ino, &mut DirStream::default(), 2, false, add).expect("read_dir");
        names
    }
}

fn findings(storage: &SimStorage) -> Vec<String> {
    check(storage.clone(), false).expect("check").findings.into_iter().map(|f| f.what).collect()
}

#[test]
fn counts_of_entries_and_links_are_set_right() {
    let sample = Sample::new();
    sample.damage(|db, batch| {
        let entry = key::entry(key::ROOT_HOME, b"dir");
        let mut dir = record::decode_record(&db.get(&entry).expect("get").expect("dir")).expect("record");
        dir.inode.size = 9;
        batch.put(&entry, &record::encode(dir.ino, &dir.inode, None, b""));
        let linked = key::linked(sample.linked);
        let mut file = record::decode_record(&db.get(&linked).expect("get").expect("file")).expect("record");
        file.inode.nlink = 5;
        batch.put(&linked, &record::encode(file.ino, &file.inode, file.home.as_deref(), b""));
    });
    assert!(findings(&sample.storage).iter().any(|f| f.contains("says 9 entries")));
    sample.expect("says 5 links");
    assert_eq!(sample.read(&[b"dir", b"other"]), b"linked");
}

#[test]
fn names_that_lead_nowhere_go() {
    let sample = Sample::new();
    sample.damage(|_, batch| _ = batch.delete(&key::linked(sample.linked)));
    sample.expect("leads nowhere");
    assert_eq!(sample.names(&[b"dir"]), [b"file".to_vec(), b"sub".to_vec()]);
}

#[test]
fn what_lost_its_name_is_found_again() {
    let sample = Sample::new();
    sample.damage(|_, batch| {
        batch.delete(&key::entry(key::ROOT_HOME, b"dir"));
        batch.delete(&key::entry(key::ROOT_HOME, b"linked"));
    });
    sample.expect("has no name");
    let lost = sample.names(&[b"lost+found"]);
    let [dir] = &lost[..] else { panic!("{lost:?}") };
    assert_eq!(sample.read(&[b"lost+found", dir, b"file"]), [7; 10_000]);
    assert_eq!(sample.read(&[b"lost+found", dir, b"sub", b"leaf"]), b"leaf");
    assert_eq!(sample.read(&[b"lost+found", dir, b"other"]), b"linked");
    // It can be used as before.
    let fs = Fs::open(sample.storage.clone(), &options()).expect("open");
    let lost = fs.lookup(ROOT, b"lost+found").expect("lookup").ino;
    let dir = fs.lookup(lost, dir).expect("lookup").ino;
    make(&fs, dir, b"new", libc::S_IFREG);
    fs.unlink(dir, b"file").expect("unlink");
    fs.close().expect("close");
    assert!(findings(&sample.storage).is_empty());
}

#[test]
fn a_file_without_a_name_is_found_again() {
    let sample = Sample::new();
    sample.damage(|_, batch| {
        batch
            .delete(&key::entry(key::ROOT_HOME, b"linked"))
            .delete(&key::entry(&sample.dir_home(), b"other"));
    });
    sample.expect("has no name");
    let name = format!("#{}", sample.linked);
    assert_eq!(sample.read(&[b"lost+found", name.as_bytes()]), b"linked");
}

#[test]
fn data_of_nobody_goes_and_missing_data_is_a_hole() {
    let sample = Sample::new();
    let nobody = key::home(key::ROOT_HOME, false, b"nobody", 999);
    sample.damage(|_, batch| {
        batch.put(&key::block(&nobody, 0), b"data").put(&key::xattr(&nobody, b"user.x"), b"value");
        batch.put(&key::block(&sample.file_home(), 3), b"behind");
    });
    assert!(findings(&sample.storage).iter().any(|f| f.contains("of nobody")));
    sample.expect("behind its end");
    sample.damage(|_, batch| _ = batch.delete(&key::block(&sample.file_home(), 1)));
    sample.expect("has only 2 of its 3 blocks");
    let data = sample.read(&[b"dir", b"file"]);
    assert!(data[..4096] == [7; 4096] && data[4096..8192] == [0; 4096] && data[8192..] == [7; 1808]);
}

#[test]
fn nonsense_goes_and_numbers_are_not_given_twice() {
    let sample = Sample::new();
    sample.damage(|_, batch| {
        batch.put(b"\x77what", b"is this").put(&key::entry(key::ROOT_HOME, b"broken"), b"\x09\0\0\0");
    });
    assert!(findings(&sample.storage).iter().any(|f| f.contains("has no meaning")));
    sample.expect("unknown kind");
    sample.damage(|_, batch| {
        let superblock = record::Superblock::new(3);
        batch.put(key::SUPERBLOCK, &superblock.encode());
    });
    sample.expect("said to be free");
}

#[test]
fn directories_that_lie_in_one_another_do_not_hold_the_check_up() {
    /// Of a record: it names its home (docs/betrfs.md).
    const MOVED: u8 = 1;
    let sample = Sample::new();
    let outer = sample.dir_home();
    sample.damage(|db, batch| {
        let key = key::entry(&outer, b"sub");
        let mut value = db.get(&key).expect("get").expect("there");
        assert!(value.ends_with(&[0, 0]), "neither a home of its own nor a target");
        value[1] |= MOVED;
        value.truncate(value.len() - 2);
        value.extend((outer.len() as u16).to_le_bytes());
        value.extend_from_slice(&outer);
        batch.put(&key, &value);
    });
    assert!(!check(sample.storage.clone(), false).expect("it ends").is_clean());
    check(sample.storage.clone(), true).expect("so does a repair");
}

#[test]
fn a_handle_that_leads_elsewhere_or_nowhere_is_found() {
    let sample = Sample::new();
    let file = sample.damage_place(|batch, ino| _ = batch.delete(&key::place(ino)));
    sample.expect("is said to be elsewhere");
    assert_eq!(file, sample.damage_place(|batch, ino| _ = batch.put(&key::place(ino), b"\x01\x01other")));
    sample.expect("is said to be elsewhere");
    sample.damage(|_, batch| _ = batch.put(&key::place(3_000), b"\x01\x01gone"));
    sample.expect("is said to be where it is not");
    sample.damage(|_, batch| _ = batch.put(&[key::place(3_000), vec![0]].concat(), b""));
    sample.expect("has no meaning");
}
