//! Loops: what each thread of a role repeats. Steps become units (a flowop, or a composite one), each with how often it is
//! executed in a pass, in the order in which one step follows another.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::roles::{Key, Role};
use super::seen::Seen;
use super::sets::{Set, free};
use super::sizes::{Sizes, ratio};
use super::step::{Act, ActStats, Modes, Named, Shape, StepStats};

/// A flowop.
#[derive(Debug, Clone)]
pub(crate) struct Flowop {
    pub kind: &'static str,
    pub name: String,
    pub set: Option<usize>,
    pub fd: usize,
    /// Sizes of its transfers.
    pub sizes: Option<Sizes>,
    pub random: bool,
    /// Of an fsync: data alone.
    pub data_only: bool,
    pub modes: Modes,
    /// It takes a file that is there, by the popularity of files.
    pub picks: bool,
    /// Executions at each visit.
    pub iters: f64,
}

/// A flowop, or several that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub name: String,
    /// Executions in the recording.
    pub count: f64,
    /// Calls in the recording that it stands for.
    pub calls: u64,
    pub flowops: Vec<Flowop>,
    /// What it came from.
    keys: Vec<Key>,
    /// It syncs a file that stays open, or opens one: a pass is one of these.
    paces: bool,
    /// It makes a file of this set.
    pub creates: Option<usize>,
    /// It takes a file of this set that is there.
    pub needs: Option<usize>,
}

/// What a thread of a role repeats.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loop {
    pub units: Vec<Unit>,
    /// Passes in the recording, of all threads.
    pub passes: f64,
    /// Calls of steps that are left out.
    pub left_out: u64,
}

/// A pass may hold so many executions of one unit; more come in smaller passes.
const BULK_MAX: f64 = 64.0;
/// Two counts this near are one.
const SAME_COUNT: f64 = 0.03;
/// Slots of files that stay open: from 2 on; 1 is that of units that open and close.
const KEPT_SLOT: usize = 2;
/// Slots that WML has.
const SLOTS: usize = 128;

impl Loop {
    /// At most about `most` composite units.
    pub fn of(role: &Role, seen: &Seen, sets: &[Set], most: usize) -> Loop {
        let all = role.steps.values().map(|stats| stats.calls).sum();
        let (units, taken) = (Vec::new(), HashSet::new());
        let mut builder = Builder { seen, sets, units, taken, all, left_out: 0 };
        builder.units(role, most);
        let (mut units, mut left_out) = (builder.units, builder.left_out);
        join_own(&mut units);
        units.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.keys.cmp(&b.keys)));
        while let Some(last) = units.last()
            && units.len() > 1
            && !last.flowops.iter().any(|one| one.kind == "fsync")
            && (left_out + last.calls) as f64 <= all as f64 * LEFT_OUT
        {
            left_out += last.calls;
            units.pop();
        }
        let passes = passes(&units);
        Loop { units: ordered(units, role), passes, left_out }
    }
}

/// The rarest units, with this share of the role's calls together, are left out.
const LEFT_OUT: f64 = 0.01;

/// The number of passes: as often as the most frequent unit that opens or syncs, but no pass has too many of any unit.
fn passes(units: &[Unit]) -> f64 {
    let largest = |paces: bool| {
        let of = units.iter().filter(|unit| unit.paces || !paces).map(|unit| unit.count);
        of.fold(0.0, f64::max)
    };
    let (pacing, any) = (largest(true), largest(false));
    let passes = if pacing > 0.0 { pacing.max(any / BULK_MAX) } else { any };
    passes.max(1.0)
}

/// Files that a thread made and removed at once: when it did so to all that it made, the removal goes to each making.
fn join_own(units: &mut Vec<Unit>) {
    let owns = |unit: &mut Unit| unit.flowops.len() == 1 && unit.flowops[0].name == OWN;
    let removals: Vec<Unit> = units.extract_if(.., owns).collect();
    for mut removal in removals {
        removal.flowops[0].name = "delete".into();
        let set = removal.flowops[0].set;
        let made: f64 = units.iter().filter(|unit| unit.creates == set).map(|unit| unit.count).sum();
        if (made / removal.count.max(1.0) - 1.0).abs() > SAME_COUNT {
            units.push(removal);
            continue;
        }
        removal.flowops[0].fd = 1;
        for unit in units.iter_mut().filter(|unit| unit.creates == set) {
            unit.flowops.extend(removal.flowops.iter().cloned());
            unit.calls += unit.count as u64;
            unit.keys.extend(&removal.keys);
        }
    }
}

/// The mark of a removal of what the thread has just made, until [`join_own`].
const OWN: &str = "delete own";

/// Each unit behind the one that it most often follows.
fn ordered(mut units: Vec<Unit>, role: &Role) -> Vec<Unit> {
    let mut unit_of: BTreeMap<Key, usize> = BTreeMap::new();
    for (number, unit) in units.iter().enumerate() {
        unit.keys.iter().for_each(|key| _ = unit_of.insert(*key, number));
    }
    let mut next: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for ((from, to), count) in &role.next {
        if let (Some(from), Some(to)) = (unit_of.get(from), unit_of.get(to)) {
            *next.entry((*from, *to)).or_default() += count;
        }
    }
    let mut left: BTreeSet<usize> = (0..units.len()).collect();
    let mut order = Vec::new();
    let makes = |unit: &Unit| unit.creates.is_some();
    let mut now = (0..units.len()).find(|at| makes(&units[*at])).or(left.first().copied());
    while let Some(at) = now {
        left.remove(&at);
        order.push(at);
        let follows = |to: &&usize| next.get(&(at, **to)).copied().unwrap_or(0);
        let best = left.iter().max_by_key(|to| (follows(to), std::cmp::Reverse(**to)));
        now = best.copied();
    }
    let mut slots: Vec<Option<Unit>> = units.drain(..).map(Some).collect();
    order.into_iter().filter_map(|at| slots[at].take()).collect()
}

/// A kind of opening, or several that were put together.
#[derive(Debug, Clone)]
struct Opening {
    keys: Vec<Key>,
    creates: bool,
    modes: Modes,
    acts: Vec<Act>,
    stats: StepStats,
}

impl Opening {
    /// Takes in what another does: acts of one kind are one.
    fn join(&mut self, other: Opening) {
        self.keys.extend(other.keys);
        self.stats.count += other.stats.count;
        self.stats.calls += other.stats.calls;
        for (act, stats) in other.acts.iter().zip(&other.stats.acts) {
            match self.acts.iter().position(|known| known == act) {
                Some(at) => self.stats.acts[at].merge(stats),
                None => {
                    // syncs stay behind what they sync
                    let place = match act.is_sync() {
                        true => self.acts.len(),
                        false => self.acts.iter().position(|act| act.is_sync()).unwrap_or(self.acts.len()),
                    };
                    self.acts.insert(place, *act);
                    self.stats.acts.insert(place, stats.clone());
                }
            }
        }
    }
}

/// Openings with a smaller share of the role's calls are put to more frequent ones of the same files.
const RARE: f64 = 0.05;

/// Acts of an opening, but no syncs, with a smaller share of the role's calls are left out: each would be a line, and most a variable.
const RARE_ACT: f64 = 0.003;

/// Puts rare openings to more frequent ones of the same files; then those of other files, until there are at most `most`. Their
/// calls stay in the mix.
fn join_rare(mut openings: Vec<Opening>, sets: &[Set], all: u64, most: usize) -> Vec<Opening> {
    openings.sort_by(|a, b| b.stats.calls.cmp(&a.stats.calls).then_with(|| a.keys.cmp(&b.keys)));
    let place = |one: &Opening| (one.creates, one.modes, one.keys[0].1);
    for at in (1..openings.len()).rev() {
        let many = openings.len() > most;
        let rare = (openings[at].stats.calls as f64) < all as f64 * RARE;
        let one = &openings[at];
        let same_files = openings[..at].iter().position(|other| place(other) == place(one));
        let order = |one: &Opening| sets.get(one.keys[0].1).map_or(0, |set| set.order);
        let same_kind = (0..at).filter(|other| openings[*other].creates == one.creates);
        let same_kind = same_kind.min_by_key(|other| order(&openings[*other]).abs_diff(order(one)));
        let into = same_files.filter(|_| rare || many).or(same_kind.filter(|_| many));
        if let Some(into) = into {
            let one = openings.remove(at);
            openings[into].join(one);
        }
    }
    openings
}

struct Builder<'a> {
    seen: &'a Seen,
    sets: &'a [Set],
    units: Vec<Unit>,
    taken: HashSet<String>,
    /// Calls of the role.
    all: u64,
    /// Calls of acts that are left out.
    left_out: u64,
}

/// Calls on files of one set that stay open.
type Kept<'a> = BTreeMap<(usize, Modes), KeptActs<'a>>;
/// Those of one set.
type KeptActs<'a> = Vec<(Act, Key, &'a StepStats)>;

impl Builder<'_> {
    fn units(&mut self, role: &Role, most: usize) {
        let mut kept: Kept<'_> = BTreeMap::new();
        let mut openings = Vec::new();
        for (key, stats) in &role.steps {
            match self.seen.shapes.values.get(key.0 as usize).cloned() {
                Some(Shape::Opening { creates, modes, acts }) => {
                    let (keys, stats) = (vec![*key], stats.clone());
                    openings.push(Opening { keys, creates, modes, acts, stats });
                }
                Some(Shape::Kept(act, modes)) => {
                    kept.entry((key.1, modes)).or_default().push((act, *key, stats));
                }
                Some(Shape::Named(named)) => self.named(*key, stats, named),
                None => {}
            }
        }
        for opening in join_rare(openings, self.sets, self.all, most) {
            self.opening(opening);
        }
        for (number, ((set, modes), acts)) in kept.into_iter().enumerate() {
            self.kept(set, modes, KEPT_SLOT + number % (SLOTS - KEPT_SLOT), acts);
        }
    }

    fn push(
        &mut self,
        verb: &str,
        count: u64,
        calls: u64,
        flowops: Vec<Flowop>,
        keys: Vec<Key>,
    ) -> &mut Unit {
        let set = keys.first().and_then(|key| self.sets.get(key.1)).map_or("", |set| &set.name);
        let name = free(&mut self.taken, format!("{verb}-{set}"));
        let count = count as f64;
        let is_there = |one: &&Flowop| !matches!(one.kind, "createfile" | "makedir" | "removedir");
        let needs = flowops.first().filter(is_there).and_then(|one| one.set);
        self.units.push(Unit { name, count, calls, flowops, keys, paces: true, creates: None, needs });
        let last = self.units.len() - 1;
        &mut self.units[last]
    }

    fn opening(&mut self, opening: Opening) {
        let Opening { keys, creates, modes, acts, stats } = opening;
        let key = keys[0];
        let mut names = HashSet::new();
        let kind = if creates { "createfile" } else { "openfile" };
        let mut open = flowop(kind, free(&mut names, "open".into()), 1);
        (open.set, open.modes, open.picks) = (Some(key.1), modes, !creates);
        let mut flowops = vec![open];
        let mut acts: Vec<(Act, &ActStats)> = acts.into_iter().zip(&stats.acts).collect();
        if creates && !acts.iter().any(|(act, _)| act.is_sync()) {
            // a new file must have something in it before parts of it are read
            acts.sort_by_key(|(act, _)| !matches!(act, Act::WriteWhole | Act::Append));
        }
        for (act, of_act) in &acts {
            if (of_act.calls as f64) < self.all as f64 * RARE_ACT && !act.is_sync() {
                self.left_out += of_act.calls;
                continue;
            }
            let mut one = self.act(*act, of_act, stats.count, key.1);
            one.name = free(&mut names, one.name);
            (one.fd, one.modes) = (1, Modes::default());
            // where no file was left to open, it takes another one
            one.set = (*act == Act::Stat).then_some(key.1);
            flowops.push(one);
        }
        flowops.push(flowop("closefile", "close".into(), 1));
        let has = |is: fn(Act) -> bool| acts.iter().any(|(act, _)| is(*act));
        let verb = match (has(Act::is_read), has(Act::is_write)) {
            _ if creates => "create",
            (true, true) => "update",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "open",
        };
        let unit = self.push(verb, stats.count, stats.calls, flowops, keys);
        unit.creates = creates.then_some(key.1);
    }

    /// The flowop of an act; executions for each of `steps`.
    fn act(&self, act: Act, stats: &ActStats, steps: u64, set: usize) -> Flowop {
        let mut iters = ratio(stats.calls, steps);
        let (kind, name) = match act {
            Act::ReadWhole if self.whole_pieces(stats, set) => ("readwholefile", "read"),
            Act::ReadWhole | Act::ReadNext | Act::ReadRandom => ("read", "read"),
            Act::WriteWhole if self.whole_size(stats, set) => ("writewholefile", "write"),
            Act::WriteWhole | Act::Append => ("appendfile", "append"),
            Act::WriteNext | Act::WriteRandom => ("write", "write"),
            Act::Fsync | Act::Fdatasync => ("fsync", "sync"),
            Act::Stat => ("statfile", "stat"),
        };
        let mut one = flowop(kind, name.into(), 0);
        one.random = matches!(act, Act::ReadRandom | Act::WriteRandom);
        one.data_only = act == Act::Fdatasync;
        let whole = matches!(kind, "readwholefile" | "writewholefile");
        if whole {
            one.sizes = piece(act, stats).map(only);
            iters = ratio(stats.sums.count(), steps);
        } else if act == Act::ReadWhole && !self.are_larger(stats, set) {
            // files that end before the read does make it short by themselves
            one.sizes = Some(stats.asked.clone());
        } else if act.is_read() || act.is_write() {
            one.sizes = Some(stats.sizes.clone());
        }
        one.iters = iters;
        one
    }

    /// Whether what is written whole is as large as the files of the set.
    fn whole_size(&self, stats: &ActStats, set: usize) -> bool {
        let Some(set) = self.sets.get(set) else { return false };
        let near = |a: f64, b: f64| (a - b).abs() <= WHOLE_SIZE * b.max(1.0);
        let sizes = set.sizes();
        let middle = |sizes: &Sizes| sizes.quantile(0.5).unwrap_or(0) as f64;
        near(stats.sums.mean(), sizes.mean()) && near(middle(&stats.sums), middle(sizes))
    }

    /// Whether files of the set are read whole in as many reads as was recorded; if not, these reads are said one by one.
    fn whole_pieces(&self, stats: &ActStats, set: usize) -> bool {
        let Some(set) = self.sets.get(set) else { return false };
        let Some(piece) = piece(Act::ReadWhole, stats) else { return false };
        let (ours, theirs) = (ratio(stats.calls, stats.sums.count()), set.sizes());
        (ratio(theirs.pieces(piece), theirs.count()) - ours).abs() <= WHOLE_PIECES * ours
    }

    /// Whether files of the set are mostly larger than those that were read whole.
    fn are_larger(&self, stats: &ActStats, set: usize) -> bool {
        let middle = |sizes: &Sizes| sizes.quantile(0.5).unwrap_or(0);
        self.sets.get(set).is_none_or(|set| middle(set.sizes()) / 2 > middle(&stats.sums))
    }

    fn named(&mut self, key: Key, stats: &StepStats, named: Named) {
        let (kind, name) = match named {
            Named::Stat => ("statfile", "stat"),
            Named::Unlink => ("deletefile", "delete"),
            Named::UnlinkOwn => ("deletefile", OWN),
            Named::MakeDirectory => ("makedir", "makedir"),
            Named::RemoveDirectory => ("removedir", "removedir"),
            Named::List => ("listdir", "list"),
        };
        let mut one = flowop(kind, name.into(), 0);
        (one.set, one.picks) = (Some(key.1), named == Named::Stat);
        let verb = if named == Named::UnlinkOwn { "delete" } else { name };
        self.push(verb, stats.count, stats.calls, vec![one], vec![key]);
    }

    /// Calls on a file that stays open. Writes and syncs are one unit, for a sync belongs to the writes before it; so are reads
    /// and syncs, if nothing is written. Other calls are units of their own.
    fn kept(&mut self, set: usize, modes: Modes, fd: usize, mut acts: KeptActs<'_>) {
        let all: u64 = acts.iter().map(|(.., stats)| stats.count).sum();
        // what is too rare for the mix would only make the loop longer
        acts.retain(|(act, _, stats)| act.is_sync() || stats.count as f64 >= all as f64 * LEFT_OUT / 2.0);
        acts.sort_by_key(|(act, _, stats)| (act.is_sync(), std::cmp::Reverse(stats.count)));
        let most = |is: fn(Act) -> bool| acts.iter().filter(|one| is(one.0)).map(|one| one.2.count).max();
        let Some(transfers) = most(Act::is_write).or(most(Act::is_read)) else {
            return self.kept_without_transfers(modes, acts);
        };
        let syncs: u64 = acts.iter().filter(|one| one.0.is_sync()).map(|one| one.2.count).sum();
        let writes = most(Act::is_write).is_some();
        let (together, alone): (Vec<_>, Vec<_>) =
            acts.into_iter().partition(|(act, ..)| syncs > 0 && (!writes || !act.is_read()));
        if !together.is_empty() {
            // its transfers open the file: at least one of them comes before each sync
            self.kept_unit("sync", set, modes, fd, syncs.min(transfers), &together);
        }
        for one in alone {
            let verb = match one.0 {
                act if act.is_read() => "read",
                Act::Append => "append",
                Act::Stat => "stat",
                _ => "write",
            };
            self.kept_unit(verb, set, modes, fd, one.2.count, &[one]).paces = false;
        }
    }

    fn kept_unit(
        &mut self,
        verb: &str,
        set: usize,
        modes: Modes,
        fd: usize,
        count: u64,
        acts: &[(Act, Key, &StepStats)],
    ) -> &mut Unit {
        let mut names = HashSet::new();
        let mut flowops = Vec::new();
        for (act, _, stats) in acts {
            let of_act = stats.acts.first().cloned().unwrap_or_default();
            let mut one = self.act(*act, &of_act, count, set);
            (one.fd, one.modes) = (fd, modes);
            one.set = (!act.is_sync()).then_some(set);
            one.name = free(&mut names, one.name);
            flowops.push(one);
        }
        if let ([(Act::Stat, ..)], [one]) = (acts, flowops.as_mut_slice()) {
            one.fd = 0;
        }
        let keys = acts.iter().map(|(_, key, _)| *key).collect();
        let calls = acts.iter().map(|(.., stats)| stats.calls).sum();
        self.push(verb, count, calls, flowops, keys)
    }

    /// Syncs, by a thread, of a file that others write to: WML has an open and a close around them.
    fn kept_without_transfers(&mut self, modes: Modes, acts: KeptActs<'_>) {
        for (act, key, stats) in acts {
            let of_act = [stats.acts.first().cloned().unwrap_or_default()];
            if act == Act::Stat {
                self.named(key, stats, Named::Stat);
                continue;
            }
            let step = StepStats { acts: of_act.to_vec(), ..stats.clone() };
            self.opening(Opening { keys: vec![key], creates: false, modes, acts: vec![act], stats: step });
        }
    }
}

/// Sizes within this share of each other are those of whole files.
const WHOLE_SIZE: f64 = 0.1;

/// Numbers of reads of a file within this share of each other are those of whole files.
const WHOLE_PIECES: f64 = 0.2;

/// Steps in which numbers of pieces are compared; from two of them on no known size fits.
const PIECES_OFF: f64 = 0.05;

/// The largest piece that a personality reads in: each thread has memory for one.
const PIECE_MAX: u64 = 16 << 20;

/// The size of the pieces in which files are read or written whole, so that their number is that of the recording.
fn piece(act: Act, stats: &ActStats) -> Option<u64> {
    let sizes = if act == Act::ReadWhole { &stats.asked } else { &stats.sizes };
    let off = |piece: u64| {
        let off = stats.sums.pieces(piece).abs_diff(stats.calls) as f64 / stats.calls.max(1) as f64;
        (off / PIECES_OFF) as u64
    };
    let known = sizes.counts().map(|(size, count)| (size.clamp(1, PIECE_MAX), count));
    // of sizes that fit as well, one that occurs often
    let best = known.min_by_key(|(size, count)| (off(*size), std::cmp::Reverse((*count, *size))))?.0;
    let mean = ratio(stats.sums.total(), stats.calls).ceil() as u64;
    Some(if off(best) <= 1 { best } else { mean.clamp(1, PIECE_MAX) })
}

fn only(size: u64) -> Sizes {
    let mut sizes = Sizes::default();
    sizes.add(size);
    sizes
}

fn flowop(kind: &'static str, name: String, fd: usize) -> Flowop {
    Flowop {
        kind,
        name,
        set: None,
        fd,
        sizes: None,
        random: false,
        data_only: false,
        modes: Modes::default(),
        picks: false,
        iters: 1.0,
    }
}
