//! A store whose bytes were changed anywhere, with checksums that are right, is checked, shown, opened, read, written and
//! repaired, or refused.

#[path = "image.rs"]
mod image;
#[path = "layout.rs"]
mod layout;

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use betree::{Db, Dump, FsckOptions, KeyRange, Options};
use image::Image;
use layout::{Sealed, UNIT};

/// A small store, which is quick, and some of betree's own tests, of older formats and with compression. `cargo test -p
/// loadline-betree --test fuzz_seeds -- --ignored` makes a new small one.
const PACKED: [&[u8]; 4] = [
    include_bytes!("../images/betree.zst"),
    include_bytes!("../../systems/betree/tests/fixtures/v2-lz4.zst"),
    include_bytes!("../../systems/betree/tests/fixtures/v1-zstd.zst"),
    include_bytes!("../../systems/betree/tests/fixtures/v2-log.zst"),
];
/// One image in so many is not the small one.
const LARGE_ONE_IN: u8 = 24;
/// Changes of one image.
const CHANGES_MAX: usize = 8;
/// Items that are read in a scan: a damaged tree may show the same ones again and again.
const ITEMS_MAX: usize = 10_000;

struct Base {
    bytes: &'static [u8],
    sealed: Vec<Sealed>,
}

fn base(number: usize) -> &'static Base {
    static BASES: [OnceLock<Base>; PACKED.len()] = [const { OnceLock::new() }; PACKED.len()];
    BASES[number].get_or_init(|| {
        let bytes: &'static [u8] = zstd::decode_all(PACKED[number]).expect("a packed image").leak();
        let sealed = layout::sealed(bytes);
        assert!(sealed.len() > 20, "image {number} is of an unknown format");
        Base { bytes, sealed }
    })
}

pub fn run(bytes: &[u8]) {
    let Some((number, bytes)) = bytes.split_first() else { return };
    let is_large = number % LARGE_ONE_IN == LARGE_ONE_IN - 1;
    let base = base(if is_large { 1 + usize::from(number / LARGE_ONE_IN) % (PACKED.len() - 1) } else { 0 });
    let made = || {
        let image = Image::new(base.bytes);
        let mut u = Unstructured::new(bytes);
        for _ in 0..CHANGES_MAX {
            if u.is_empty() || change(&mut u, base, &image).is_err() {
                break;
            }
        }
        base.sealed.iter().for_each(|sealed| reseal(&image, sealed));
        image
    };
    look(made());
    use_it(made());
    repair(made());
}

/// Changes something below a checksum, or anything.
fn change(u: &mut Unstructured<'_>, base: &Base, image: &Image) -> Result<()> {
    if u.ratio(1, 16)? {
        image.set(u.int_in_range(0..=base.bytes.len() - 1)?, u.arbitrary()?);
        return Ok(());
    }
    // Superblocks are few and hold much: one in four.
    let supers: Vec<&Sealed> = base.sealed.iter().filter(|s| s.covered[0] < 4 * UNIT).collect();
    let all: Vec<&Sealed> = base.sealed.iter().collect();
    let some = if u.ratio(1, 4)? { &supers } else { &all };
    let sealed = *u.choose(some)?;
    if u.ratio(1, 2)? && !sealed.numbers.is_empty() {
        let (from, to) = *u.choose(&sealed.numbers)?;
        return number(u, image, sealed, from, to);
    }
    let at = u.int_in_range(0..=sealed.covered.len() - 1)?;
    let bytes: Vec<u8> = match u.int_in_range(0..=3)? {
        0 => vec![u.arbitrary()?],
        1 => vec![image.bytes(&sealed.covered[at..=at])[0] ^ 1 << u.int_in_range(0..=7)?],
        2 => vec![0xff; u.int_in_range(1..=10)?],
        _ => {
            let len = u.arbitrary_len::<u8>()?.min(16);
            u.bytes(len)?.to_vec()
        }
    };
    sealed.covered[at..].iter().zip(bytes).for_each(|(place, byte)| image.set(*place, byte));
    Ok(())
}

/// Writes another number in LEB128. If it takes more bytes, what follows moves, and the last bytes are lost.
fn number(u: &mut Unstructured<'_>, image: &Image, sealed: &Sealed, from: usize, to: usize) -> Result<()> {
    let new: u64 = match u.int_in_range(0..=5)? {
        0 => 0,
        1 => u.int_in_range(0..=300)?,
        2 => u64::MAX - u.int_in_range(0..=2)?,
        3 => u64::from(u32::MAX) - u.int_in_range(0..=2)?,
        4 => 1 << u.int_in_range(0..=63)?,
        _ => u.arbitrary()?,
    };
    let mut written = Vec::new();
    let mut rest = new;
    while rest >= 0x80 || written.len() + 1 < to - from {
        written.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    written.push(rest as u8);
    written.extend(image.bytes(&sealed.covered[to..]));
    sealed.covered[from..].iter().zip(written).for_each(|(place, byte)| image.set(*place, byte));
    Ok(())
}

/// Makes a checksum right that covers anything changed.
fn reseal(image: &Image, sealed: &Sealed) {
    let mut units: Vec<usize> = sealed.covered.iter().step_by(UNIT).map(|place| place / UNIT).collect();
    units.extend(sealed.covered.last().map(|place| place / UNIT));
    if !units.iter().any(|unit| image.is_written(*unit)) {
        return;
    }
    let bytes = image.bytes(&sealed.covered);
    let sum = crc32c::crc32c(&bytes).to_le_bytes();
    for places in &sealed.sums {
        places.iter().zip(sum).for_each(|(place, byte)| image.set(*place, byte));
    }
}

/// What does not write.
fn look(image: Image) {
    if let Ok(report) = betree::fsck(image.clone(), FsckOptions::default()) {
        let _ = report.to_string();
    }
    for what in [Dump::Superblocks, Dump::Table, Dump::Tree, Dump::Log, Dump::Block(1), Dump::Block(40)] {
        let _ = betree::dump(image.clone(), what, &mut std::io::sink());
    }
}

fn use_it(image: Image) {
    let Ok(db) = Db::open(image, Options::tiny()) else { return };
    let keys: Vec<Vec<u8>> =
        db.scan(&KeyRange::all()).take(ITEMS_MAX).map_while(|item| item.ok()).map(|(key, _)| key).collect();
    for key in keys.iter().step_by(50).map(|key| &key[..]).chain([&b"dir/101"[..], b"big/0"]) {
        let _ = (db.get(key), db.patch(key, 7, b"patched"));
    }
    let _ = db.verify();
    let _ = (
        db.put(b"dir/new", &[1; 5000]),
        db.clone_range(b"dir/", b"copy/"),
        db.delete_range(&KeyRange::prefix(b"wide/")),
    );
    let _ = (db.sync(), db.checkpoint(), db.close());
}

fn repair(image: Image) {
    if let Ok(report) = betree::fsck(image.clone(), FsckOptions { repair: true }) {
        let _ = report.to_string();
        use_it(image);
    }
}
