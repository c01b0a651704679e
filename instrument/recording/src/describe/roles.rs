//! Roles: threads that do the same.

use std::collections::BTreeMap;

use serde::Serialize;

use super::profile::Profile;
use super::seen::{Seen, ThreadSeen};
use super::sets::{Sets, sets, word};
use super::sizes::ratio;
use super::step::{Shape, StepStats};
use crate::call::Call;

/// What a role is, in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoleSummary {
    /// The program's name, without numbers.
    pub name: String,
    /// Threads that the recording saw.
    pub threads: u64,
    /// Their mean number at a time.
    pub concurrent: f64,
    /// Their largest number at a time.
    pub concurrent_max: u64,
    /// Their calls.
    pub calls: u64,
    /// Nanoseconds in calls, of all of them.
    pub took_ns: u64,
    /// Nanoseconds between calls, of all of them.
    pub think_ns: u64,
}

impl Profile {
    /// Threads that do the same, the role of most calls first.
    pub fn roles(&self) -> Vec<RoleSummary> {
        let summary = |role: Role| RoleSummary {
            name: role.name,
            threads: role.threads,
            concurrent: role.mean,
            concurrent_max: role.most,
            calls: role.calls,
            took_ns: role.took_ns,
            think_ns: role.think_ns,
        };
        roles(self, &sets(self, SETS_MAX)).into_iter().map(summary).collect()
    }
}

/// Filesets by which threads are told apart.
const SETS_MAX: usize = 8;

/// A step of a role: its shape and its set.
pub(crate) type Key = (u32, usize);

/// Threads that do the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Role {
    pub name: String,
    /// Threads that the recording saw.
    pub threads: u64,
    pub calls: u64,
    pub took_ns: u64,
    pub think_ns: u64,
    pub steps: BTreeMap<Key, StepStats>,
    pub next: BTreeMap<(Key, Key), u64>,
    /// Calls on sets, by which threads are compared.
    mix: BTreeMap<(Call, usize), u64>,
    lives: Vec<(u64, u64)>,
    /// Mean number of threads at a time, over the role's own length.
    pub mean: f64,
    /// The largest number at a time.
    pub most: u64,
}

/// Threads whose mixes differ by less are one role, if their program is the same.
const SAME_MIX: f64 = 0.3;
/// The same for threads of few calls, whose mix says little.
const SAME_MIX_FEW: f64 = 0.7;
/// Calls of such a thread.
const FEW_CALLS: u64 = 40;

/// The roles, the one of most calls first.
pub(crate) fn roles(profile: &Profile, sets: &Sets) -> Vec<Role> {
    let seen = &profile.seen;
    let mut order: Vec<&ThreadSeen> = seen.threads.iter().filter(|thread| thread.calls > 0).collect();
    order.sort_by_key(|thread| std::cmp::Reverse(thread.calls));
    let mut roles: Vec<Role> = Vec::new();
    for thread in order {
        let one = of_thread(seen, thread, sets);
        let limit = if thread.calls < FEW_CALLS { SAME_MIX_FEW } else { SAME_MIX };
        let near = roles.iter_mut().filter(|role| role.name == one.name);
        let near = near.map(|role| (distance(&role.mix, &one.mix), role)).min_by(|a, b| a.0.total_cmp(&b.0));
        match near {
            Some((distance, role)) if distance <= limit => role.merge(one),
            _ => roles.push(one),
        }
    }
    roles.iter_mut().for_each(Role::concurrency);
    roles.sort_by_key(|role| std::cmp::Reverse(role.calls));
    roles
}

fn of_thread(seen: &Seen, thread: &ThreadSeen, sets: &Sets) -> Role {
    let name: String = thread.name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    let name = match word(&name) {
        name if name.is_empty() => "thread".into(),
        name => name,
    };
    let mut role = Role {
        name,
        threads: 1,
        calls: thread.calls,
        took_ns: thread.took_ns,
        think_ns: thread.think_ns,
        lives: vec![(thread.first_ns, thread.last_ns)],
        ..Role::default()
    };
    let key = |(shape, group): (u32, u32)| {
        Some((shape, sets.of_step(seen.shapes.values.get(shape as usize), group)?))
    };
    for (step, stats) in &thread.steps.steps {
        let Some(key) = key(*step) else { continue };
        role.steps.entry(key).or_default().merge(stats);
        let mut add = |call, count| *role.mix.entry((call, key.1)).or_default() += count;
        match seen.shapes.values.get(key.0 as usize) {
            Some(Shape::Opening { acts, .. }) => {
                add(Call::Open, stats.count);
                acts.iter().zip(&stats.acts).for_each(|(act, stats)| add(act.call(), stats.calls));
            }
            Some(Shape::Kept(act, _)) => add(act.call(), stats.count),
            Some(Shape::Named(_)) => add(Call::Stat, stats.calls),
            None => {}
        }
    }
    for ((from, to), count) in &thread.steps.next {
        if let (Some(from), Some(to)) = (key(*from), key(*to)) {
            *role.next.entry((from, to)).or_default() += count;
        }
    }
    role
}

/// Half the sum of differences of shares: 0 for equal mixes, 1 for mixes that have nothing in common.
fn distance(a: &BTreeMap<(Call, usize), u64>, b: &BTreeMap<(Call, usize), u64>) -> f64 {
    let (all_a, all_b): (u64, u64) = (a.values().sum(), b.values().sum());
    if all_a == 0 || all_b == 0 {
        return f64::from(u8::from(all_a != all_b));
    }
    let of = |mix: &BTreeMap<(Call, usize), u64>, key, all| ratio(mix.get(key).copied().unwrap_or(0), all);
    let mut sum = a.keys().map(|key| (of(a, key, all_a) - of(b, key, all_b)).abs()).sum::<f64>();
    sum += b.keys().filter(|key| !a.contains_key(key)).map(|key| of(b, key, all_b)).sum::<f64>();
    sum / 2.0
}

impl Role {
    pub fn merge(&mut self, other: Role) {
        self.threads += other.threads;
        self.calls += other.calls;
        self.took_ns = self.took_ns.saturating_add(other.took_ns);
        self.think_ns = self.think_ns.saturating_add(other.think_ns);
        for (key, stats) in &other.steps {
            self.steps.entry(*key).or_default().merge(stats);
        }
        for (key, count) in other.next {
            *self.next.entry(key).or_default() += count;
        }
        for (key, count) in other.mix {
            *self.mix.entry(key).or_default() += count;
        }
        self.lives.extend(other.lives);
    }

    /// How many threads there are at a time.
    pub fn concurrency(&mut self) {
        let begins = self.lives.iter().map(|(begin, _)| (*begin, 1));
        let mut changes: Vec<(u64, i64)> =
            begins.chain(self.lives.iter().map(|(_, end)| (*end, -1))).collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0_i64, 0_i64);
        for (_, change) in &changes {
            now += change;
            most = most.max(now);
        }
        let span = changes.last().map_or(0, |(last, _)| last.saturating_sub(changes[0].0));
        let lived = self.lives.iter().map(|(begin, end)| end.saturating_sub(*begin) as f64).sum::<f64>();
        self.mean = if span == 0 { most as f64 } else { lived / span as f64 };
        self.most = most.max(1) as u64;
    }

    /// Threads of the personality.
    pub fn instances(&self) -> u64 {
        (self.mean.round() as u64).clamp(1, INSTANCES_MAX)
    }
}

/// Threads of a role, so that a personality runs on any machine.
const INSTANCES_MAX: u64 = 512;
