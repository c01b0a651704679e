//! IOR's patterns: each task writes blocks of transfers, into a file of its own or into one file of all; then reads back what
//! another has written.
//!
//! | module | holds |
//! |---|---|
//! | `options` | IOR's options |
//! | `layout` | which transfer lies where |
//! | `task` | what one task does in the write and the read phase |

pub(crate) mod layout;
pub(crate) mod options;
pub(crate) mod task;

use crate::{AppError, Bench, Load, LoadSite, Parameters};
use options::Options;
use task::Task;

/// The load `ior`.
#[derive(Debug)]
pub struct Ior {
    options: Options,
}

impl Ior {
    /// Parameter `options`, a text as IOR has it, and each option of one letter by its name.
    ///
    /// # Errors
    /// An option that is not known or refused, sizes that do not fit.
    pub fn new(parameters: &mut Parameters) -> Result<Ior, AppError> {
        Ok(Ior { options: Options::new(&options::GRAMMAR.take(parameters)?)? })
    }
}

/// What memory and disks do at least, for a guess of a load's length.
const GUESSED_BYTES_PER_SECOND: f64 = 300e6;

impl Load for Ior {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        let phases = f64::from(u8::from(self.options.write)) + f64::from(u8::from(self.options.read));
        let whole = self.options.bytes_of_task() as f64 / GUESSED_BYTES_PER_SECOND;
        phases * self.options.stonewall.map_or(whole, |wall| whole.min(2.0 * wall)) + 0.2
    }

    fn takes_ranks(&self) -> bool {
        true
    }

    fn run(&self, _: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let mut task = Task::new(&self.options, place.root, place.seed, bench);
        task.make_places()?;
        bench.ready()?;
        if self.options.write {
            task.write(&self.options, "write", bench)?;
        }
        if self.options.check_write {
            task.check_own(&self.options, bench)?;
        }
        if self.options.read {
            task.read(&self.options, "read", bench)?;
        }
        Ok(())
    }
}
