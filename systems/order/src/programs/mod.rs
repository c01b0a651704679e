//! Simple programs for calibration. Each is described by what it does to files, not by how long that takes.

mod dbench;
mod sysbench;
mod varmail;

pub use dbench::{dbench, dbench_layout};
pub use sysbench::{sysbench, sysbench_layout};
pub use varmail::{varmail, varmail_layout};

use crate::files::FileId;
use crate::program::{Op, View};
use crate::protocol::Sync;

/// `count` times: overwrite or append one page of `file`, then `kind`. The file is created first.
pub fn write_sync(file: FileId, count: u32, kind: Sync) -> impl FnMut(View) -> Op {
    let mut step = 0u32;
    move |_| {
        step += 1;
        match step {
            1 => Op::Create(file),
            n if n > 2 * count + 1 => Op::End,
            n if n % 2 == 0 => Op::Append { file, pages: 1 },
            _ => Op::Sync(file, kind),
        }
    }
}
