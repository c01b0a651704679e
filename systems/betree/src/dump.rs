//! What is on storage, as text: for people who look at a store from outside.

use crate::batch::Change;
use crate::block::{BlockId, BlockKind, Segment};
use crate::db::{LogContents, ring_of};
use crate::edits::Edits;
use crate::error::{Doing, Error, Result};
use crate::fsck::{Tree, Unit, checkpoints, show_range, units};
use crate::key::Key;
use crate::log::{self, LogPosition, Tail};
use crate::message::{Base, Op, Piece, Value};
use crate::node::{Edge, Node, NodeRef};
use crate::storage::Storage;
use crate::store::Store;
use crate::superblock::Superblock;
use std::io::{self, Write};
use std::sync::Arc;

/// Bytes of a value that are shown.
const VALUE_SHOWN: usize = 32;

/// What [`dump`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// All copies of the superblocks.
    Superblocks,
    /// The translation table: each block with its place, length and references.
    Table,
    /// The tree: a line for each node and edge, without keys and values.
    Tree,
    /// One node with every key, value and message; or one extent's place and checksums.
    Block(BlockId),
    /// The log after the checkpoint: frames, batches and changes.
    Log,
}

/// Writes what `what` asks for as text to `out`. Nothing on storage changes; nothing may have the store open.
///
/// # Errors
///
/// [`Error::NotAStore`] without a valid superblock, [`Error::Corrupt`] where what is asked for is damaged.
pub fn dump(storage: impl Storage + 'static, what: Dump, out: &mut dyn Write) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let found = units(&*storage);
    let all = checkpoints(&found);
    let written = "writing the dump";
    if what == Dump::Superblocks {
        return found
            .iter()
            .enumerate()
            .try_for_each(|(i, u)| superblock(&*storage, i, u, out))
            .doing(written);
    }
    let sb = all.first().ok_or_else(|| Error::NotAStore("no superblock is valid".into()))?;
    let tree = Tree::load(&storage, sb, &mut Vec::new())?;
    match what {
        Dump::Superblocks => Ok(()),
        Dump::Table => table(&tree, sb, out).doing(written),
        Dump::Tree => outline(&tree.store, &tree.root_slot(sb), 0, &mut Vec::new(), out),
        Dump::Block(id) => block(&tree.store, id, out),
        Dump::Log => frames(&storage, sb, &tree.store, out),
    }
}

fn show_segments(segments: &[Segment]) -> String {
    let one = |s: &Segment| format!("{}+{}", s.start, s.units);
    segments.iter().map(one).collect::<Vec<_>>().join(",")
}

fn superblock(storage: &dyn Storage, i: usize, unit: &Unit, out: &mut dyn Write) -> io::Result<()> {
    let sb = match unit {
        Unit::Empty => return writeln!(out, "unit {i}: empty"),
        Unit::Damaged(why) => return writeln!(out, "unit {i}: {why}"),
        Unit::Valid(sb) => sb,
    };
    writeln!(out, "unit {i}: generation {}, store {:#018x}, life {}", sb.generation, sb.uuid, sb.life)?;
    writeln!(out, "  {} units, {} of them log", sb.units, sb.log_units)?;
    let s = &sb.shape;
    let (leaf, basement, buffer) = (s.leaf_bytes, s.basement_bytes, s.buffer_bytes);
    writeln!(out, "  leaf {leaf} B, basement {basement} B, buffers {buffer} B, fan-out {}", s.fanout)?;
    let (root, level, weight, width) = sb.root;
    writeln!(out, "  root block {root}, level {level}, weight {weight}, width {width}, batch {}", sb.msn)?;
    match sb.table.resolve(storage, sb.units) {
        Ok(place) => {
            let lists = place.lists.iter().map(|piece| ("list of pieces", piece));
            let pieces = place.pieces.iter().enumerate();
            let pieces =
                pieces.map(|(i, piece)| (if i == 0 { "table" } else { "changes of the table" }, piece));
            for (what, piece) in lists.chain(pieces) {
                let (first, copy) = (show_segments(&piece.first), show_segments(&piece.copy));
                let (len, crc) = (piece.len, piece.crc);
                writeln!(out, "  {what} in units {first} and {copy}, {len} B, checksum {crc:#010x}")?;
            }
        }
        Err(e) => writeln!(out, "  table: {e}")?,
    }
    let (pos, seq, durable) = (sb.log_pos, sb.log_seq, sb.durable);
    writeln!(out, "  log from position {pos}, frame {seq}; durable up to batch {durable}")
}

fn kind_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Leaf => "leaf",
        BlockKind::Inner => "inner",
        BlockKind::Extent => "extent",
        BlockKind::Spilled => "spilled",
    }
}

fn table(tree: &Tree, sb: &Superblock, out: &mut dyn Write) -> io::Result<()> {
    let table = &tree.store.table;
    for (id, info, refs) in table.list() {
        let refs = if id == sb.root.0 { refs - 1 } else { refs };
        let place = show_segments(&info.segments);
        let numbers: Vec<String> = info.out.iter().map(ToString::to_string).collect();
        let to = if numbers.is_empty() { String::new() } else { format!(" -> {}", numbers.join(" ")) };
        let (kind, len) = (kind_name(info.kind), info.len);
        writeln!(out, "block {id}: {kind}, units {place}, {len} B, {refs} references{to}")?;
    }
    writeln!(out, "free: {} units", table.free_units())
}

/// A node and what is below it; a node met before is only named.
fn outline(
    store: &Store,
    slot: &NodeRef,
    depth: usize,
    seen: &mut Vec<BlockId>,
    out: &mut dyn Write,
) -> Result<()> {
    let id = slot.block().map_or(0, |b| b.id());
    let written = "writing the dump";
    let (pad, again) = ("  ".repeat(depth), seen.contains(&id));
    let known = if again { ", shown above" } else { "" };
    let (level, weight) = (slot.level(), slot.weight());
    writeln!(out, "{pad}block {id}: level {level}, {weight} B, batch {}{known}", slot.msn())
        .doing(written)?;
    if again {
        return Ok(());
    }
    seen.push(id);
    match &*store.load(slot)? {
        Node::Leaf(leaf) => {
            for p in &leaf.parts {
                let (lo, n, w) = (p.lo.escape_ascii(), p.body.entries(), p.body.weight());
                writeln!(out, "{pad}  basement from \"{lo}\": {n} entries, {w} B").doing(written)?;
            }
        }
        Node::Inner(inner) => {
            for edge in &inner.edges {
                writeln!(out, "{pad}  {}", show_edge(edge)).doing(written)?;
                outline(store, &edge.child, depth + 2, seen, out)?;
            }
        }
    }
    Ok(())
}

fn show_edge(edge: &Edge) -> String {
    let mut text = format!("edge {}", show_range(&edge.range));
    if edge.clipped {
        text.push_str(", clipped");
    }
    if let Some(t) = &edge.translation {
        text.push_str(&format!(", \"{}\" is \"{}\" below", t.outer.escape_ascii(), t.inner.escape_ascii()));
    }
    if let Some(b) = &edge.buffer {
        text.push_str(&format!(", {} messages of {} B", b.entries(), b.weight()));
    }
    text
}

fn show_bytes(bytes: &[u8]) -> String {
    let shown = bytes[..bytes.len().min(VALUE_SHOWN)].escape_ascii();
    let more = if bytes.len() > VALUE_SHOWN { "..." } else { "" };
    format!("{} B \"{shown}\"{more}", bytes.len())
}

fn show_op(op: &Op) -> String {
    let mut text = match &op.base {
        Base::Keep => "keep".to_string(),
        Base::Absent => "delete".to_string(),
        Base::Value(Value::Inline(bytes)) => show_bytes(bytes),
        Base::Value(Value::Slice(s)) => {
            format!("{} B in extent {} at {}", s.len, s.extent.id(), s.off)
        }
    };
    for piece in op.older.iter().flat_map(|pieces| pieces.iter()) {
        match piece {
            Piece::Here(edits) => show_edits(edits, &mut text),
            Piece::There(s) => {
                text.push_str(&format!(", edits of {} B in extent {} at {}", s.len, s.extent.id(), s.off));
            }
        }
    }
    if let Some(edits) = &op.edits {
        show_edits(edits, &mut text);
    }
    text
}

fn show_edits(e: &Edits, text: &mut String) {
    if let Some(cut) = e.cut {
        text.push_str(&format!(", cut to {cut}"));
    }
    if e.grow > 0 {
        text.push_str(&format!(", grow to {}", e.grow));
    }
    e.runs.iter().for_each(|(off, b)| text.push_str(&format!(", at {off} {}", show_bytes(b))));
}

fn entries(pad: &str, entries: &[(Key, Op)], out: &mut dyn Write) -> io::Result<()> {
    entries.iter().try_for_each(|(k, op)| writeln!(out, "{pad}\"{}\": {}", k.escape_ascii(), show_op(op)))
}

fn block(store: &Store, id: BlockId, out: &mut dyn Write) -> Result<()> {
    let written = "writing the dump";
    let Some(block) = store.table.reference(id) else {
        return Err(Error::Invalid(format!("there is no block {id}")));
    };
    let info = block.info().clone();
    let (kind, place, len) = (kind_name(info.kind), show_segments(&info.segments), info.len);
    writeln!(out, "block {id}: {kind}, units {place}, {len} B").doing(written)?;
    if info.kind.is_extent() {
        let sums = info.sums.iter().map(|s| format!("{s:#010x}")).collect::<Vec<_>>().join(" ");
        return writeln!(out, "  checksums {sums}").doing(written);
    }
    let slot = crate::node::Slot::stored(block, (u8::MAX, 0, 0), 0, &store.meter);
    match &*store.load(&slot)? {
        Node::Leaf(leaf) => {
            for p in &leaf.parts {
                writeln!(out, "  basement from \"{}\"", p.lo.escape_ascii()).doing(written)?;
                let body = store.load_part(&p.body)?;
                entries("    ", crate::codec::Body::entries(&*body), out).doing(written)?;
            }
        }
        Node::Inner(inner) => {
            for edge in &inner.edges {
                let child = edge.child.block().map_or(0, |b| b.id());
                writeln!(out, "  {} -> block {child}", show_edge(edge)).doing(written)?;
                let Some(part) = &edge.buffer else { continue };
                let buffer = store.load_part(part)?;
                for r in buffer.tombs().iter() {
                    writeln!(out, "    delete {}", show_range(&r)).doing(written)?;
                }
                entries("    ", buffer.ops(), out).doing(written)?;
            }
        }
    }
    Ok(())
}

fn frames(storage: &Arc<dyn Storage>, sb: &Superblock, store: &Store, out: &mut dyn Write) -> Result<()> {
    let logged = LogContents::read(&**storage, &store.table, sb)?;
    let written = "writing the dump";
    for f in logged.frames(&**storage) {
        let f = f?;
        let (seq, pos, first, last) = (f.seq, f.pos, f.first_msn, f.last_msn);
        let (len, durable) = (f.payload().len(), f.durable);
        let what = format!("batches {first} to {last}, {len} B, durable up to batch {durable}");
        writeln!(out, "frame {seq} at position {pos}: {what}").doing(written)?;
        for batch in logged.batches(&f)? {
            let (msn, changes) = batch?;
            writeln!(out, "  batch {msn}").doing(written)?;
            changes.iter().try_for_each(|c| change(c, out)).doing(written)?;
        }
    }
    if let Some((msn, m)) = &logged.wrong {
        writeln!(out, "  batch {msn}: {}", m.0).doing(written)?;
    }
    let LogPosition { pos, seq } = logged.end();
    let end = match log::tail(&**storage, &ring_of(sb), logged.end())? {
        Tail::End => format!("end of the log at position {pos}, before frame {seq}"),
        Tail::Torn { pos, seq } => format!("frame {seq} at position {pos}: torn or damaged"),
        Tail::Gap { seq, later } => {
            format!("frame {seq}: missing or damaged, {} later ones are there", later.frames)
        }
    };
    writeln!(out, "{end}").doing(written)
}

fn change(c: &Change, out: &mut dyn Write) -> io::Result<()> {
    match c {
        Change::Key(k, op) => writeln!(out, "    \"{}\": {}", k.escape_ascii(), show_op(op)),
        Change::DeleteRange(r) => writeln!(out, "    delete {}", show_range(r)),
        Change::Clone { from, to } => {
            writeln!(out, "    clone \"{}\" to \"{}\"", from.escape_ascii(), to.escape_ascii())
        }
        Change::Rename { from, to } => {
            writeln!(out, "    rename \"{}\" to \"{}\"", from.escape_ascii(), to.escape_ascii())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRange;
    use crate::storage::{SimStorage, UNIT};
    use crate::{Db, Options, WriteBatch};

    fn text(storage: &SimStorage, what: Dump) -> String {
        let mut out = Vec::new();
        dump(storage.clone(), what, &mut out).expect("dump");
        String::from_utf8(out).expect("text")
    }

    /// A store with a little of everything.
    fn sample() -> SimStorage {
        let storage = SimStorage::new(1024 * UNIT as u64);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        for i in 0..60u8 {
            db.put(&[b"dir/", &[b'0' + i / 10, b'0' + i % 10][..]].concat(), &[i; 150]).expect("put");
        }
        db.put(b"big", &[7; 40_000]).expect("put");
        db.clone_range(b"dir/", b"copy/").expect("clone");
        db.checkpoint().expect("checkpoint");
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"line\n").patch(b"big", 5, b"xy").delete(b"dir/00").truncate(b"dir/01", 3);
        batch.put(b"large", &[8; 20_000]).delete_range(&KeyRange::prefix(b"dir/2"));
        db.write(batch).expect("write");
        db.sync().expect("sync");
        db.rename_range(b"copy/", b"new/").expect("rename");
        drop(db);
        storage
    }

    #[test]
    fn each_part_is_shown() {
        let storage = sample();
        let before = storage.image();
        let superblocks = text(&storage, Dump::Superblocks);
        assert!(superblocks.contains("unit 0: generation 2") && superblocks.contains("unit 3: generation 1"));
        assert!(superblocks.contains("1024 units, 64 of them log"));
        let log = text(&storage, Dump::Log);
        for line in [
            "    \"a\": 5 B \"line\\n\"",
            "    \"big\": keep, at 5 2 B \"xy\"",
            "    \"dir/00\": delete",
            "    \"dir/01\": keep, cut to 3",
            "    delete \"dir/2\" up to \"dir/3\"",
            "    rename \"copy/\" to \"new/\"",
        ] {
            assert!(log.lines().any(|l| l == line), "{line} is not in\n{log}");
        }
        assert!(log.contains("\"large\": 20000 B in extent"), "{log}");
        assert!(log.contains("end of the log at position"), "{log}");
        let tree = text(&storage, Dump::Tree);
        assert!(tree.contains("\"copy/\" is \"dir/\" below"), "{tree}");
        assert!(tree.contains("shown above"), "a clone shares nodes\n{tree}");
        let table = text(&storage, Dump::Table);
        assert_eq!(table.lines().filter(|l| l.contains(": extent, units ")).count(), 1, "{table}");
        assert!(table.lines().last().is_some_and(|l| l.starts_with("free: ")));
        for line in table.lines().filter(|l| l.starts_with("block ")) {
            let id = line[6..].split(':').next().and_then(|n| n.parse().ok()).expect("number");
            assert!(text(&storage, Dump::Block(id)).lines().count() > 1, "{line}");
        }
        assert!(matches!(
            dump(storage.clone(), Dump::Block(u64::MAX), &mut Vec::new()),
            Err(Error::Invalid(_))
        ));
        assert!(storage.image() == before, "a dump wrote");
    }
}
