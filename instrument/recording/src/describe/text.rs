//! The personality as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::loops::{Flowop, Loop, Unit};
use super::profile::Profile;
use super::roles::{Role, roles};
use super::sets::{Set, Sets, Use, sets};
use super::sizes::{SizeRow, Sizes, ratio};

/// Lines of a personality, about, so that a person can read and edit it.
const LINES_MAX: usize = 200;
/// Roles with a smaller share of calls and of time are left out, or put together.
const SMALL_ROLE: f64 = 0.01;
/// Filesets, roles, and units of a role; the first row whose text is short enough is taken.
const SHORTER: [(usize, usize, usize); 12] = [
    (8, 8, 12),
    (7, 8, 8),
    (6, 6, 6),
    (6, 5, 5),
    (6, 4, 4),
    (5, 4, 3),
    (5, 3, 2),
    (5, 2, 2),
    (4, 2, 2),
    (4, 1, 2),
    (3, 1, 2),
    (2, 1, 2),
];
/// Events a second of a personality's `eventgen`, at least: its rate is a whole number, and `$speed` divides it.
const EVENTS_MIN: f64 = 100.0;
/// Two numbers of executions this near to a whole one are that.
const WHOLE: f64 = 0.02;
/// Seconds that a personality runs, at least and at most.
const RUN_SECONDS: (u64, u64) = (10, 60);
/// A fileset that is used up by the run has so many more files than the run takes.
const SPARE: f64 = 1.25;

/// A personality of WML from a profile: its threads, files and operations, with comments that say what each came from. Its text
/// is a function of the profile alone. `loadline check` accepts it, whatever the recording holds.
pub fn describe(profile: &Profile, name: &str) -> String {
    let texts = SHORTER.iter().map(|limits| Text::of(profile, name, *limits));
    let mut last = String::new();
    for text in texts {
        last = text;
        if last.lines().count() <= LINES_MAX {
            break;
        }
    }
    last
}

struct Text<'a> {
    profile: &'a Profile,
    sets: Sets,
    roles: Vec<(Role, Loop)>,
    small: Vec<String>,
    seconds: u64,
    variables: BTreeMap<String, String>,
    head: String,
    body: String,
}

impl<'a> Text<'a> {
    fn of(
        profile: &'a Profile,
        name: &str,
        (most_sets, most_roles, most_units): (usize, usize, usize),
    ) -> String {
        let sets = sets(profile, most_sets);
        let (large, small) = split(roles(profile, &sets), most_roles);
        let loops = large.into_iter().map(|role| {
            let of = Loop::of(&role, &profile.seen, &sets.sets, most_units);
            (role, of)
        });
        let roles: Vec<(Role, Loop)> = loops.filter(|(_, of)| !of.units.is_empty()).collect();
        let seconds = (profile.seconds().ceil() as u64).clamp(RUN_SECONDS.0, RUN_SECONDS.1);
        let mut text = Text {
            profile,
            sets,
            roles,
            small,
            seconds,
            variables: BTreeMap::new(),
            head: String::new(),
            body: String::new(),
        };
        text.about(name);
        text.pace();
        text.filesets();
        text.processes();
        text.join()
    }

    fn join(self) -> String {
        let mut text = self.head;
        self.variables.iter().for_each(|(name, value)| _ = writeln!(text, "set ${name}={value}"));
        text + &self.body
    }

    /// The comment at the top.
    fn about(&mut self, name: &str) {
        let profile = self.profile;
        let head = &mut self.head;
        let shown: String =
            name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        _ = writeln!(
            head,
            "# {shown}: from a recording of {:.1} s, {} calls.",
            profile.seconds(),
            profile.total()
        );
        let largest = calls_by_count(profile);
        let mix = largest
            .iter()
            .map(|(call, count)| format!("{call} {:.1} %", 100.0 * ratio(*count, profile.total())));
        wrapped(head, "Mix of calls: ", mix);
        let unsaid = profile.unsaid.iter().map(|(what, count)| (what.to_string(), *count));
        let more = [
            ("calls that the recorder lost", profile.lost),
            ("requests of io_uring and libaio, which it does not see", profile.unseen_requests),
            ("opens of files that stay open", profile.kept_openings),
        ];
        let more = more.into_iter().map(|(what, count)| (what.into(), count));
        let mut unsaid: Vec<(String, u64)> = unsaid.chain(more).filter(|(_, count)| *count > 0).collect();
        unsaid.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        if !unsaid.is_empty() {
            let unsaid = unsaid.iter().map(|(what, count)| format!("{what} {count}"));
            wrapped(head, "Not said here: ", unsaid);
        }
        if !self.small.is_empty() {
            let others = self.roles.iter().any(|(role, _)| role.name == OTHERS);
            let begin = if others { "Small roles, together `others`: " } else { "Small roles, left out: " };
            wrapped(head, begin, self.small.iter().cloned());
        }
        head.push('\n');
    }

    /// The rate of the recording, and how to drop it.
    fn pace(&mut self) {
        let per_second = self.roles.iter().map(|(_, of)| of.passes / self.profile.seconds());
        let events = per_second.fold(EVENTS_MIN, f64::max).ceil();
        _ = writeln!(
            self.head,
            "# Each role keeps the recorded rate: its `pace-` takes events. --set speed=0: as fast as it goes,\n\
             # each role for itself, until files to make or remove run out; --set speed=200: twice as fast. What stands behind a `#` is from the recording.\n\
             set $speed=100\n\
             set $events={events:.0} * $speed / 100\n\
             set $dir=/tmp"
        );
        for number in 0..self.roles.len() {
            let (role, of) = &self.roles[number];
            let each = events / (of.passes / self.profile.seconds());
            let name = format!("{}_pace", variable(&self.role_name(number)));
            let (instances, threads) =
                (role.instances(), format!("{}_threads", variable(&self.role_name(number))));
            self.variables.insert(threads, instances.to_string());
            self.executions(&name, each.max(1.0));
        }
    }

    /// Roles may have one name: those behind the first get a number.
    fn role_name(&self, number: usize) -> String {
        let name = &self.roles[number].0.name;
        let before = self.roles[..number].iter().filter(|(role, _)| role.name == *name).count();
        if before == 0 { name.clone() } else { format!("{name}-{}", before + 1) }
    }

    /// A number of executions as it stands in an attribute: whole, or a variable of that mean.
    fn executions(&mut self, name: &str, mean: f64) -> String {
        let whole = mean.round();
        if whole >= 1.0 && (mean - whole).abs() <= WHOLE * whole.min(5.0) {
            if name.ends_with("_pace") {
                self.variables.insert(name.into(), format!("{whole:.0}"));
                return format!("${name}");
            }
            return format!("{whole:.0}");
        }
        // the whole part of a uniform value from m to m + 1 has the mean m
        let (low, high) = (mean, mean + 1.0);
        let value = format!("cvar(type=cvar-uniform, parameters=lower:{low:.4};upper:{high:.4})");
        self.variables.insert(name.into(), value);
        format!("${name}")
    }

    /// A size as it stands in an attribute: a number, or a variable.
    fn size(&mut self, name: &str, sizes: &Sizes, least: u64) -> String {
        let rows = sizes.rows();
        match rows.as_slice() {
            [] => least.to_string(),
            [one] if one.low == one.high => one.low.max(least).to_string(),
            _ => {
                let table = table(&rows, least);
                let same = self.variables.iter().find(|(_, value)| **value == table);
                let name = same.map_or(name.to_string(), |(name, _)| name.clone());
                self.variables.insert(name.clone(), table);
                format!("${name}")
            }
        }
    }

    fn filesets(&mut self) {
        self.body.push('\n');
        for number in 0..self.sets.sets.len() {
            let set = self.sets.sets[number].clone();
            if !self.is_used(number) {
                continue;
            }
            let threads = self.roles.iter().map(|(role, _)| role.instances()).sum::<u64>();
            if set.usage == Use::Directories {
                self.directories(number, threads);
                continue;
            }
            let (entries, percent) = self.entries(number, threads);
            let size = self.size(&format!("{}_size", variable(&set.name)), set.sizes(), 0);
            if is_skewed(&set) {
                let hot = (set.hottest_tenth * 100.0).round() as u64;
                let (tenth, last) = (entries / 10, entries - 1);
                let value = format!(
                    "randvar(type=tabular, randtable={{{{{hot}, 0, {tenth}}}, {{{}, {tenth}, {last}}}}})",
                    100 - hot
                );
                self.variables.insert(hot_name(&set), value);
            }
            let width = (set.files.max(1)).div_ceil(set.directories.max(1)).max(2);
            let width = if set.directories <= 1 { entries.max(2) } else { width };
            self.fileset_comment(&set);
            _ = writeln!(
                self.body,
                "define fileset name={}, path=$dir, entries={entries}, size={size}, dirwidth={width}, prealloc={percent}",
                set.name
            );
        }
    }

    /// The set of directories: what the run makes must find room, and what it removes must be there.
    fn directories(&mut self, number: usize, threads: u64) {
        let set = &self.sets.sets[number];
        let units = || self.roles.iter().flat_map(|(_, of)| &of.units);
        let of_kind = |kind: &str| -> f64 {
            units().filter(|unit| unit.flowops[0].kind == kind).map(|unit| unit.count).sum()
        };
        let (makes, removes) = (of_kind("makedir"), of_kind("removedir"));
        let runs = self.seconds as f64 / self.profile.seconds() * SPARE;
        let enough = |takes: f64, gives: f64| match takes > 0.0 {
            true => ((takes - gives).max(0.0) * runs) as u64 + 2 * threads.max(1),
            false => 0,
        };
        let (room, there) =
            (enough(makes, removes).min(ENTRIES_MAX), enough(removes, makes).min(ENTRIES_MAX));
        // where both are needed, neither is rounded away
        let share = 100.0 * ratio(there, there + room);
        let percent = if room > 0 && there > 0 { share.round().clamp(1.0, 99.0) } else { share };
        let leafdirs = (there + room).max(1);
        _ = writeln!(
            self.body,
            "# directories: {} made, {} removed\n\
             define fileset name={}, path=$dir, entries=0, size=0, dirwidth=20, prealloc={percent:.0}, leafdirs={leafdirs}",
            set.created, set.deleted, set.name
        );
    }

    /// Whether a loop has an operation on a set.
    fn is_used(&self, number: usize) -> bool {
        let mut flowops = self.roles.iter().flat_map(|(_, of)| &of.units).flat_map(|unit| &unit.flowops);
        flowops.any(|one| one.set == Some(number))
    }

    fn fileset_comment(&mut self, set: &Set) {
        let names: Vec<&str> = set.names.iter().map(String::as_str).take(4).collect();
        let more = if set.names.len() > names.len() { ", ..." } else { "" };
        let place = format!("/{}/ {}{more}", set.directory.join("/"), names.join(" "));
        let plain = |letter: char| if letter.is_control() { '?' } else { letter };
        let place: String = place.chars().map(plain).take(70).collect();
        let hot = match set.files {
            0..20 => String::new(),
            _ => format!("; the most opened tenth has {:.0} % of the opens", 100.0 * set.hottest_tenth),
        };
        _ = writeln!(
            self.body,
            "# {place}: {}; {} files, {} at the start, {} made, {} removed{hot}",
            set.usage.words(),
            set.files,
            set.existing,
            set.created,
            set.deleted,
        );
    }

    /// Entries, and the share of them that is there at the start, in percent. What the run makes must find room, and what it
    /// removes must be there. Files that no loop makes or removes are there from the start.
    fn entries(&self, number: usize, threads: u64) -> (u64, u64) {
        let set = &self.sets.sets[number];
        let units = || self.roles.iter().flat_map(|(_, of)| &of.units);
        let makes: f64 = units().filter(|unit| unit.creates == Some(number)).map(|unit| unit.count).sum();
        let removes = |unit: &&Unit| {
            let own = unit.creates == Some(number);
            unit.flowops.iter().any(|one| one.kind == "deletefile" && (one.set == Some(number) || own))
        };
        let removes: f64 = units().filter(removes).map(|unit| unit.count).sum();
        if makes + removes == 0.0 {
            return (set.files.clamp(1, ENTRIES_MAX), 100);
        }
        let runs = self.seconds as f64 / self.profile.seconds() * SPARE;
        let turns = 8 * threads.max(1);
        let mut there = set.existing + ((removes - makes).max(0.0) * runs) as u64;
        if units().any(|unit| unit.needs == Some(number)) {
            there = there.max(turns.min(set.files)).max(1);
        }
        let mut room = ((makes - removes).max(0.0) * runs) as u64;
        if makes > 0.0 {
            room = room.max(set.files.saturating_sub(set.existing)).max(2 * turns);
        }
        let percent = (there as f64 / (there + room).max(1) as f64 * 100.0).ceil() as u64;
        ((there + room).clamp(1, ENTRIES_MAX), percent.min(100))
    }

    fn processes(&mut self) {
        if self.roles.is_empty() {
            self.body.push_str("\ndefine process name=idle\n{\n  thread name=idle\n  {\n    flowop delay name=wait, value=1\n  }\n}\n");
        }
        for number in 0..self.roles.len() {
            self.process(number);
        }
        _ = write!(self.body, "\neventgen rate=$events\nrun {}\n", self.seconds);
    }

    fn process(&mut self, number: usize) {
        let (role, of) = self.roles[number].clone();
        let name = self.role_name(number);
        let lines: String = of.units.iter().map(|unit| self.unit(unit, &name, of.passes)).collect();
        let inside = 100.0 * ratio(role.took_ns, role.took_ns.saturating_add(role.think_ns));
        _ = writeln!(
            self.body,
            "\n# {}: {} threads seen, {:.1} at a time, at most {}; {:.1} passes a second; {inside:.0} % of its time in calls",
            role.name,
            role.threads,
            role.mean,
            role.most,
            of.passes / self.profile.seconds(),
        );
        let left_out = 100.0 * ratio(of.left_out, role.calls);
        if left_out >= 0.05 {
            _ = writeln!(self.body, "# left out: {left_out:.1} % of its calls");
        }
        _ = write!(
            self.body,
            "define process name={name}\n{{\n  thread name={name}, instances=${threads}_threads\n  {{\n    \
             flowop eventlimit name=pace-{name}, iters=${threads}_pace\n{lines}  }}\n}}\n",
            threads = variable(&name)
        );
    }

    /// The lines of a unit in its role's loop; a composite flowop, where one is needed, is written before the process.
    fn unit(&mut self, unit: &Unit, role: &str, passes: f64) -> String {
        let long = format!("{role}-{}", unit.name);
        let each = if unit.flowops.len() == 1 { unit.flowops[0].iters } else { 1.0 };
        let iters = self.executions(&format!("{}_n", variable(&long)), unit.count / passes * each);
        let times = format!("  # {:.0} times", unit.count * each);
        if let [one] = unit.flowops.as_slice() {
            return format!("    {}{times}\n", self.flowop(one, &unit.name, &long, &iters));
        }
        let single = iters == "1";
        let (indent, mut lines) = (if single { "    " } else { "  " }, String::new());
        for one in &unit.flowops {
            let name = if single { format!("{}-{}", unit.name, one.name) } else { one.name.clone() };
            _ = writeln!(lines, "{indent}{}", self.inner(one, &name, &long));
        }
        if single {
            return lines.replacen('\n', &format!("{times}\n"), 1);
        }
        _ = write!(self.body, "\ndefine flowop name={long}\n{{\n{lines}}}\n");
        format!("    flowop {long} name={}, iters={iters}{times}\n", unit.name)
    }

    fn inner(&mut self, one: &Flowop, name: &str, unit: &str) -> String {
        let variable = format!("{}_{}_n", variable(unit), variable(&one.name));
        let iters = self.executions(&variable, one.iters);
        self.flowop(one, name, &format!("{unit}-{}", one.name), &iters)
    }

    fn flowop(&mut self, one: &Flowop, name: &str, long: &str, iters: &str) -> String {
        let mut line = format!("flowop {} name={name}", one.kind);
        let set = one.set.and_then(|set| self.sets.sets.get(set)).cloned();
        if let Some(set) = &set {
            _ = write!(line, ", filesetname={}", set.name);
        }
        if one.fd > 0 {
            _ = write!(line, ", fd={}", one.fd);
        }
        if let Some(sizes) = &one.sizes {
            let size = self.size(&format!("{}_size", variable(long)), sizes, 1);
            _ = write!(line, ", iosize={size}");
        }
        if let Some(set) = set.filter(|set| one.picks && is_skewed(set)) {
            _ = write!(line, ", indexed=${}", hot_name(&set));
        }
        let marks = [
            (one.random, "random"),
            (one.data_only || one.modes.sync, "dsync"),
            (one.modes.direct, "directio"),
        ];
        marks.iter().filter(|(on, _)| *on).for_each(|(_, mark)| _ = write!(line, ", {mark}"));
        if iters != "1" {
            _ = write!(line, ", iters={iters}");
        }
        line
    }
}

/// Files of a set, so that making them takes no hours.
const ENTRIES_MAX: u64 = 2_000_000;

/// Whether some files are opened much more often than others. Only a set that does not change can say so.
fn is_skewed(set: &Set) -> bool {
    let changes = set.created + set.deleted > 0;
    let share = (0.3..0.98).contains(&set.hottest_tenth);
    share && !changes && set.existing >= 50
}

fn hot_name(set: &Set) -> String {
    format!("{}_hot", variable(&set.name))
}

/// A name as that of a variable.
fn variable(name: &str) -> String {
    name.replace(['-', '.'], "_")
}

fn table(rows: &[SizeRow], least: u64) -> String {
    let rows = rows.iter().map(|row| {
        let (low, high) = (row.low.max(least), row.high.max(least));
        format!("{{{}, {low}, {high}}}", row.percent)
    });
    format!("randvar(type=tabular, randtable={{{}}})", rows.collect::<Vec<_>>().join(", "))
}

fn calls_by_count(profile: &Profile) -> Vec<(&'static str, u64)> {
    let of = profile.calls.iter().map(|(call, stats)| (call.name(), stats.count));
    let mut calls: Vec<(&'static str, u64)> = of.filter(|(_, count)| *count > 0).collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    calls
}

/// A comment of several lines.
fn wrapped(to: &mut String, begin: &str, parts: impl Iterator<Item = String>) {
    let mut line = format!("# {begin}");
    for (number, part) in parts.enumerate() {
        if number > 0 {
            line.push_str(", ");
        }
        if line.len() + part.len() > COMMENT_WIDTH {
            _ = writeln!(to, "{}", line.trim_end());
            line = "#   ".into();
        }
        line.push_str(&part);
    }
    _ = writeln!(to, "{}.", line.trim_end());
}

/// The name of the role that small ones are put together in.
const OTHERS: &str = "others";
/// Letters of a line of a comment.
const COMMENT_WIDTH: usize = 120;

/// Roles that are worth a process, and what is said about the others. Small ones that together matter are one role.
fn split(roles: Vec<Role>, most: usize) -> (Vec<Role>, Vec<String>) {
    let calls: u64 = roles.iter().map(|role| role.calls).sum();
    let took: u64 = roles.iter().fold(0, |sum, role| sum.saturating_add(role.took_ns));
    let matters =
        |role: &Role| ratio(role.calls, calls) >= SMALL_ROLE || ratio(role.took_ns, took) >= SMALL_ROLE;
    let (mut large, mut small): (Vec<Role>, Vec<Role>) = roles.into_iter().partition(matters);
    small.extend(large.drain(large.len().min(most)..));
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    small.iter().for_each(|role| *by_name.entry(&role.name).or_default() += role.calls);
    let names = by_name.iter().map(|(name, calls)| format!("{name} ({calls} calls)")).take(12).collect();
    if ratio(small.iter().map(|role| role.calls).sum(), calls) < SMALL_ROLE {
        return (large, names);
    }
    let mut others = small.into_iter().reduce(|mut one, other| {
        one.merge(other);
        one
    });
    if let Some(others) = &mut others {
        others.name = OTHERS.into();
        others.concurrency();
    }
    large.extend(others);
    (large, names)
}
