//! The walk that makes the tree.
//!
//! With N files, L leaf directories, mean width W and mean depth `D = ln(N+L)/ln(W)`, depth first from the root,
//! whose own depth is 1 (Filebench 1.5 `fileset.c`, restated):
//!
//! 1. Each directory draws its target depth t: from `dir_depth`, else a gamma distribution with the mean D and
//!    the shape `dir_gamma`, else D; truncated, at least 1.
//! 2. It draws its width: from the `dir_width` variable, else a gamma distribution with the mean W, else W;
//!    rounded up, at least 1.
//! 3. A directory other than the root whose own depth has reached t gets files, any other one gets
//!    subdirectories. The root gets as many as are needed, any other directory at most its width.
//! 4. All that ends when there are N files. A second pass of the same loop in each directory, when its first one
//!    is over, adds leaf directories until there are L.
//!
//! Where Filebench leaves off or errs:
//!
//! * A D that is not a finite number (W = 1) counts as 1, as does W = 0: one file in each directory. A width
//!   below 0 counts as 1.
//! * The serials of a directory's entries go on from the first pass to the second one, so that no leaf directory
//!   has the name of a file (in Filebench both start at 1). Trees with files only, or with leaf directories
//!   only, have the same names.
//! * Trees with more than [`DIRS_PER_ENTRY`] directories for each entry (and [`DIRS_MIN`] more) are errors. A
//!   chain of a million directories is possible, a `dirdepthrv` that never ends is not.

use thiserror::Error;

use super::paths::Prefixes;
use super::{Dir, Layout, LeafDir, Sizes};
use crate::draw::{DrawError, Sampler};
use crate::model::{Distribution, Draw, Fileset, Rounding, Value};
use crate::rng::{Purpose, StreamId, hash_name, mix};

/// Largest number of files and leaf directories of one fileset.
pub const ENTRIES_MAX: u64 = u32::MAX as u64 - 1;
/// A tree may have this many directories for each file and leaf directory ...
pub const DIRS_PER_ENTRY: u64 = 16;
/// ... and this many more.
pub const DIRS_MIN: u64 = 1 << 21;

/// A fileset that no tree can be made for.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LayoutError {
    #[error("fileset {fileset}: {entries} files and leaf directories; the limit is {ENTRIES_MAX}")]
    TooManyEntries { fileset: String, entries: u128 },
    #[error(
        "fileset {fileset}: the tree would need more than {limit} directories for {entries} files and leaf \
         directories; make dirwidth larger (2 or more) or the depth smaller"
    )]
    TooManyDirs { fileset: String, entries: u64, limit: u64 },
    #[error("fileset {fileset}: dirgamma is {gamma}, but has to be a finite number of 0 or more")]
    Gamma { fileset: String, gamma: f64 },
    #[error("fileset {fileset}: {attribute} refers to random variable {index}, which does not exist")]
    UnknownDraw { fileset: String, attribute: &'static str, index: usize },
    #[error("fileset {fileset}: {attribute}: {source}")]
    Draw { fileset: String, attribute: &'static str, source: DrawError },
    #[error("fileset {fileset}: not enough memory for {entries} entries")]
    Memory { fileset: String, entries: u64 },
}

impl Layout {
    /// Makes the tree of a fileset; the same arguments give the same tree everywhere. Tree and sizes depend on
    /// the seed, on the fileset's name and on its own attributes only.
    pub fn build(fileset: &Fileset, draws: &[Draw], seed: u64) -> Result<Layout, LayoutError> {
        let plan = Plan { fileset, draws, seed };
        let wanted = u128::from(fileset.entries) + u128::from(fileset.leafdirs);
        if wanted > u128::from(ENTRIES_MAX) {
            return Err(LayoutError::TooManyEntries { fileset: fileset.name.clone(), entries: wanted });
        }
        let entries = fileset.entries + fileset.leafdirs;
        let mean_width = plan.mean_width()?;
        let mean_depth = (entries as f64).ln() / mean_width.ln();
        let mut walk = Walk::new(&plan, entries, mean_width, mean_depth)?;
        walk.run()?;
        let (sizes, total_bytes) = plan.sizes()?;
        walk.dirs.shrink_to_fit();
        walk.leafdirs.shrink_to_fit();
        Ok(Layout {
            prefixes: Prefixes::build(&walk.dirs, entries),
            file_parent: walk.file_parent,
            sizes,
            leafdirs: walk.leafdirs,
            dirs: walk.dirs,
            name_hash: hash_name(&fileset.name),
            total_bytes,
            mean_width,
            mean_depth,
        })
    }
}

/// What the tree is made from.
struct Plan<'a> {
    fileset: &'a Fileset,
    draws: &'a [Draw],
    seed: u64,
}

impl Plan<'_> {
    fn draw(&self, attribute: &'static str, index: usize) -> Result<&Draw, LayoutError> {
        let fileset = || self.fileset.name.clone();
        self.draws.get(index).ok_or_else(|| LayoutError::UnknownDraw { fileset: fileset(), attribute, index })
    }

    fn mean_width(&self) -> Result<f64, LayoutError> {
        Ok(match self.fileset.dir_width {
            Value::Int(width) => width as f64,
            Value::Draw(index) => self.draw("dirwidth", index)?.mean(),
        })
    }

    /// A sampler of its own stream, which depends on the attribute, the fileset's name and the variable's seed.
    fn sampler(&self, attribute: &'static str, draw: &Draw) -> Result<Sampler, LayoutError> {
        let detail = mix(hash_name(&self.fileset.name) ^ hash_name(attribute)).wrapping_add(draw.seed);
        let rng = StreamId::of_run(self.seed, Purpose::Fileset(detail)).rng();
        Sampler::new(draw, rng).map_err(|source| {
            let fileset = self.fileset.name.clone();
            LayoutError::Draw { fileset, attribute, source }
        })
    }

    /// Gamma with this mean, or the mean itself.
    fn around(&self, attribute: &'static str, mean: f64) -> Result<Sampler, LayoutError> {
        let gamma = self.fileset.dir_gamma;
        if !(gamma >= 0.0 && gamma.is_finite()) {
            return Err(LayoutError::Gamma { fileset: self.fileset.name.clone(), gamma });
        }
        let mean = if mean.is_finite() { mean.max(0.0) } else { 1.0 };
        let distribution = if gamma == 0.0 {
            Distribution::Constant(mean)
        } else {
            Distribution::Gamma { shift: 0.0, shape: gamma, scale: mean / gamma }
        };
        let draw = Draw {
            name: attribute.into(),
            seed: 0,
            distribution,
            round: 0,
            rounding: Rounding::Nearest,
            clamp_min: None,
            clamp_max: None,
        };
        self.sampler(attribute, &draw)
    }

    /// The size of each file, drawn once; and their sum.
    fn sizes(&self) -> Result<(Sizes, u64), LayoutError> {
        let entries = self.fileset.entries;
        let index = match self.fileset.size {
            Value::Int(size) => return Ok((Sizes::Equal(size), size.saturating_mul(entries))),
            Value::Draw(index) => index,
        };
        let mut sampler = self.sampler("size", self.draw("size", index)?)?;
        let mut small: Vec<u32> = self.reserved(entries)?;
        let mut total = 0u64;
        while (small.len() as u64) < entries {
            let size = sampler.next_u64();
            total = total.saturating_add(size);
            if let Ok(size) = u32::try_from(size) {
                small.push(size);
                continue;
            }
            let mut any: Vec<u64> = self.reserved(entries)?;
            any.extend(small.iter().map(|&size| u64::from(size)));
            any.push(size);
            while (any.len() as u64) < entries {
                let size = sampler.next_u64();
                total = total.saturating_add(size);
                any.push(size);
            }
            return Ok((Sizes::Any(any), total));
        }
        Ok((Sizes::Small(small), total))
    }

    fn reserved<T>(&self, entries: u64) -> Result<Vec<T>, LayoutError> {
        let mut list = Vec::new();
        match list.try_reserve_exact(entries as usize) {
            Ok(()) => Ok(list),
            Err(_) => Err(LayoutError::Memory { fileset: self.fileset.name.clone(), entries }),
        }
    }
}

/// The state of the walk; an explicit stack, because trees may be a million levels deep.
struct Walk<'a> {
    plan: &'a Plan<'a>,
    depth: Sampler,
    width: Sampler,
    entries: u64,
    dirs_max: u64,
    stack: Vec<Frame>,
    file_parent: Vec<u32>,
    leafdirs: Vec<LeafDir>,
    dirs: Vec<Dir>,
}

/// A directory whose children are being made.
struct Frame {
    dir: u32,
    /// Children still to be made in this pass, at most.
    room: u32,
    width: u32,
    /// Serial of its latest child, over both passes.
    serial: u32,
    /// Its children are files or leaf directories, not directories.
    holds_entries: bool,
    second_pass: bool,
}

impl<'a> Walk<'a> {
    fn new(plan: &'a Plan<'a>, entries: u64, mean_width: f64, mean_depth: f64) -> Result<Self, LayoutError> {
        let depth = match plan.fileset.dir_depth {
            Some(index) => plan.sampler("dirdepthrv", plan.draw("dirdepthrv", index)?)?,
            None => plan.around("depth", mean_depth)?,
        };
        let width = match plan.fileset.dir_width {
            Value::Draw(index) => plan.sampler("dirwidth", plan.draw("dirwidth", index)?)?,
            Value::Int(_) => plan.around("dirwidth", mean_width)?,
        };
        Ok(Walk {
            plan,
            depth,
            width,
            entries,
            dirs_max: (entries * DIRS_PER_ENTRY + DIRS_MIN).min(u64::from(u32::MAX)),
            stack: Vec::new(),
            file_parent: plan.reserved(plan.fileset.entries)?,
            leafdirs: Vec::new(),
            dirs: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), LayoutError> {
        self.enter(0, 0)?;
        while let Some(frame) = self.stack.last_mut() {
            let left = if frame.second_pass {
                self.plan.fileset.leafdirs - self.leafdirs.len() as u64
            } else {
                self.plan.fileset.entries - self.file_parent.len() as u64
            };
            let left = left as u32;
            if left == 0 || frame.room == 0 {
                if frame.second_pass {
                    self.stack.pop();
                } else {
                    frame.second_pass = true;
                    frame.room = frame.width;
                }
            } else if frame.holds_entries {
                let count = left.min(frame.room);
                let (parent, first) = (frame.dir, frame.serial + 1);
                frame.serial += count;
                frame.room = 0;
                if frame.second_pass {
                    self.leafdirs.extend((0..count).map(|nth| LeafDir { parent, serial: first + nth }));
                } else {
                    self.file_parent.extend(std::iter::repeat_n(parent, count as usize));
                }
            } else {
                frame.room -= 1;
                frame.serial += 1;
                let (parent, serial) = (frame.dir, frame.serial);
                self.enter(parent, serial)?;
            }
        }
        Ok(())
    }

    /// Makes a directory and goes into it.
    fn enter(&mut self, parent: u32, serial: u32) -> Result<(), LayoutError> {
        if self.dirs.len() as u64 >= self.dirs_max {
            let fileset = self.plan.fileset.name.clone();
            return Err(LayoutError::TooManyDirs { fileset, entries: self.entries, limit: self.dirs_max });
        }
        let target_depth = (self.depth.next_u64()).max(1);
        let width = (self.width.next_f64().ceil() as u32).max(1);
        let is_root = self.stack.is_empty();
        let own_depth = self.stack.len() as u64 + 1;
        let width = if is_root { u32::MAX } else { width };
        let dir = self.dirs.len() as u32;
        self.dirs.push(Dir { parent, serial, first_file: self.file_parent.len() as u32 });
        self.stack.push(Frame {
            dir,
            room: width,
            width,
            serial: 0,
            holds_entries: !is_root && own_depth >= target_depth,
            second_pass: false,
        });
        Ok(())
    }
}
