//! Inodes in memory: what is known of those that someone holds, and of some that nobody does.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};

use crate::content::Content;
use crate::error::{Error, Result};
use crate::fs::Reserved;
use crate::key;
use crate::record::{self, Inode, MOVED};

const SHARDS: usize = 16;
/// Hashes of names kept for all directories together, at about 16 bytes each.
const KNOWN_NAMES_MAX: usize = 3 << 20;

/// Looks at a state that others have before its thread goes to sleep: as long as an operation or two on a directory, some 20 us.
const TRIES: u32 = 1000;

/// Names noted of a directory that changes. With more it is read again from the store.
const TOUCHED_MAX: usize = 32;

/// One name of an inode.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub parent: Arc<Node>,
    pub name: Box<[u8]>,
}

/// The names of an inode; most have one, which needs no memory besides.
#[derive(Debug, Default)]
pub(crate) enum Names {
    #[default]
    None,
    One(Name),
    More(Vec<Name>),
}

impl From<Name> for Names {
    fn from(name: Name) -> Names {
        Names::One(name)
    }
}

impl Deref for Names {
    type Target = [Name];

    fn deref(&self) -> &[Name] {
        match self {
            Names::None => &[],
            Names::One(name) => std::slice::from_ref(name),
            Names::More(names) => names,
        }
    }
}

impl Names {
    pub fn push(&mut self, name: Name) {
        *self = match std::mem::take(self) {
            Names::None => Names::One(name),
            Names::One(first) => Names::More(vec![first, name]),
            Names::More(mut names) => {
                names.push(name);
                Names::More(names)
            }
        };
    }

    /// Takes the name at `at`, which there must be, out; the last one moves there.
    pub fn swap_remove(&mut self, at: usize) {
        match self {
            Names::More(names) => _ = names.swap_remove(at),
            _ => *self = Names::None,
        }
    }

    pub fn clear(&mut self) {
        *self = Names::None;
    }
}

/// Spreads numbers that are counted up, or hashes already, over a map.
#[derive(Debug, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, n: u64) {
        // By the golden ratio, as Knuth has it; both halves of the product, so that every bit counts.
        let product = u128::from(self.0 ^ n) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// Inode numbers side by side in one shard.
const RUN: u64 = 64;

/// Puts inode numbers that were given out one after the other side by side in a map.
#[derive(Debug, Default)]
pub(crate) struct InodeHasher(u64);

impl Hasher for InodeHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(self.0 << 8 ^ u64::from(*b)));
    }

    fn write_u64(&mut self, ino: u64) {
        // Without the bits that are the same for a whole shard. Maps look at the top bits as well as at the lowest.
        let n = ino / (RUN * SHARDS as u64) * RUN + ino % RUN;
        self.0 = n ^ n << 57;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type InoMap = HashMap<u64, Arc<Node>, BuildHasherDefault<InodeHasher>>;

/// An inode in memory.
#[derive(Debug)]
pub(crate) struct Node {
    pub ino: u64,
    /// The home of a directory; never changes.
    dir_home: Option<Box<[u8]>>,
    /// Lookups that were not forgotten, and nodes in memory that name this one as their parent.
    pub refs: AtomicU64,
    /// Open orphans whose home lies in this directory's.
    pub orphans: AtomicU32,
    /// Somebody asked for it since [`Nodes::cold`] passed.
    used: AtomicBool,
    /// The kernel's page cache may hold some of its data.
    pub cached: AtomicBool,
    /// Somebody has read it as a directory.
    listed: AtomicBool,
    /// What a holder was told of its attributes last, in short.
    told: AtomicU64,
    state: RwLock<State>,
}

/// What of an inode changes. It is as in the store, unless `unsaved`.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub inode: Inode,
    /// For a directory one (the root: none); for a file those that were met.
    pub names: Names,
    /// The record lies by itself, not in the entry.
    pub linked: bool,
    /// The home of a file that was moved, linked or unlinked.
    pub home: Option<Box<[u8]>>,
    pub target: Box<[u8]>,
    /// All names of a directory, as far as that is known.
    pub known: Option<KnownNames>,
    /// No name is left, or none was given yet.
    pub dead: bool,
    /// None was given yet: it may be.
    pub linkable: bool,
    /// Names in this directory that have changed, if somebody wants to know.
    pub touched: Mutex<Option<Box<ChangedNames>>>,
    /// The record could not be written for want of space.
    pub unsaved: bool,
    /// Data that were taken are not there, and no sync of the file has said so.
    pub loss: Option<Box<Loss>>,
    /// There is no `security.capability` among its attributes.
    pub incapable: bool,
    /// Where the last write ended.
    pub last_end: u64,
    /// What `fallocate` reserved, if that is known already.
    pub reserved: Option<Box<Reserved>>,
    /// The directory whose `orphans` counts this one.
    pub lender: Option<Arc<Node>>,
    /// All of a small file.
    pub content: OnceLock<Content>,
    /// All of it was read since it was changed.
    pub read_whole: AtomicBool,
    /// It waits for its turn to go out of the whole files in memory.
    pub queued: AtomicBool,
}

/// Why data that were taken are not there.
#[derive(Clone, Debug)]
pub(crate) enum LossCause {
    NoSpace,
    Failed(String),
}

impl LossCause {
    /// What a call says that hears of it.
    pub fn error(&self) -> Error {
        match self {
            LossCause::NoSpace => Error::NoSpace,
            LossCause::Failed(why) => Error::DataLost(why.clone()),
        }
    }
}

/// What was locked, if nobody had it.
fn if_free<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Data of a file that were taken and are not there.
#[derive(Debug)]
pub(crate) struct Loss {
    cause: LossCause,
    /// Where they would begin. What was written from in front of it since lies before it.
    from: u64,
    /// A write has heard of it.
    heard: bool,
    /// The kernel has, with a write of what it has collected, and says it to whoever syncs the file.
    reported: bool,
}

impl Loss {
    pub fn new(cause: LossCause, from: u64) -> Loss {
        Loss { cause, from, heard: false, reported: false }
    }

    pub fn error(&self) -> Error {
        self.cause.error()
    }

    /// Whether a write has heard of it.
    pub fn is_heard(&self) -> bool {
        self.heard
    }

    /// Refuses a write at `off`: the first one, and any behind what is lost until a sync of the file has said so. Taken, as ext4
    /// does, it would leave a hole in the middle, and programs that never sync (`cp`, `tar`) would not hear of it: the kernel asks
    /// nothing here when they close. A log goes on after one error, as it is appended to where its data end.
    pub fn check_write(&mut self, off: u64) -> Result<()> {
        if std::mem::replace(&mut self.heard, true) && off <= self.from {
            return Ok(());
        }
        Err(self.refusal())
    }

    /// The first time an error, for the kernel, which writes what it has collected.
    pub fn report(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.reported, true) { Ok(()) } else { Err(self.refusal()) }
    }

    /// An error of its own: for want of space alone it would be tried again when another file has lost something, and then go
    /// well, unheard.
    fn refusal(&self) -> Error {
        match self.error() {
            Error::NoSpace => Error::LostForSpace,
            other => other,
        }
    }

    /// All before `end` was written from `off` on.
    pub fn written(&mut self, off: u64, end: u64) {
        if off <= self.from {
            self.from = self.from.max(end);
        }
    }

    /// The file was cut to `size` bytes: what was lost behind them is not missing any more.
    pub fn truncated(&mut self, size: u64) {
        if size <= self.from {
            (self.from, self.heard, self.reported) = (u64::MAX, true, true);
        }
    }
}

/// Names in a directory that may have changed since it had a version.
#[derive(Debug)]
pub(crate) struct ChangedNames {
    pub version: u64,
    pub names: Vec<Box<[u8]>>,
}

impl ChangedNames {
    pub fn since(version: u64) -> ChangedNames {
        ChangedNames { version, names: Vec::new() }
    }
}

impl State {
    /// A name in this directory comes, goes or leads elsewhere.
    pub fn touch(&mut self, name: &[u8]) {
        let touched = self.touched.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Some(some) = touched {
            if some.names.len() < TOUCHED_MAX {
                some.names.push(name.into());
            } else {
                *touched = None;
            }
        }
    }

    /// The names that were touched since somebody asked.
    pub fn touched(&self) -> MutexGuard<'_, Option<Box<ChangedNames>>> {
        self.touched.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// To be called before the file's data or size change, unless its content is changed with them.
    pub fn changes(&mut self) {
        self.content.take();
        *self.read_whole.get_mut() = false;
    }
}

impl Node {
    pub fn new(ino: u64, dir_home: Option<Box<[u8]>>, state: State) -> Node {
        let (refs, orphans) = (AtomicU64::new(0), AtomicU32::new(0));
        let [used, cached, listed] = [true, false, false].map(AtomicBool::new);
        let told = AtomicU64::new(0);
        Node { ino, dir_home, refs, orphans, used, cached, listed, told, state: RwLock::new(state) }
    }

    /// Somebody reads it as a directory, and may come back to any of its names. Whether somebody has before.
    pub fn note_listed(&self) -> bool {
        // Looked at first: many threads may read one.
        self.is_listed() || self.listed.swap(true, Ordering::AcqRel)
    }

    /// Whether somebody has read it as a directory since it is in memory.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// Notes that a holder is told these attributes.
    pub fn tell(&self, inode: &Inode) {
        self.told.store(inode.in_short(), Ordering::Relaxed);
    }

    /// Whether somebody holds it and was told these attributes last. A hint: what holders do with them is not known.
    pub fn is_told(&self, inode: &Inode) -> bool {
        self.refs.load(Ordering::Relaxed) > 0 && self.told.load(Ordering::Relaxed) == inode.in_short()
    }

    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(|e| e.into_inner())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        // Many threads that make and remove files in one directory are a queue for its state. Who sleeps in it is woken long
        // after it was free, and meanwhile processors are idle.
        for _ in 0..TRIES {
            if let Some(state) = self.try_write() {
                return state;
            }
            std::hint::spin_loop();
        }
        self.state.write().unwrap_or_else(|e| e.into_inner())
    }

    /// The state, if nobody changes it.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, State>> {
        if_free(self.state.try_read())
    }

    /// The state, if nobody has it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, State>> {
        if_free(self.state.try_write())
    }

    /// The state of a node that nobody else has yet.
    pub fn get_mut(&mut self) -> &mut State {
        self.state.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// The home of a directory.
    pub fn dir(&self) -> Result<&[u8]> {
        self.dir_home.as_deref().ok_or(Error::NotDirectory)
    }

    /// The home of anything.
    pub fn home(&self, state: &State) -> Result<Vec<u8>> {
        if let Some(home) = self.dir_home.as_deref().or(state.home.as_deref()) {
            return Ok(home.to_vec());
        }
        let name =
            state.names.first().ok_or_else(|| Error::Corrupt(format!("inode {} is nowhere", self.ino)))?;
        Ok(key::home(name.parent.dir()?, false, &name.name, self.ino))
    }

    /// Where the record lies.
    pub fn record_key(&self, state: &State) -> Result<Vec<u8>> {
        if self.ino == key::ROOT {
            return Ok(key::ROOT_RECORD.to_vec());
        }
        if state.linked {
            return Ok(key::linked(self.ino));
        }
        let name =
            state.names.first().ok_or_else(|| Error::Corrupt(format!("inode {} is nowhere", self.ino)))?;
        Ok(key::entry(name.parent.dir()?, &name.name))
    }

    /// The home as the record of `inode` has it: if it was moved.
    fn moved_home<'a>(&'a self, state: &'a State, inode: &Inode) -> &'a [u8] {
        let home = self.dir_home.as_deref().or(state.home.as_deref());
        home.filter(|_| inode.flags & MOVED != 0).unwrap_or_default()
    }

    /// The record with `inode` instead of the node's own attributes.
    pub fn record(&self, state: &State, inode: &Inode) -> Vec<u8> {
        record::encode(self.ino, inode, Some(self.moved_home(state, inode)), &state.target)
    }

    /// Hands key and value of that record to `put`, in parts.
    pub fn with_record<R>(
        &self,
        state: &State,
        inode: &Inode,
        put: impl FnOnce(&[&[u8]], &[&[u8]]) -> R,
    ) -> Result<R> {
        let home = self.moved_home(state, inode);
        let head = record::head(self.ino, inode, home.len());
        let value = [&head, home, &state.target];
        match state.names.first() {
            Some(name) if !state.linked => Ok(put(&key::entry_parts(name.parent.dir()?, &name.name), &value)),
            _ => Ok(put(&[&self.record_key(state)?], &value)),
        }
    }
}

/// The hashes of all names of a directory: what is not among them does not exist.
#[derive(Debug)]
pub(crate) struct KnownNames {
    names: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
    total: Arc<AtomicUsize>,
}

impl KnownNames {
    pub fn may_hold(&self, hash: u64) -> bool {
        self.names.contains(&hash)
    }

    pub fn remove(&mut self, hash: u64) {
        if self.names.remove(&hash) {
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for KnownNames {
    fn drop(&mut self) {
        self.total.fetch_sub(self.names.len(), Ordering::Relaxed);
    }
}

/// All nodes in memory.
#[derive(Debug)]
pub(crate) struct Nodes {
    shards: [Mutex<InoMap>; SHARDS],
    /// Hash of parent and name to inode number; a hint that is verified.
    dentries: [Mutex<Map<u64>>; SHARDS],
    hasher: RandomState,
    known_total: Arc<AtomicUsize>,
    /// Nodes that nobody holds.
    pub idle: AtomicUsize,
    /// All nodes.
    pub count: AtomicUsize,
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes {
            shards: Default::default(),
            dentries: Default::default(),
            hasher: RandomState::new(),
            known_total: Arc::default(),
            idle: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    fn shard(&self, ino: u64) -> MutexGuard<'_, InoMap> {
        self.shards[(ino / RUN) as usize % SHARDS].lock().unwrap_or_else(|e| e.into_inner())
    }

    fn dentry_shard(&self, hash: u64) -> MutexGuard<'_, Map<u64>> {
        self.dentries[hash as usize % SHARDS].lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn get(&self, ino: u64) -> Option<Arc<Node>> {
        let node = self.shard(ino).get(&ino).cloned()?;
        if !node.used.load(Ordering::Relaxed) {
            node.used.store(true, Ordering::Relaxed);
        }
        Some(node)
    }

    /// The node of `ino`, which `make` makes if there is none.
    pub fn get_or(&self, ino: u64, make: impl FnOnce() -> Result<Node>) -> Result<Arc<Node>> {
        let mut shard = self.shard(ino);
        if let Some(node) = shard.get(&ino) {
            return Ok(node.clone());
        }
        let node = Arc::new(make()?);
        node.read().names.iter().for_each(|name| self.hold(&name.parent));
        shard.insert(ino, node.clone());
        drop(shard);
        self.idle.fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        node.read().names.iter().for_each(|name| self.remember(&name.parent, &name.name, ino));
        Ok(node)
    }

    /// Adds a node that was just made under its one name, whose hash is `hash`; the caller holds it.
    pub fn add(&self, node: Node, hash: u64) {
        node.refs.store(1, Ordering::Relaxed);
        let ino = node.ino;
        node.read().names.iter().for_each(|name| self.hold(&name.parent));
        self.shard(ino).insert(ino, Arc::new(node));
        self.count.fetch_add(1, Ordering::Relaxed);
        self.dentry_shard(hash).insert(hash, ino);
    }

    /// Takes a node that nobody holds out; false if it was out already.
    pub fn remove(&self, ino: u64) -> bool {
        let found = self.shard(ino).remove(&ino).is_some();
        if found {
            self.idle.fetch_sub(1, Ordering::Relaxed);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }

    pub fn hold(&self, node: &Node) {
        if node.refs.fetch_add(1, Ordering::AcqRel) == 0 {
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns true if nobody holds the node any more.
    pub fn release(&self, node: &Node, count: u64) -> bool {
        let before =
            node.refs.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| Some(n.saturating_sub(count)));
        let idle = before.is_ok_and(|n| n > 0 && n <= count);
        if idle {
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
        idle
    }

    /// Up to `most` files that are held and that nobody asked for since the last pass; `turn` says where to look,
    /// counting up.
    pub fn cold(&self, turn: usize, most: usize) -> Vec<u64> {
        let shard = self.shards[turn % SHARDS].lock().unwrap_or_else(|e| e.into_inner());
        let held = |node: &Node| node.dir_home.is_none() && node.refs.load(Ordering::Relaxed) > 0;
        let unused = |node: &Node| !node.used.swap(false, Ordering::Relaxed);
        shard.values().filter(|node| held(node) && unused(node)).take(most).map(|node| node.ino).collect()
    }

    /// The names of an inode in memory, as parent and name; none if somebody is changing it.
    pub fn names_of(&self, ino: u64) -> Vec<(u64, Box<[u8]>)> {
        let node = self.shard(ino).get(&ino).cloned();
        let Some(node) = node else { return Vec::new() };
        let names = node.state.try_read();
        names
            .map_or_else(|_| Vec::new(), |s| s.names.iter().map(|n| (n.parent.ino, n.name.clone())).collect())
    }

    /// Every node there is now.
    pub fn all(&self) -> Vec<Arc<Node>> {
        let shards = self.shards.iter().map(|s| s.lock().unwrap_or_else(|e| e.into_inner()));
        shards.flat_map(|shard| shard.values().cloned().collect::<Vec<_>>()).collect()
    }

    pub fn hash(&self, parent: &Node, name: &[u8]) -> u64 {
        self.hasher.hash_one((parent.ino, name))
    }

    pub fn remember(&self, parent: &Node, name: &[u8], ino: u64) {
        let hash = self.hash(parent, name);
        self.dentry_shard(hash).insert(hash, ino);
    }

    pub fn forget_name(&self, parent: &Node, name: &[u8]) {
        let hash = self.hash(parent, name);
        self.dentry_shard(hash).remove(&hash);
    }

    /// The node in memory that has this name.
    pub fn named(&self, parent: &Node, hash: u64, name: &[u8]) -> Option<Arc<Node>> {
        let ino = *self.dentry_shard(hash).get(&hash)?;
        let node = self.get(ino)?;
        let fits = node.read().names.iter().any(|n| n.parent.ino == parent.ino && *n.name == *name);
        fits.then_some(node)
    }

    /// Holds the node in memory that has this name, and shows its state; needs no lock of the directory. Who takes a name away
    /// decides what becomes of the node while its state is locked, and sees that it is held.
    pub fn hold_named<R>(
        &self,
        parent: &Node,
        hash: u64,
        name: &[u8],
        show: impl FnOnce(&Node, &State) -> R,
    ) -> Option<R> {
        let ino = *self.dentry_shard(hash).get(&hash)?;
        let node = self.get(ino)?;
        let state = node.read();
        let fits = state.names.iter().any(|n| n.parent.ino == parent.ino && *n.name == *name);
        fits.then(|| {
            self.hold(&node);
            show(&node, &state)
        })
    }

    /// The names of a directory that was just made.
    pub fn no_names(&self) -> KnownNames {
        KnownNames { names: HashSet::default(), total: self.known_total.clone() }
    }

    /// Adds a name to what is known of a directory, unless all of them together take too much memory.
    pub fn learn(&self, known: &mut Option<KnownNames>, hash: u64) {
        let Some(names) = known else { return };
        if self.known_total.load(Ordering::Relaxed) >= KNOWN_NAMES_MAX {
            *known = None;
        } else if names.names.insert(hash) {
            self.known_total.fetch_add(1, Ordering::Relaxed);
        }
    }
}
