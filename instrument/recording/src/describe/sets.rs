//! Filesets: groups of files of one directory that are used alike.

use std::collections::{BTreeMap, HashSet};

use super::group::Pattern;
use super::profile::{Profile, hottest};
use super::seen::FileSeen;
use super::sizes::Sizes;
use super::step::{Act, Named, Shape};

/// What files are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Few files that are appended to.
    Log,
    /// Files with random reads or writes, many of an opening.
    Data,
    /// Made and removed; hardly any is there at the start.
    Passing,
    /// The rest: mostly read and written whole.
    Whole,
    /// Directories that are made and removed.
    Directories,
}

impl Use {
    pub fn words(self) -> &'static str {
        match self {
            Use::Log => "appended to",
            Use::Data => "read and written in parts",
            Use::Passing => "made and removed",
            Use::Whole => "opened, used, closed",
            Use::Directories => "directories, made and removed",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Use::Log => "-log",
            Use::Data => "-data",
            Use::Passing => "-temp",
            Use::Whole => "",
            Use::Directories => "-directories",
        }
    }
}

/// Files that become a fileset.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub name: String,
    pub directory: Vec<String>,
    pub usage: Use,
    /// The order of size of its files.
    pub order: u8,
    pub groups: Vec<u32>,
    /// Names of groups, for the comment.
    pub names: Vec<String>,
    pub calls: u64,
    pub files: u64,
    pub existing: u64,
    pub created: u64,
    pub deleted: u64,
    pub directories: u64,
    pub initial: Sizes,
    pub largest: Sizes,
    /// Sizes of files as openings read or wrote them whole: those that are opened often count often.
    pub whole: Sizes,
    /// Openings append to files that are there.
    pub appended: bool,
    /// The name of its only group, when it is one of several of a directory that stay open.
    only: Option<String>,
    /// Share of the opens that the most opened tenth of the files has.
    pub hottest_tenth: f64,
}

impl Set {
    /// Sizes of its files when they are made.
    pub fn sizes(&self) -> &Sizes {
        if self.initial.count() > 0 && (self.appended || self.usage == Use::Log) {
            return &self.initial;
        }
        let whole = matches!(self.usage, Use::Whole | Use::Passing) && self.whole.count() > 0;
        if whole { &self.whole } else { &self.largest }
    }
}

/// The sets, and that of each group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sets {
    pub sets: Vec<Set>,
    of: Vec<Option<usize>>,
    /// That of directories.
    directories: Option<usize>,
}

impl Sets {
    /// The set of a step on a group.
    pub fn of_step(&self, shape: Option<&Shape>, group: u32) -> Option<usize> {
        match shape {
            Some(Shape::Named(Named::MakeDirectory | Named::RemoveDirectory)) => self.directories,
            _ => self.of.get(group as usize).copied().flatten(),
        }
    }
}

/// What was done to a group.
#[derive(Debug, Clone, Default)]
struct Done {
    calls: u64,
    openings: u64,
    kept: u64,
    appends: u64,
    writes: u64,
    reads: u64,
    random: u64,
    files: u64,
    existing: u64,
    created: u64,
    deleted: u64,
    appended: bool,
    whole: Sizes,
}

impl Done {
    /// Appends of each file, from which a file is a log.
    const LOG_APPENDS: u64 = 16;
    /// Calls of an opening, from which random ones make a data file: what is read in parts has the size that these parts need.
    const DATA_CALLS: u64 = 3;
    /// The same for calls of any kind.
    const OPEN_CALLS: u64 = 64;

    fn usage(&self) -> Use {
        let transfers = self.reads + self.writes;
        if self.appends * 10 >= transfers * 8
            && self.appends >= Self::LOG_APPENDS * self.files.max(1)
            && self.deleted * 2 <= self.files
        {
            return Use::Log;
        }
        let openings = self.openings.max(1);
        let random = self.random * 5 >= transfers.max(1) && transfers >= Self::DATA_CALLS * openings;
        if random || self.kept >= Self::OPEN_CALLS * openings.max(self.created) {
            return Use::Data;
        }
        let passing = self.existing * 5 <= self.files && self.deleted * 2 >= self.created;
        if self.created > 0 && passing { Use::Passing } else { Use::Whole }
    }
}

/// At most `most` filesets.
pub(crate) fn sets(profile: &Profile, most: usize) -> Sets {
    let seen = &profile.seen;
    let done = done(profile);
    let mut by_place: BTreeMap<(&[String], Use, &str, u8), Vec<u32>> = BTreeMap::new();
    for (group, (pattern, done)) in seen.groups.values.iter().zip(&done).enumerate() {
        if done.files > 0 && done.calls > 0 {
            let usage = done.usage();
            // files that stay open are few, and each kind has its own size and use
            let name = if matches!(usage, Use::Data | Use::Log) { pattern.name.as_str() } else { "" };
            by_place.entry((&pattern.directory, usage, name, pattern.order)).or_default().push(group as u32);
        }
    }
    let mut sets: Vec<Set> = by_place
        .into_iter()
        .map(|((directory, usage, _, order), groups)| {
            let calls = groups.iter().map(|group| done[*group as usize].calls).sum();
            empty(directory.to_vec(), usage, order, groups, calls)
        })
        .collect();
    while merge_rare(&mut sets) {}
    while sets.len() > most.max(1) {
        merge_smallest(&mut sets);
    }
    sets.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.directory.cmp(&b.directory)));
    let mut of = vec![None; seen.groups.values.len()];
    for (number, set) in sets.iter_mut().enumerate() {
        set.groups.iter().for_each(|group| of[*group as usize] = Some(number));
        for done in set.groups.iter().map(|group| &done[*group as usize]) {
            set.appended |= done.appended;
            set.whole.merge(&done.whole);
        }
        fill(profile, set);
    }
    let files = sets.len();
    sets.extend(directories(&seen.files));
    name(&mut sets);
    for (group, pattern) in seen.groups.values.iter().enumerate() {
        of[group] = of[group].or_else(|| nearest(&sets[..files], pattern));
    }
    let directories = (files < sets.len()).then_some(files);
    Sets { sets, of, directories }
}

fn done(profile: &Profile) -> Vec<Done> {
    let seen = &profile.seen;
    let mut done = vec![Done::default(); seen.groups.values.len()];
    for file in seen.files.iter().filter(|file| file.touched && !file.is_directory) {
        let Some(done) = done.get_mut(file.group as usize) else { continue };
        done.files += 1;
        done.existing += u64::from(file.initial.is_some());
        done.created += file.created;
        done.deleted += file.deleted;
    }
    for ((shape, group), stats) in seen.threads.iter().flat_map(|thread| &thread.steps.steps) {
        let (Some(shape), Some(done)) =
            (seen.shapes.values.get(*shape as usize), done.get_mut(*group as usize))
        else {
            continue;
        };
        done.calls += stats.calls;
        let kept;
        let acts: &[Act] = match shape {
            Shape::Opening { acts, creates, .. } => {
                done.openings += stats.count;
                done.appended |= !creates && acts.contains(&Act::Append);
                acts
            }
            Shape::Kept(act, _) => {
                done.kept += stats.count;
                kept = [*act];
                &kept
            }
            Shape::Named(_) => &[],
        };
        for (act, stats) in acts.iter().zip(&stats.acts) {
            done.reads += if act.is_read() { stats.calls } else { 0 };
            done.writes += if act.is_write() { stats.calls } else { 0 };
            done.appends += if *act == Act::Append { stats.calls } else { 0 };
            if matches!(act, Act::ReadWhole | Act::WriteWhole) {
                done.whole.merge(&stats.sums);
            }
            done.random += if matches!(act, Act::ReadRandom | Act::WriteRandom) { stats.calls } else { 0 };
        }
    }
    done
}

fn empty(directory: Vec<String>, usage: Use, order: u8, groups: Vec<u32>, calls: u64) -> Set {
    Set {
        name: String::new(),
        directory,
        usage,
        order,
        groups,
        names: Vec::new(),
        calls,
        files: 0,
        existing: 0,
        created: 0,
        deleted: 0,
        directories: 0,
        initial: Sizes::default(),
        largest: Sizes::default(),
        whole: Sizes::default(),
        appended: false,
        only: None,
        hottest_tenth: 0.0,
    }
}

fn common(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A set with a smaller share of the calls joins one of the same use, if neither is of files that stay open.
const RARE: f64 = 0.05;

/// Joins a rare set with the nearest one of its use; false: there is none.
fn merge_rare(sets: &mut Vec<Set>) -> bool {
    let all: u64 = sets.iter().map(|set| set.calls).sum();
    let many = |usage| matches!(usage, Use::Whole | Use::Passing);
    let rare = |set: &Set| many(set.usage) && (set.calls as f64) < all as f64 * RARE;
    let mut order: Vec<usize> = (0..sets.len()).filter(|at| rare(&sets[*at])).collect();
    order.sort_by_key(|at| (sets[*at].calls, *at));
    let Some(at) = order.into_iter().find(|at| has_alike(sets, *at)) else { return false };
    let small = sets.remove(at);
    join(sets, small);
    true
}

/// Whether there is another set of the same use whose files are as large.
fn has_alike(sets: &[Set], at: usize) -> bool {
    sets.iter().filter(|set| (set.usage, set.order) == (sets[at].usage, sets[at].order)).count() > 1
}

/// Puts a set to that which is nearest: that of the fewest calls among those that have another one of their use and size, if
/// there are such.
fn merge_smallest(sets: &mut Vec<Set>) {
    let rank = |at: &usize| (!has_alike(sets, *at), sets[*at].calls, *at);
    let Some(at) = (0..sets.len()).min_by_key(rank) else { return };
    let small = sets.remove(at);
    join(sets, small);
}

/// Puts a set to the nearest other one.
fn join(sets: &mut [Set], small: Set) {
    let near = |set: &Set| {
        let far = std::cmp::Reverse(set.order.abs_diff(small.order));
        (set.usage == small.usage, far, common(&set.directory, &small.directory), set.calls)
    };
    let Some(into) = sets.iter_mut().max_by_key(|set| near(set)) else { return };
    into.directory.truncate(common(&into.directory, &small.directory));
    into.groups.extend(small.groups);
    into.calls += small.calls;
}

/// The set in whose directory something lies, or that lies in it: the longest common way.
fn nearest(sets: &[Set], pattern: &Pattern) -> Option<usize> {
    let whole: Vec<String> = pattern.directory.iter().chain([&pattern.name]).cloned().collect();
    let rank = |at: &usize| {
        let set = &sets[*at];
        let far = std::cmp::Reverse(set.order.abs_diff(pattern.order));
        (common(&set.directory, &whole), set.usage != Use::Passing, far, set.calls)
    };
    (0..sets.len()).max_by_key(rank)
}

/// The set of the directories that the program made and removed.
fn directories(files: &[FileSeen]) -> Option<Set> {
    let mut set = empty(Vec::new(), Use::Directories, 0, Vec::new(), 0);
    for file in files.iter().filter(|file| file.is_directory && file.created + file.deleted > 0) {
        set.directories += 1;
        set.created += file.created;
        set.deleted += file.deleted;
    }
    (set.directories > 0).then_some(set)
}

/// Counts the files of a set.
fn fill(profile: &Profile, set: &mut Set) {
    let seen = &profile.seen;
    let ours: HashSet<u32> = set.groups.iter().copied().collect();
    let (mut directories, mut opens) = (HashSet::new(), Vec::new());
    let files = seen.files.iter().filter(|file| file.touched && !file.is_directory);
    for file in files.filter(|file| ours.contains(&file.group)) {
        set.files += 1;
        set.created += file.created;
        set.deleted += file.deleted;
        if let Some(size) = file.initial {
            set.existing += 1;
            set.initial.add(size);
        }
        set.largest.add(file.largest);
        directories.insert(file.directory);
        opens.push(file.opens);
    }
    set.directories = directories.len() as u64;
    set.hottest_tenth = hottest(&mut opens, 0.1);
    let names = set.groups.iter().filter_map(|group| seen.groups.values.get(*group as usize));
    set.names = names.map(|pattern| pattern.name.clone()).collect();
    set.names.dedup();
    let kept = matches!(set.usage, Use::Data | Use::Log);
    set.only = set.names.first().filter(|_| kept && set.names.len() == 1).cloned();
}

/// Letters that a WML word may hold everywhere.
pub(crate) fn word(text: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let word: String = text.chars().map(plain).take(NAME_MAX).collect();
    word.trim_matches(|letter: char| !letter.is_ascii_alphabetic()).into()
}

/// Letters of a name.
const NAME_MAX: usize = 24;

/// Names sets by the last directory that has letters, and by their use.
fn name(sets: &mut [Set]) {
    let mut taken: HashSet<String> = HashSet::new();
    for set in sets {
        let directory = set.directory.iter().rev().map(|part| word(part)).find(|word| !word.is_empty());
        let directory = directory.unwrap_or_else(|| "files".into());
        let only = set.only.as_deref().map(word).filter(|word| !word.is_empty());
        let stem = match only {
            Some(only) => format!("{directory}-{only}"),
            None => format!("{directory}{}", set.usage.suffix()),
        };
        set.name = free(&mut taken, stem);
    }
}

/// A name that is not taken: the stem, or with a number.
pub(crate) fn free(taken: &mut HashSet<String>, stem: String) -> String {
    let numbered = (2..).map(|number| format!("{stem}{number}"));
    let name = std::iter::once(stem.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = name.unwrap_or(stem);
    taken.insert(name.clone());
    name
}
