//! Prints the items of a recording, one a line: `dump FILE`.

use std::fs::File;
use std::io::BufReader;

use recording::{Item, Reader};

fn main() {
    let name = std::env::args().nth(1).expect("a recording");
    let reader =
        Reader::new(BufReader::new(File::open(&name).expect("it can be opened"))).expect("a recording");
    println!("{:?}", reader.header());
    for item in reader {
        match item.expect("it is whole") {
            Item::Path(path) => println!("path {}", String::from_utf8_lossy(&path)),
            Item::Operation(one) => println!(
                "{:>12} +{:<8} t{} {} = {} path {:?} to {:?} handle {:?} at {} bytes {} flags {:o}",
                one.begin_ns,
                one.took_ns,
                one.thread,
                one.call.name(),
                one.result,
                one.path,
                one.to,
                one.handle,
                one.offset,
                one.bytes,
                one.flags
            ),
            other => println!("{other:?}"),
        }
    }
}
