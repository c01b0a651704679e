//! The store as an embedded key-value store: `cargo run -p loadline-betree --example notes`.

use betree::{Compression, Db, FileStorage, KeyRange, Options, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("betree-notes-{}", std::process::id()));
    let options = Options { compression: Compression::Lz4, ..Options::default() };
    let db = Db::create(FileStorage::create(&path, 256 << 20, false)?, options.clone())?;

    // A batch is atomic: after a crash all of it is there or nothing.
    let mut batch = WriteBatch::new();
    for i in 0..1000 {
        batch.put(format!("notes/2024/{i:04}").as_bytes(), format!("note number {i}").as_bytes());
    }
    db.write(batch)?;
    db.sync()?;

    // A patch changes bytes in place without reading the value.
    db.patch(b"notes/2024/0007", 0, b"NOTE")?;
    // A rename moves any number of keys at once.
    db.rename_range(b"notes/2024/", b"archive/2024/")?;
    db.close()?;

    let db = Db::open(FileStorage::open(&path, false)?, options)?;
    for item in db.scan(&KeyRange::prefix(b"archive/2024/000")) {
        let (key, value) = item?;
        println!("{} = {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    let report = db.verify()?;
    println!("{} nodes, {} entries, {} problems", report.nodes, report.entries, report.problems.len());
    db.close()?;
    std::fs::remove_file(path)?;
    Ok(())
}
