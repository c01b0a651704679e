"""Leaves out the rules of the prefetcher one by one, and says what each is worth in the simulator.

    cargo run -p loadline-lab --example prefetch_traces -- TRACES SEED...
    python3 systems/prefetch/examples/mutate.py TRACES DIRECTORY [WORD...]

Each mutation is a change of the text of the sources, in a copy; rustc builds the core and the example `mutate` from it in
seconds. With LATE in the environment threads wake late. Cells are kept in DIRECTORY. A row: cells moved, that fail, that fail newly, that gain 3 % less, least gain of
before; first of the known sets, then of the drawn ones; then the mean gain of all. WORD: only those whose name has it;
with the word `force` some decision is taken for the policy, to see whether any other would have done.
TRACES may be `files`: programs that open one file after another, those that have an order, then those that only seem to.
"""

import concurrent.futures, math, os, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# Name; file, text, what stands for it.
MUTATIONS = [
    ('trial: all of it', [('trial.rs', '        if self.busy.swap(true, Acquire) {', '        if true || self.busy.swap(true, Acquire) {')]),
    ('trial: plainly faster by time alone', [('trial.rs', 'if gains || self.with.is_plainly_faster() {', 'if gains {')]),
    ('trial: tail of reads', [('trial.rs', 'let later = late', 'let later = false && late')]),
    ('latency: partial of upward unknown', [('file/account.rs', 'Shape::Unknown => stream.course.is_upwards(),', 'Shape::Unknown => false,')]),
    ('latency: partial beside live stream', [('file/account.rs', '                    _ if self.streams.iter().any(live) => true,\n', '')]),
    ('latency: typical is the latency', [('latency.rs', '        match self.typical_ns.load(Relaxed) {', '        match 0 {')]),
    ('pairs: all', [('device.rs', '        match self.pairs.rate() {', '        match 0 {')]),
    ('pairs: resolved', [('pairs.rs', 'if queued && together && resolved {', 'let _ = resolved; if queued && together {')]),
    ('pairs: queued', [('pairs.rs', 'if queued && together && resolved {', 'let _ = queued; if together && resolved {')]),
    ('pairs: behind our requests', [('pairs.rs', 'let meets = queued', 'let meets = false && queued')]),
    ('pairs: hits as misses', [('pairs.rs', 'short if short < latency_ns - latency_ns / 8 => latency_ns,', 'short if short < latency_ns - latency_ns / 8 => short,')]),
    ('pairs: own ones only', [('pairs.rs', '            if !self.paired.swap(true, Relaxed) {', '            if false {')]),
    ('delivery: saturated', [('traffic.rs', '        self.saturated.store(next, Relaxed);', '        let _ = next;')]),
    ('delivery: learn_full', [('traffic.rs', '        let known = self.saturated.load(Relaxed);\n        let next', '        if true { return; }\n        let known = self.saturated.load(Relaxed);\n        let next')]),
    ('delivery: forgetting', [('traffic.rs', 'rate.max(known - known / 50)', 'rate.max(known)')]),
    ('window: shrinking', [('window.rs', '        let next = if queued {', '        let next = if false && queued {')]),
    ('window: limits of growth', [('window.rs', '} else if ahead < now / 2 || now > ample {', '} else if false {')]),
    ('window: half used', [('window.rs', '} else if ahead < now / 2 || now > ample {', '} else if now > ample {')]),
    ('window: ample', [('window.rs', '} else if ahead < now / 2 || now > ample {', '} else if ahead < now / 2 {')]),
    ('window: slow growth', [('window.rs', '            now + now / 16 / streams', '            now + now / 2 / streams')]),
    ('window: shorter of two waits', [('window.rs', '            before => waited_ns.min(before),', '            _ => waited_ns,')]),
    ('window: first of the latency', [('window.rs', '(latency_ns / 4).clamp(', '(256u64 << 10).max(latency_ns * 0).clamp(')]),
    ('window: growth times streams', [('window.rs', '/ (streams / 2).max(1)\n', '\n')]),
    ('wait: requests of idle', [('device.rs', 'let idle = latency + ns_of(requests, self.full_rate());', 'let idle = latency;')]),
    ('wait: pieces of strides', [('device.rs', 'let requests = request.saturating_mul(streams.max(4)).min(chunk * streams);', 'let _ = request; let requests = chunk * streams;')]),
    ('traffic: grows', [('model.rs', 'let times = if self.demand.grows { 4 } else { 2 };', 'let times = 2;')]),
    ('traffic: grows 4', [('model.rs', 'let times = if self.demand.grows { 4 } else { 2 };', 'let times = 4;')]),
    ('traffic: peak', [('traffic.rs', '            peak: self.peak.load(Relaxed),', '            peak: self.rate.load(Relaxed),')]),
    ('decide: gain', [('decide.rs', 'false => (!is_gainful(model, stream.rate_alone(past.now_ns))).then_some(Reason::Saturated),', 'false => None,')]),
    ('decide: gain: woken', [('model.rs', 'let woken = if shared {', 'let woken = if false && shared {')]),
    ('decide: gain once streams', [('decide.rs', '    if model.streams > 0 {\n        return true;\n    }\n', '')]),
    ('decide: slow reads', [('decide.rs', 'if stream.slow_count() < 2 {', 'if stream.slow_count() < 1 {')]),
    ('forward: all left to the kernel', [('decide.rs', '    // It must show misses after the kernel had time to ramp up.', '    if true { return Some(Reason::KernelHasIt); }')]),
    ('forward: bdp <= readahead', [('decide.rs', 'if model.bdp() <= model.readahead || !past.is_ramped {', 'if !past.is_ramped {')]),
    ('forward: ramped', [('decide.rs', 'if model.bdp() <= model.readahead || !past.is_ramped {', 'if model.bdp() <= model.readahead {')]),
    ('forward: leaves out much', [('decide.rs', 'stream.course.with_gaps(100) >= 150 && model.bdp() < far && is_alone', 'let _ = far; false && is_alone')]),
    ('forward: is alone', [('decide.rs', 'stream.course.with_gaps(100) >= 150 && model.bdp() < far && is_alone', 'let _ = is_alone; stream.course.with_gaps(100) >= 150 && model.bdp() < far')]),
    ('forward: runs of few windows', [('decide.rs', 'if past.usual_run <= 8 * model.readahead {', 'if false {')]),
    ('forward: several', [('decide.rs', 'let several = rate >=', 'let several = false && rate >=')]),
    ('forward: with gaps', [('course.rs', 'scale(amount, way, read).max(amount)', '{ let _ = (way, read); amount }')]),
    ('forward: gains', [('decide.rs', 'rate > 0 && !several && model.is_gain(model.gain_ns(rate, false))', 'rate > 0 && !several')]),
    ('request: shared by rate', [('model.rs', 'self.has_strays || own_rate != 0 && self.demand.rate / 3 > own_rate / 2', 'self.has_strays')]),
    ('ahead: ramp', [('decide.rs', 'stream.ahead.depth().min(ramp)', 'stream.ahead.depth().min(u64::MAX.max(ramp))')]),
    ('ahead: stakes', [('decide.rs', 'proven_bytes().saturating_mul(stake)', 'proven_bytes().saturating_mul(2 + 0 * stake)')]),
    ('ahead: doubted', [('course.rs', 'self.run_bytes - self.doubted_bytes', 'self.run_bytes')]),
    ('ahead: run left', [('decide.rs', '.min(run_left)', '')]),
    ('ahead: share', [('decide.rs', '.min(share)', '')]),
    ('ahead: least', [('decide.rs', 'model.share_bytes(least)', 'model.share_bytes(0)')]),
    ('ahead: realign', [('ahead.rs', '        let Shape::Stride(stride) = course.shape else { return };', '        let Shape::Stride(stride) = course.shape else { return }; if true { return }')]),
    ('turns: all', [('model.rs', 'if self.is_queued() || !self.is_shared(own_rate) {', 'if true {')]),
    ('turns: one queue', [('file/claim.rs', 'if model.is_shared(own_rate) && device', 'if false && device')]),
    ('turns: misses in the queue', [('device.rs', '            self.queue.serve(now_ns, bytes, &model);', '            let _ = (now_ns, bytes);')]),
    ('turns: ample', [('model.rs', 'known.saturating_mul(2).min(ample)', '{ let _ = ample; known.saturating_mul(2) }')]),
    ('turns: own rate since', [('file/claim.rs', 'stream.base.rate().max(stream.rate_alone(now_ns))', 'stream.base.rate()')]),
    ('strays: all', [('device/live.rs', 'self.late.load(Relaxed) >= T::SAMPLE / 2 && self.are_many()', 'false')]),
    ('strays: late', [('device/live.rs', 'self.late.load(Relaxed) >= T::SAMPLE / 2 && self.are_many()', 'self.are_many()')]),
    ('strays: many', [('device/live.rs', 'strays.saturating_mul(T::RESOLUTION) >= sum(self.reads.each())', 'true')]),
    ('strays: stay', [('device/live.rs', '        if !self.are_many() {', '        if !self.are_many() || self.late.load(Relaxed) > 0 && is_stray && !is_late {')]),
    ('course: more agreement after mistakes', [('course.rs', '        match self.mistakes {\n            0 if', '        match 0 {\n            0 if')]),
    ('course: agreeing of full', [('course.rs', '            0 if !self.deltas.is_full() => None,', '            0 => None,')]),
    ('course: gaps forget', [('course.rs', '        if self.gaps >= 4 {', '        if false {')]),
    ('course: drift', [('course.rs', '            self.shape = self.drift();', '            let _ = Course::drift;')]),
    ('course: usual piece', [('course.rs', 'self.meets = (self.end <= usual && end > usual).then_some(false);', 'let _ = usual;')]),
    ('course: has read', [('file.rs', '            if stream.course.has_read(read.offset, read.len) {', '            if false {')]),
    ('course: contiguous by votes only', [('course.rs', '        if self.contiguous >= 3 {', '        if false {')]),
    ('streams: over', [('file.rs', '            if over {', '            if false && over {')]),
    ('streams: usual run', [('file.rs', '            self.reach.note_run(ended.course.run_bytes);', '')]),
    ('live: epochs', [('device/live.rs', 'now.max(before).min(self.begun.load(Relaxed))', '{ let _ = (now, before); self.begun.load(Relaxed) }')]),
    ('file: redundant', [('file.rs', '        if self.counters.redundant < 4 << 20 ||', '        if true || self.counters.redundant < 4 << 20 ||')]),
    ('rent: all', [('file/fetch.rs', 'if !mode.rents() || covered || fetched || ordered || !read.is_slow() {', 'if true {')]),
    ('rent: ordered but short runs', [('file/fetch.rs', 'stream.course.is_confirmed() && self.reason != Reason::ShortRuns', 'stream.course.is_confirmed()')]),
    ('rent: waits charged', [('rent.rs', '        self.credit.charge(device.waited_ns(elapsed_ns));', '')]),
    ('rent: width falls', [('rent.rs', '        self.width.on_wait(elapsed_ns.min(2 * typical_ns), typical_ns);', 'let _ = typical_ns;')]),
    ('rent: wait beside', [('file/fetch.rs', '                device.note_wait_beside(elapsed_ns);', '')]),
    ('rent: loss mean of both', [('rent/account.rs', 'lost / 2 + elapsed_ns / 2', '{ let _ = lost; elapsed_ns }')]),
    ('rent: loss one at a time', [('rent/account.rs', 'lost / 2 + elapsed_ns / 2', 'lost')]),
    ('rent: halved stakes', [('rent/account.rs', 'self.losses = if self.returned_ns > 0 { 0 } else { (self.losses + 1).min(4) };', '')]),
    ('rent: hits earn', [('rent.rs', '        self.credit.earn(typical_ns / 2);', 'let _ = typical_ns;')]),
    ('rent: credit', [('rent.rs', '        let lasts = self.credit.lasts();', '        let lasts = self.credit.lasts() || true;'), ('rent.rs', '            && self.credit.ns() > 0\n', '')]),
    ('rent: regions', [('rent.rs', '        self.regions.touch(offset, size);', '        let _ = (offset, size); self.regions.touch_all();')]),
    ('rent: gap of steps', [('file/fetch.rs', 'let gap_ns = match self.rent.width() as u64 {', 'let gap_ns = match 0 * self.rent.width() as u64 {')]),
    ('rent: step grows in width', [('rent/width.rs', '        if usize::from(self.fine) > 2 * self.get() && self.get() < most {', '        if false && self.get() < most {')]),
    ('rent: opened width at once', [('rent/width.rs', '        if usize::from(self.fine) > 2 * self.get() && self.get() < most {', '        if self.get() < most {')]),
    ('rent: free of the device', [('device.rs', 'self.fetch_bdp().saturating_sub(bytes_in(self.latency_ns(), self.traffic.demand().rate))', 'self.fetch_bdp()')]),
    ('rent: one fetch at a time', [('file/fetch.rs', 'if !device.fetching.begin() {', 'if !device.fetching.begin() && false {')]),
    ('pace: price', [('device.rs', '        self.pace.learn(bytes, elapsed_ns, self.own_transfer_ns(bytes), self.latency_ns());', '        let _ = (bytes, elapsed_ns);')]),
    ('pace: noise', [('pace.rs', 'let transfer_ns = transfer_ns.max(noise_ns).max(1_000);', 'let _ = noise_ns; let transfer_ns = transfer_ns.max(1_000);')]),
    ('pairs: upper quarter', [('pairs.rs', 'true => self.rates.rank(3, 4),', 'true => self.rates.second_highest().max(known - known / T::SAMPLE.pow(2)),')]),
    ('streams: strangers', [('file/streams.rs', '        reader != 0 && (', '        false && (')]),
    ('steer: far at once', [('file/steer.rs', 'if model.is_far() {', 'if false {')]),
    ('decide: outgrown', [('decide.rs', 'most if stream.course.run_bytes > most => u64::MAX,', '')]),
    ('files: numbered, all', [('order.rs', '        let later = several && !self.fetching;', '        if true { return false; }\n        let later = several && !self.fetching;')]),
    ('files: numbered, compared', [('order.rs', 'if rate >= self.without / 20 * 21 {', 'if rate >= self.without / 20 * 21 || true {')]),
    ('files: numbered, several left alone', [('order.rs', 'several && per_second(bytes) >= full_rate / 2 ||', '{ let _ = (per_second(bytes), full_rate); false } ||')]),
    ('files: numbered, first four of several', [('order.rs', 'let later = several && !self.fetching;', 'let later = false && several && !self.fetching;')]),
    ('files: numbered, read through', [('series.rs', 'self.row >= CONFIRM && self.through >= THROUGH', 'self.row >= CONFIRM')]),
    ('files: numbered, two in order', [('series.rs', 'self.row >= CONFIRM && self.through >= THROUGH', 'self.through >= THROUGH')]),
    ('files: numbered, window opens', [('series.rs', 'ahead >= self.window ||', 'ahead >= AHEAD_MAX as u64 - 1 ||')]),
    ('files: numbered, window of one', [('series.rs', 'ahead >= self.window ||', 'ahead >= 1 ||')]),
    ('files: numbered, bytes ahead', [('series.rs', 'ahead > 0 && self.ahead_bytes.saturating_add(others) >= bytes_max', '{ let _ = bytes_max; ahead > 0 && false && others > 0 }')]),
    ('files: numbered, others count', [('series.rs', 'self.ahead_bytes.saturating_add(others) >= bytes_max', '{ let _ = others; self.ahead_bytes >= bytes_max }')]),
    ('files: numbered, several places', [('series.rs', 'pub const SERIES: usize = 4;', 'pub const SERIES: usize = 1;')]),
    ('files: numbered, bytes by bdp', [('series.rs', 'bdp.saturating_mul(2).clamp(T::DEPTH_BYTES / 4, 2 * T::DEPTH_BYTES)', '{ let _ = bdp; T::DEPTH_BYTES / 4 }')]),
    ('files: numbered, rests', [('series.rs', 'if self.rests.rests(self.settled) {', 'if false {')]),
    ('files: walk, all', [('walk.rs', '        if self.cached_row >= 16 {', '        if true {')]),
    ('files: walk, cached', [('walk.rs', '        if self.cached_row >= 16 {', '        if false {')]),
    ('files: walk, useless', [('walk.rs', 'self.since_use >= (T::SAMPLE as u32).pow(2).max(self.window)', 'false')]),
    ('files: walk, window opens', [('walk.rs', 'self.ahead_files >= self.window\n', 'self.ahead_files >= 64 * T::SAMPLE as u32\n')]),
    ('files: walk, window stays', [('walk.rs', 'self.ahead_files >= self.window\n', 'self.ahead_files >= T::SAMPLE as u32\n')]),
    ('files: walk, bytes ahead', [('walk.rs', '|| self.ahead.bytes().saturating_add(others) >= bytes_max', '|| { let _ = (others, bytes_max); false }')]),
]

# What is forced on the policy instead: a decision that some cell would need, to see whether any would do.
AHEAD = 'stream.ahead.depth().min(ramp).min(run_left).min(share)'
STREAMS = ('tuning.rs', 'matches!(self, Mode::Auto | Mode::Predict | Mode::Observe)', 'false')
FETCHING = ('tuning.rs', 'matches!(self, Mode::Auto | Mode::Observe)', 'false')
QUEUED = ('model.rs', 'self.is_told_by_ours || self.has_strays\n', 'true\n')
TRUE = [
    ('sim/mod.rs', '    let device = Device::new();', '    crate::TRUE.set((options.latency_ns, options.bandwidth));\n    let device = Device::new();'),
    ('lib.rs', '#[macro_use]\nmod shared;', 'thread_local! { pub static TRUE: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) }; }\n#[macro_use]\nmod shared;'),
    ('device.rs', '        let latency_ns = self.latency_ns();\n        Model {', '        let latency_ns = self.latency_ns().min(crate::TRUE.get().0);\n        Model {'),
    ('device.rs', 'bandwidth: self.believed_rate(),', 'bandwidth: crate::TRUE.get().1,'),
    ('device.rs', 'bandwidth_max: self.full_rate(),', 'bandwidth_max: crate::TRUE.get().1,'),
    ('device.rs', '        found.min(1 << 40)', '        let _ = found; bytes_in(crate::TRUE.get().0, crate::TRUE.get().1)'),
]
FORCED = [
    ('force: off', [STREAMS, FETCHING]),
    ('force: no streams', [STREAMS]),
    ('force: no fetching', [FETCHING]),
    *[(f'force: ahead 1/{part}', [('decide.rs', AHEAD, f'{AHEAD} / {part}')]) for part in (2, 4, 8)],
    *[(f'force: window 1/{part}', [('device.rs', 'queue: self.window.bytes(latency_ns),', f'queue: self.window.bytes(latency_ns) / {part},')]) for part in (2, 4)],
    *[(f'force: steps 1/{part}', [('device.rs', '(self.fetch_bdp() * 3 / 4 / T::DELAY_PART)', f'(self.fetch_bdp() * 3 / 4 / T::DELAY_PART / {part})')]) for part in (2, 4)],
    ('force: one queue', [QUEUED]),
    ('force: the true device', TRUE),
    ('force: the true device in one queue', [*TRUE, QUEUED]),
]


def build(directory):
    """Why it cannot be built; None when it is."""
    common = ["rustc", "-A", "warnings", "-C", "opt-level=2", "--edition", "2024", "-L", directory]
    core = [*common, "--crate-type", "rlib", "--crate-name", "prefetch", f"{directory}/src/lib.rs", "--out-dir", directory]
    cells = [*common, f"{HERE}/mutate.rs", "--extern", f"prefetch={directory}/libprefetch.rlib", "-o", f"{directory}/mutate"]
    for command in (core, cells):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.stderr[:500]
    return None


def cells_of(path):
    cells = {}
    for line in open(path):
        gain, p99, digest, name = line.rstrip("\n").split("\t")
        cells[name] = (float(gain), float(p99), digest)
    return cells


def run(name, changes, traces, result):
    """The cells with some changes of the sources, or why there are none."""
    if not os.path.exists(result):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(f"{HERE}/../src", f"{directory}/src")
            for file, text, instead in changes:
                path = f"{directory}/src/{file}"
                source = open(path).read()
                if source.count(text) != 1:
                    return f"{name}: the text is {source.count(text)} times in {file}"
                open(path, "w").write(source.replace(text, instead))
            why = build(directory)
            if why:
                return f"{name}: {why}"
            with open(f"{result}.part", "w") as part:
                subprocess.run([f"{directory}/mutate", traces, *(["late"] if os.environ.get("LATE") else [])], stdout=part, check=True)
            os.rename(f"{result}.part", result)
    return cells_of(result)


def fails(cell):
    return cell[0] < 0.97 or cell[1] > 1.1


def row(name, base, cells):
    text = f"| {name} |"
    for known in (True, False):
        names = [each for each in base if (each.split("/")[0] in ("matrix", "retired", "ordered")) == known]
        gains = [cells[each][0] / base[each][0] for each in names]
        if not names:
            continue
        moved = sum(cells[each] != base[each] for each in names)
        bad = sum(fails(cells[each]) for each in names)
        new = sum(fails(cells[each]) and not fails(base[each]) for each in names)
        text += f" {moved}, {bad}, {new}, {sum(gain < 0.97 for gain in gains)} | {min(gains):.2f} |"
    logs = [math.log(cells[each][0] / base[each][0]) for each in base]
    return f"{text} {math.exp(sum(logs) / len(logs)):.3f} |"


def main():
    traces, directory, *words = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    base = run("nothing", [], traces, f"{directory}/base.cells")
    rows = FORCED if "force" in words else MUTATIONS
    wanted = [each for each in rows if not words or any(word in each[0] for word in words)]

    mended = {name: [] for name in base if fails(base[name])}

    def one(mutation):
        name, changes = mutation
        cells = run(name, changes, traces, f"{directory}/{name.translate(str.maketrans(' /', '--', ':'))}.cells")
        if isinstance(cells, str):
            return cells
        for cell in mended:
            if not fails(cells[cell]) and cells[cell][0] >= 0.9 * base[cell][0]:
                mended[cell].append(name)
        return row(name, base, cells)

    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        for line in workers.map(one, wanted):
            print(line, flush=True)
    print(f"{len(mended)} cells fail; in {sum(map(bool, mended.values()))} some row passes with 0.9 of the gain")


main()
