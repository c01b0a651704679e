//! Where things lie in an image of a store, as `docs/betrfs-format.md` has it: what a checksum covers and where it stands, and
//! where numbers stand. So a fuzzer can change what is below a checksum and get past it.

/// Bytes of a unit.
pub const UNIT: usize = 4096;
/// Bytes of an extent that share a checksum.
const EXTENT_CHUNK: usize = 16 * 1024;
/// Magic numbers of log frames, and bytes of the headers that begin with them; the second is of format 4.
const FRAMES: [(&[u8], usize); 2] = [(b"BLOG", 52), (b"BLO2", 60)];
/// Where the payload's length stands in a header, and bytes at the beginning that the checksum leaves out.
const FRAME_LEN_AT: usize = 48;
const FRAME_UNSUMMED: usize = 8;

/// Something with a checksum. Places are bytes of the image, one for each logical byte: what is logically in one piece may
/// lie in several.
pub struct Sealed {
    /// What is summed.
    pub covered: Vec<usize>,
    /// Where the sum stands, in each copy.
    pub sums: Vec<[usize; 4]>,
    /// Numbers in LEB128, as begin and end in `covered`.
    pub numbers: Vec<(usize, usize)>,
}

/// Takes logical bytes apart.
struct Reader<'a> {
    image: &'a [u8],
    places: &'a [usize],
    at: usize,
    numbers: Vec<(usize, usize)>,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.image[*self.places.get(self.at)?];
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn four(&mut self) -> Option<[usize; 4]> {
        let four = self.places.get(self.at..self.at + 4)?.try_into().ok()?;
        self.at += 4;
        Some(four)
    }

    fn int(&mut self) -> Option<usize> {
        let (from, mut number) = (self.at, 0_usize);
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.numbers.push((from, self.at));
                return Some(number);
            }
        }
        None
    }

    /// The image's bytes of segments.
    fn segments(&mut self) -> Option<Vec<usize>> {
        let mut places = Vec::new();
        for _ in 0..self.int()? {
            let (start, units) = (self.int()?, self.int()?);
            let (from, to) = (start.checked_mul(UNIT)?, start.checked_add(units)?.checked_mul(UNIT)?);
            places.extend((to <= self.image.len()).then_some(from..to)?);
        }
        Some(places)
    }
}

/// All of an image, what is below first: extents and parts of nodes, nodes, tables, superblocks; and the log.
pub fn sealed(image: &[u8]) -> Vec<Sealed> {
    let mut all = Vec::new();
    let mut superblocks = Vec::new();
    for unit in 0..4 {
        let covered: Vec<usize> = (unit * UNIT..(unit + 1) * UNIT - 4).collect();
        let sum = (unit + 1) * UNIT - 4;
        if let Some(numbers) = superblock(image, &covered, &mut all) {
            superblocks.push(Sealed { covered, sums: vec![[sum, sum + 1, sum + 2, sum + 3]], numbers });
        }
    }
    all.extend(superblocks);
    all.extend((4..image.len() / UNIT).filter_map(|unit| frame(image, unit * UNIT)));
    all
}

/// The numbers of a superblock; what it leads to is added to `all`.
fn superblock(image: &[u8], covered: &[usize], all: &mut Vec<Sealed>) -> Option<Vec<(usize, usize)>> {
    let mut r = Reader { image, places: covered, at: 0, numbers: Vec::new() };
    for letter in b"\"BEtree" {
        (r.byte()? == *letter).then_some(())?;
    }
    let in_pieces = r.byte()? >= b'4';
    // uuid, generation, life
    r.skip(3 * 8);
    // The shape, units, log units.
    for _ in 0..6 {
        r.int()?;
    }
    let len = if in_pieces { 0 } else { r.int()? };
    // The root with its hints, batch, log position and sequence; in format 4 the last durable batch.
    for _ in 0..7 + usize::from(in_pieces) {
        r.int()?;
    }
    if !in_pieces {
        piece(&mut r, len, Contents::Table { is_changes: false }, all)?;
        return Some(r.numbers);
    }
    let depth = r.byte()?;
    let _bytes = r.int()?;
    list(&mut r, depth, all)?;
    Some(r.numbers)
}

/// What a piece holds.
#[derive(Clone, Copy)]
enum Contents {
    Table { is_changes: bool },
    List { depth: u8 },
}

/// A list of pieces, and what they lead to; lists in more than one piece are not followed.
fn list(r: &mut Reader<'_>, depth: u8, all: &mut Vec<Sealed>) -> Option<()> {
    for n in 0..r.int()? {
        let contents = match depth.checked_sub(1) {
            Some(depth) => Contents::List { depth },
            None => Contents::Table { is_changes: n > 0 },
        };
        let len = r.int()?;
        piece(r, len, contents, all)?;
    }
    Some(())
}

/// The checksum and the two places of a piece, and what it leads to.
fn piece(r: &mut Reader<'_>, len: usize, contents: Contents, all: &mut Vec<Sealed>) -> Option<()> {
    let sum = r.four()?;
    for _copy in 0..2 {
        let places = r.segments()?;
        // What an older superblock leads to may be gone.
        let Some(covered) = places.get(..len).filter(|covered| is_right(r.image, covered, sum)) else {
            continue;
        };
        let below = Reader { image: r.image, places: covered, at: 0, numbers: Vec::new() };
        let numbers = match contents {
            Contents::Table { is_changes } => table(below, is_changes, all),
            Contents::List { depth } => list_piece(below, depth, all),
        };
        all.push(seal(covered, sum, numbers));
    }
    Some(())
}

/// The numbers of a list that is a piece itself.
fn list_piece(mut r: Reader<'_>, depth: u8, all: &mut Vec<Sealed>) -> Vec<(usize, usize)> {
    let _ = list(&mut r, depth, all);
    r.numbers
}

/// The numbers of a piece of a table; all its blocks are added to `all`.
fn table(mut r: Reader<'_>, is_changes: bool, all: &mut Vec<Sealed>) -> Vec<(usize, usize)> {
    let image = r.image;
    let mut blocks = || -> Option<()> {
        let removed = if is_changes { r.int()? } else { 0 };
        for _ in 0..removed {
            r.int()?;
        }
        for _ in 0..r.int()? {
            let _id = r.int()?;
            let kind = r.byte()?;
            let places = r.segments()?;
            let (len, head_len) = (r.int()?, r.int()?);
            let sums: Vec<_> = (0..r.int()?).map(|_| r.four()).collect::<Option<_>>()?;
            for _ in 0..r.int()? {
                r.int()?;
            }
            let Some(places) = places.get(..len) else { continue };
            match kind {
                1 | 3 => {
                    let chunks = places.chunks(EXTENT_CHUNK).zip(sums);
                    let right = chunks.filter(|(chunk, sum)| is_right(image, chunk, *sum));
                    all.extend(right.map(|(chunk, sum)| seal(chunk, sum, Vec::new())));
                }
                _ => _ = sums.first().and_then(|sum| node(image, places, head_len, *sum, all)),
            }
        }
        Some(())
    };
    let _ = blocks();
    r.numbers
}

fn node(
    image: &[u8],
    places: &[usize],
    head_len: usize,
    sum: [usize; 4],
    all: &mut Vec<Sealed>,
) -> Option<()> {
    let head = places.get(..head_len).filter(|head| is_right(image, head, sum))?;
    let mut r = Reader { image, places: head, at: 4, numbers: Vec::new() };
    let mut parts = || -> Option<()> {
        r.int()?;
        let is_inner = r.byte()? == 1;
        for _ in 0..r.int()? {
            let flags = if is_inner { r.byte()? } else { 4 };
            r.int()?;
            let key = r.int()?;
            r.skip(key);
            if is_inner {
                if r.byte()? == 1 {
                    let end = r.int()?;
                    r.skip(end);
                }
                for _ in 0..flags & 2 {
                    let key = r.int()?;
                    r.skip(key);
                }
                r.int()?;
                r.skip(1);
                let _three = [r.int()?, r.int()?, r.int()?];
            }
            if flags & 4 != 0 {
                let (off, stored) = (r.int()?, r.int()?);
                let _three = [r.int()?, r.int()?, r.int()?];
                r.skip(1);
                let sum = r.four()?;
                for _ in 0..r.int()? {
                    r.int()?;
                }
                let part = places.get(head_len + off..head_len + off + stored)?;
                all.push(seal(part, sum, Vec::new()));
            }
        }
        Some(())
    };
    let _ = parts();
    let numbers = std::mem::take(&mut r.numbers);
    all.push(seal(head, sum, numbers));
    Some(())
}

/// Whether a sum is that of what it covers.
fn is_right(image: &[u8], covered: &[usize], sum: [usize; 4]) -> bool {
    let bytes: Option<Vec<u8>> = covered.iter().map(|place| image.get(*place).copied()).collect();
    bytes.is_some_and(|bytes| crc32c::crc32c(&bytes).to_le_bytes() == sum.map(|place| image[place]))
}

fn seal(covered: &[usize], sum: [usize; 4], numbers: Vec<(usize, usize)>) -> Sealed {
    Sealed { covered: covered.to_vec(), sums: vec![sum], numbers }
}

/// A frame of the log that begins at `at`.
fn frame(image: &[u8], at: usize) -> Option<Sealed> {
    let (_, header) = FRAMES.into_iter().find(|(magic, _)| image[at..].starts_with(magic))?;
    let len = image[at + FRAME_LEN_AT..at + FRAME_LEN_AT + 4].try_into().ok()?;
    let end = at + header + u32::from_le_bytes(len) as usize;
    let covered: Vec<usize> = (at + FRAME_UNSUMMED..end).collect();
    (end <= image.len()).then(|| seal(&covered, [at + 4, at + 5, at + 6, at + 7], Vec::new()))
}
