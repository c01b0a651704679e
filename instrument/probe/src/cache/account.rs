//! What the moments say of each file. Pure.

use std::collections::HashMap;

use analysis::cache::{Account, FileAccount};

use super::event::{CacheEvent, CacheEventKind};

/// A page that came while we looked.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// Which of all moments brought it.
    came: usize,
    by: i32,
    /// Reading brought it, not writing.
    read_in: bool,
    wanted: bool,
}

/// What a thread does with a file.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// Pages the kernel is reading for it.
    window: (u64, u64),
    /// The moment of its last request.
    asked: usize,
    /// Its last request: a long read asks again from where the cache's batch ended.
    request: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct File {
    account: FileAccount,
    pages: HashMap<u64, Page>,
    threads: HashMap<i32, Thread>,
}

/// Accounts for `moments` (in order of time). `size_bytes` knows how large a file is: a read may ask for pages past
/// its end. Pages in the cache before the first moment count as hits when they are asked for.
pub fn account(moments: &[CacheEvent], size_bytes: impl Fn(u64) -> Option<u64>) -> Account {
    let mut files: HashMap<u64, File> = HashMap::new();
    for (at, moment) in moments.iter().enumerate() {
        let file = files.entry(moment.inode).or_default();
        match moment.what {
            CacheEventKind::Added { pages } => file.added(moment, at, pages),
            CacheEventKind::Removed { pages } => file.removed(moment.index, pages),
            CacheEventKind::ReadAhead { pages } => {
                // the kernel plans past the end and stops there
                file.begins(moment, pages.min(pages_of(&size_bytes, moment).saturating_sub(moment.index)));
            }
            CacheEventKind::Wanted { last } => {
                let end = pages_of(&size_bytes, moment);
                file.wanted(moment, at, last.min(end.saturating_sub(1)));
            }
            CacheEventKind::Fault => file.fault(moment, at),
            // neither a hit nor a miss, since nobody has asked; but no waste any more
            CacheEventKind::Mapped { last } => file.mark(moment.index, last),
        }
    }
    let account = |(inode, mut file): (u64, File)| {
        file.account.unused = file.pages.values().filter(|page| page.read_in && !page.wanted).count() as u64;
        (inode, file.account)
    };
    Account {
        files: files.into_iter().map(account).filter(|(_, file)| *file != FileAccount::default()).collect(),
    }
}

/// The file's size in pages; without limit when it is not known.
fn pages_of(size_bytes: &impl Fn(u64) -> Option<u64>, moment: &CacheEvent) -> u64 {
    size_bytes(moment.inode).map_or(u64::MAX, |size| size.div_ceil(4096))
}

impl File {
    fn thread(&mut self, pid: i32) -> &mut Thread {
        self.threads.entry(pid).or_default()
    }

    fn begins(&mut self, moment: &CacheEvent, pages: u64) {
        let window = (moment.index, moment.index.saturating_add(pages));
        let thread = self.thread(moment.pid);
        // the kernel tells twice when it falls back from large folios to single pages
        if thread.window.0 == window.0 && window.0 != window.1 && thread.window.1 >= window.1 {
            return;
        }
        thread.window = window;
        self.account.windows += 1;
        self.account.window_pages += pages;
        self.account.window_pages_max = self.account.window_pages_max.max(pages);
    }

    fn added(&mut self, moment: &CacheEvent, at: usize, pages: u64) {
        let (from, to) = self.thread(moment.pid).window;
        for index in moment.index..moment.index.saturating_add(pages) {
            let read_in = (from..to).contains(&index);
            self.account.read_in += u64::from(read_in);
            self.pages.insert(index, Page { came: at, by: moment.pid, read_in, wanted: false });
        }
    }

    fn removed(&mut self, index: u64, pages: u64) {
        for index in index..index.saturating_add(pages) {
            let page = self.pages.remove(&index);
            self.account.wasted += u64::from(page.is_some_and(|page| page.read_in && !page.wanted));
        }
    }

    fn wanted(&mut self, moment: &CacheEvent, at: usize, last: u64) {
        let thread = *self.thread(moment.pid);
        let goes_on = thread.request.is_some_and(|(from, to)| to == last && from < moment.index);
        *self.thread(moment.pid) = Thread { asked: at, request: Some((moment.index, last)), ..thread };
        for index in moment.index..=last {
            let Some(page) = self.pages.get_mut(&index) else {
                // there before we looked
                if !goes_on {
                    self.account.wanted += 1;
                    self.account.hits += 1;
                }
                continue;
            };
            let came_for_this = page.read_in && page.by == moment.pid && page.came > thread.asked;
            if goes_on && (page.wanted || !came_for_this) {
                continue;
            }
            if goes_on {
                // counted as there already, when the read began; it was not
                self.account.hits = self.account.hits.saturating_sub(1);
                self.account.misses += 1;
            } else {
                self.account.wanted += 1;
                if came_for_this {
                    self.account.misses += 1;
                } else {
                    self.account.hits += 1;
                    self.account.ahead_hits += u64::from(page.read_in && !page.wanted);
                }
            }
            page.wanted = true;
        }
    }

    fn fault(&mut self, moment: &CacheEvent, at: usize) {
        self.thread(moment.pid).asked = at;
        self.account.wanted += 1;
        match self.pages.get_mut(&moment.index) {
            Some(page) => {
                self.account.hits += 1;
                self.account.ahead_hits += u64::from(page.read_in && !page.wanted);
                page.wanted = true;
            }
            // the kernel tells of faults of pages that are not mapped; one that was there before we looked would
            // have been mapped with its neighbours
            None => self.account.misses += 1,
        }
    }

    fn mark(&mut self, from: u64, last: u64) {
        for index in from..=last {
            if let Some(page) = self.pages.get_mut(&index) {
                page.wanted = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: &[(i32, u64, CacheEventKind)]) -> FileAccount {
        let moments: Vec<CacheEvent> = (0_u64..)
            .zip(steps)
            .map(|(at_ns, (pid, index, what))| CacheEvent {
                at_ns,
                pid: *pid,
                inode: 7,
                index: *index,
                what: *what,
            })
            .collect();
        account(&moments, |_| Some(64 * 4096)).total()
    }

    #[test]
    fn a_sequential_read_misses_once_and_then_hits_what_was_read_ahead() {
        let found = run(&[
            (1, 0, CacheEventKind::ReadAhead { pages: 4 }),
            (1, 0, CacheEventKind::Added { pages: 4 }),
            (1, 0, CacheEventKind::Wanted { last: 0 }),
            (1, 4, CacheEventKind::ReadAhead { pages: 8 }),
            (1, 4, CacheEventKind::Added { pages: 4 }),
            (1, 8, CacheEventKind::Added { pages: 4 }),
            (1, 1, CacheEventKind::Wanted { last: 1 }),
            (1, 2, CacheEventKind::Wanted { last: 2 }),
            (1, 0, CacheEventKind::Wanted { last: 0 }),
        ]);
        assert_eq!((found.wanted, found.misses, found.hits, found.ahead_hits), (4, 1, 3, 2));
        assert_eq!((found.read_in, found.unused, found.wasted), (12, 9, 0));
        assert_eq!((found.windows, found.window_pages_max), (2, 8));
    }

    #[test]
    fn what_leaves_unasked_for_is_waste_and_what_was_written_is_not() {
        let found = run(&[
            (1, 0, CacheEventKind::ReadAhead { pages: 4 }),
            (1, 0, CacheEventKind::Added { pages: 4 }),
            (1, 0, CacheEventKind::Wanted { last: 1 }),
            (1, 0, CacheEventKind::Removed { pages: 4 }),
            (1, 40, CacheEventKind::Added { pages: 2 }),
            (1, 40, CacheEventKind::Wanted { last: 40 }),
            (1, 40, CacheEventKind::Removed { pages: 2 }),
        ]);
        assert_eq!((found.read_in, found.wasted, found.unused), (4, 2, 0));
        assert_eq!((found.wanted, found.misses, found.hits), (3, 2, 1), "a page just written is a hit");
    }

    #[test]
    fn a_read_past_the_end_asks_for_the_file_only_and_a_long_one_is_counted_once() {
        assert_eq!(run(&[(1, 60, CacheEventKind::Wanted { last: 99 })]).wanted, 4);
        let found = run(&[
            (1, 0, CacheEventKind::Wanted { last: 9 }),
            (1, 4, CacheEventKind::ReadAhead { pages: 2 }),
            (1, 4, CacheEventKind::Added { pages: 2 }),
            (1, 4, CacheEventKind::Wanted { last: 9 }),
        ]);
        assert_eq!((found.wanted, found.hits, found.misses), (10, 8, 2));
    }

    #[test]
    fn another_threads_page_is_a_hit() {
        let found = run(&[
            (1, 0, CacheEventKind::ReadAhead { pages: 1 }),
            (1, 0, CacheEventKind::Added { pages: 1 }),
            (2, 0, CacheEventKind::Wanted { last: 0 }),
        ]);
        assert_eq!((found.hits, found.misses), (1, 0));
    }

    #[test]
    fn faults() {
        let found = run(&[
            (1, 3, CacheEventKind::Fault),
            (1, 0, CacheEventKind::ReadAhead { pages: 8 }),
            (1, 0, CacheEventKind::Added { pages: 8 }),
            (1, 0, CacheEventKind::Mapped { last: 5 }),
            (1, 6, CacheEventKind::Fault),
        ]);
        assert_eq!((found.wanted, found.misses, found.hits, found.unused), (2, 1, 1, 1));
        assert_eq!(run(&[]), FileAccount::default());
    }

    #[test]
    fn any_trace_keeps_the_books_balanced() {
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut steps = Vec::new();
            for _ in 0..300 {
                let (index, pages) = (next(80), 1 << next(4));
                let what = match next(6) {
                    0 => CacheEventKind::Added { pages },
                    1 => CacheEventKind::Removed { pages },
                    2 | 3 => CacheEventKind::Wanted { last: index + next(10) },
                    4 => CacheEventKind::Fault,
                    _ => CacheEventKind::ReadAhead { pages },
                };
                steps.push((next(2) as i32, index, what));
            }
            let found = run(&steps);
            assert_eq!(found.wanted, found.hits + found.misses, "{steps:?}");
            assert!(
                found.ahead_hits <= found.hits && found.wasted + found.unused <= found.read_in,
                "{found:?}"
            );
        }
    }
}
