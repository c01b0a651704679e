//! Real programs do the same under the library: output, errors and exit codes.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Program that is needed, and what is run in a directory with `big` (8 MiB), `text` and `tree/`.
const PROGRAMS: [(&str, &str); 75] = [
    ("cat", "cat big | md5sum; cat nothing"),
    ("cp", "cp big copy && cmp big copy; cp nothing x; echo $?"),
    ("dd", "dd if=big bs=4096 skip=100 count=500 2>/dev/null | md5sum"),
    ("tac", "tac text | md5sum"),
    ("sort", "sort text | md5sum; sort -r --parallel=4 -S 1M text | md5sum"),
    ("grep", "grep -rc 7 tree | sort | md5sum; grep -q nothing text; echo $?"),
    ("find", "find tree -type f -exec md5sum {} + | sort | md5sum"),
    ("xargs", "find tree -type f | sort | xargs -P 4 -n 3 cat | wc -c"),
    ("wc", "wc text tree/*/*"),
    ("od", "od -x big | tail -3"),
    ("split", "split -b 1M big part. && cat part.* | md5sum; rm part.*"),
    ("tail", "tail -c 100000 big | md5sum; tail -n 5 text"),
    ("diff", "cp text other; echo x >> other; diff text other; diff -r tree tree"),
    ("sed", "sed -n '100,200p' text | md5sum; sed s/1/2/ text | md5sum"),
    ("awk", "awk '{s+=$1} END {print s, NR}' text"),
    ("tar", "tar cf - tree big | tar tf - | sort | md5sum; tar xf nothing.tar"),
    ("gzip", "gzip -c big | gzip -dc | md5sum; gzip -t big"),
    ("bzip2", "bzip2 -c text | bzip2 -dc | md5sum"),
    ("xz", "xz -1 -T2 -c big | xz -dc | md5sum"),
    ("zstd", "zstd -q -T2 -c big | zstd -dc | md5sum"),
    ("bash", "bash -c 'while read -r a; do echo $a; done < text | md5sum; exit 7'; echo $?"),
    ("dash", "dash -c 'cat <text | md5sum; (exit 3); echo $?; kill -9 $$'; echo $?"),
    ("perl", "perl -ne 'print if /99/' text | md5sum; perl -e 'die 3'"),
    (
        "perl",
        "perl -e 'for (1..20) { if (!fork) { open F, \"big\"; seek F, $_*9999, 0; read F, $x, 9; exit $_ } } \
        $s += $? while wait > 0; print $s'",
    ),
    ("python3", "python3 -c 'import hashlib; print(hashlib.sha1(open(\"big\",\"rb\").read()).hexdigest())'"),
    (
        "python3",
        "python3 -c 'import mmap; f=open(\"big\",\"rb\"); m=mmap.mmap(f.fileno(),0,prot=1); print(sum(m[::4099]))'",
    ),
    (
        "python3",
        "python3 -c '\nimport os,threading\nf=os.open(\"big\",0)\ns=[]\ndef r(i):\n for j in range(200): \
        s.append(sum(os.pread(f,999,(i*200+j)*9000)))\nt=[threading.Thread(target=r,args=(i,)) for i in range(4)]\n\
        [x.start() for x in t];[x.join() for x in t];print(sum(s))'",
    ),
    (
        "python3",
        "python3 -c 'import subprocess,multiprocessing as m; \
        print(m.Pool(3).map(abs,range(-50,0))); print(subprocess.run([\"cat\",\"nothing\"]).returncode)'",
    ),
    (
        "python3",
        "python3 -c 'import os; os.close(0); f=os.open(\"big\",0); [os.pread(f,4096,i*20480) for i in range(300)]; \
        print(f, os.open(\"text\",0))'",
    ),
    (
        "node",
        "node -e 'const f=require(\"fs\"); console.log(require(\"crypto\").createHash(\"md5\").update(\
        f.readFileSync(\"big\")).digest(\"hex\")); process.exit(5)'; echo $?",
    ),
    (
        "sqlite3",
        "rm -f db; sqlite3 db 'create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c \
        where x<20000) insert into t select x*7919%20011, hex(randomblob(0))||x from c; create index i on t(a); \
        select sum(a), count(distinct b) from t; pragma integrity_check'",
    ),
    (
        "git",
        "rm -rf r; git init -q r; cp -r tree text r; cd r; git add .; GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1 \
        git -c user.name=a -c user.email=b commit -qm x; git log --format=%H; git status -s; git grep -c 77; git fsck; \
        git gc -q; git show nothing",
    ),
    ("gcc", "printf 'int main(){return 42;}' > a.c; gcc -O2 a.c -o a.out && ./a.out; echo $?; gcc nothing.c"),
    (
        "make",
        "printf 'all: a b c\\na b c:\\n\\t@md5sum big > $@.sum; echo $@\\n' > M; make -s -j3 -f M | sort; cat *.sum",
    ),
    (
        "rsync",
        "rm -rf to; rsync -a tree big to/; diff -r tree to/tree && cmp big to/big; rsync nothing to 2>/dev/null; echo $?",
    ),
    ("openssl", "openssl dgst -sha256 big; openssl dgst nothing 2>/dev/null; echo $?"),
    ("jq", "echo '{\"a\":[1,2]}' | jq .a[1]; jq . nothing"),
    ("java", "java -version 2>/dev/null; echo $?"),
    ("ps", "ps -o comm= -p $$"),
    ("timeout", "timeout -s KILL 0.2 tail -f big > /dev/null; echo $?"),
    ("env", "env -i /bin/cat text | md5sum"),
    ("unshare", "unshare -U id -u 2>/dev/null; echo $?"),
    ("setpriv", "setpriv --reuid 65534 --regid 65534 --clear-groups cat text | md5sum; echo $?"),
    ("file", "file text big | sort"),
    ("sha256sum", "sha256sum big text tree/d1/* nothing"),
    ("base64", "base64 big | base64 -d | cmp - big; echo $?"),
    ("cut", "cut -d' ' -f1,3 text | paste - - | md5sum"),
    ("uniq", "sort text | uniq -c | sort -n | tail -3; comm text text | md5sum"),
    ("curl", "curl -s file://$PWD/big | md5sum; curl -s file:///nothing; echo $?"),
    ("objdump", "objdump -d /bin/true | md5sum; nm -D /bin/true | md5sum"),
    ("strings", "strings big | md5sum; cksum big"),
    (
        "initdb",
        "chmod 777 .; P=$(dirname $(readlink -f $(command -v initdb))); cp -r $PWD/text t; \
        setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'umask 077; rm -rf pg; initdb -D pg -A trust -N \
        >/dev/null 2>&1; echo $?; echo \"select count(*), sum(length(relname)) from pg_class\" | \
        '$P'/postgres --single -D pg postgres 2>/dev/null | grep -c count; rm -rf pg'",
    ),
    (
        "redis-server",
        "redis-server --port x 2>/dev/null >/dev/null; echo $?; go() { redis-server --port 0 --unixsocket s --save '' \
        --dir . --logfile log & for i in $(seq 100); do redis-cli -s s ping >/dev/null 2>&1 && break; sleep 0.1; done; }; \
        go; for i in $(seq 300); do echo \"rpush l$((i % 7)) $i $(printf %09000d $i)\"; done | redis-cli -s s | sort -n | \
        uniq -c | tail -2; redis-cli -s s save; redis-cli -s s shutdown nosave; wait; go; \
        redis-cli -s s lrange l3 0 -1 | md5sum; redis-cli -s s dbsize; redis-cli -s s shutdown nosave; wait; echo $?; \
        rm -f s log dump.rdb",
    ),
    (
        "mariadbd",
        "mariadb-install-db --no-defaults --datadir=$PWD/my --user=root --auth-root-authentication-method=normal \
        --skip-test-db >/dev/null 2>&1; echo $?; go() { mariadbd --no-defaults --datadir=$PWD/my --user=root \
        --skip-networking --socket=s --innodb-buffer-pool-size=8M >/dev/null 2>&1 & \
        for i in $(seq 300); do q 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done; }; \
        q() { mariadb --no-defaults -S my/s -N -e \"$1\"; }; go; \
        q 'create database d; create table d.t (a int primary key, b varchar(300)); insert into d.t \
        select seq, repeat(md5(seq), 9) from mysql.seq_1_to_20000' 2>&1; \
        q 'create table d.u (a int, b int, key(b)); insert into d.u values (1,2),(3,4); select sum(a*b) from d.u'; \
        q 'shutdown'; wait; go; q 'select count(*), sum(crc32(b)) from d.t; check table d.t, d.u'; q shutdown; wait; \
        echo $?; rm -rf my",
    ),
    (
        // Two processes at a time: POSIX locks and shared memory decide.
        "sqlite3",
        "rm -f w; sqlite3 w 'pragma journal_mode=wal; create table t(a, b)'; \
        go() { for i in $(seq 40); do echo \"begin immediate; insert into t select $1, max(rowid) from t; commit;\"; \
        echo 'select count(*) < 0 from t;'; done | sqlite3 -cmd '.timeout 60000' w | uniq -c; }; go 1 & go 2 & wait; \
        sqlite3 w 'select a, count(*) from t group by a; select count(distinct b) from t; pragma integrity_check'",
    ),
    (
        "ruby",
        "ruby -rdigest -e 'f=File.open(\"big\",\"rb\"); p f.pread(9,99); f.seek(-999,2); puts Digest::MD5.hexdigest(f.read); \
        puts 3.times.map{|i| fork{exit i}; Process.wait; $?.exitstatus}.sum; puts Thread.new{IO.read(\"text\").size}.value'",
    ),
    (
        "php",
        "php -r '$f=fopen(\"big\",\"r\"); fseek($f,4097); echo md5(fread($f,99999)),md5_file(\"text\"),\"\\n\"; exit(4);'; echo $?",
    ),
    (
        "lua5.4",
        "lua5.4 -e 'n=0; for l in io.lines(\"text\") do n=n+#l end; f=io.open(\"big\"); f:seek(\"set\",12345); \
        print(n, #f:read(9999), f:seek()); f:close(); os.exit(3)'; echo $?",
    ),
    ("ex", "ex -s -c '%s/7/8/g' -c 'w! out' -c 'q!' text </dev/null; md5sum out"),
    (
        "sox",
        "sox -n -r 8000 a.wav synth 2 sine 440 2>/dev/null; sox a.wav -t raw - reverse 2>/dev/null | md5sum; sox nothing b.wav 2>/dev/null; echo $?",
    ),
    (
        "convert",
        "convert -size 200x200 gradient:red-blue a.png && convert a.png -rotate 45 -resize 50% rgb:- | md5sum; \
        convert nothing.png b.png 2>/dev/null; echo $?",
    ),
    (
        "7z",
        "7z a -bd -mmt2 x.7z tree big >/dev/null; rm -rf x; mkdir x; cd x; 7z x -bd ../x.7z >/dev/null; diff -r tree ../tree && cmp big ../big; 7z t nothing.7z >/dev/null; echo $?",
    ),
    (
        "cmake",
        "rm -rf c; mkdir c; cd c; printf 'project(p C)\\nadd_library(l l.c)\\nadd_executable(e e.c)\\ntarget_link_libraries(e l)\\n' \
        > CMakeLists.txt; sed -i 1icmake_minimum_required'(VERSION 3.10)' CMakeLists.txt; echo 'int f(void){return 5;}' > l.c; \
        echo 'int f(void); int main(void){return f();}' > e.c; cmake -G Ninja . >/dev/null 2>&1; echo $?; ninja | tail -1; ./e; echo $?; ninja",
    ),
    (
        "rustc",
        "echo 'fn main(){println!(\"{}\", std::fs::read(\"big\").unwrap().iter().map(|b| *b as u64).sum::<u64>())}' > m.rs; \
        rustc m.rs && ./m; rustc nothing.rs 2>&1 | head -1",
    ),
    (
        "go",
        "printf 'package main\\nimport (\"fmt\";\"os\")\\nfunc main(){b,_:=os.ReadFile(\"text\");fmt.Println(len(b))}' > m.go; \
        GOFLAGS=-mod=mod go run m.go; rm -rf .cache",
    ),
    (
        "nginx",
        "chmod 755 .; printf 'error_log log; pid pid; daemon off; worker_processes 2; events {}\\nhttp { access_log off; sendfile on; \
        sendfile_max_chunk 64k; server { listen unix:%s/n; location / { root %s; } } }' $PWD $PWD > n.conf; \
        nginx -e log -p $PWD -c n.conf & for i in $(seq 100); do [ -S n ] && break; sleep 0.1; done; \
        (for i in 1 2 3; do curl -s --unix-socket n http://x/big | md5sum & done; wait); \
        curl -s -r 70000-900000 --unix-socket n http://x/big | md5sum; curl -s -o /dev/null -w '%{http_code}\\n' \
        --unix-socket n http://x/nothing; kill $(cat pid); wait; echo $?; rm -f n log",
    ),
    ("sudo", "sudo -n md5sum text; sudo -n -u '#65534' id -u; echo $?"),
    ("su", "su nobody -s /bin/sh -c 'id -un; cat /etc/passwd | wc -l; exit 6'; echo $?"),
    ("bwrap", "bwrap --ro-bind / / --unshare-pid --dev /dev md5sum $PWD/text 2>&1; echo $?"),
    ("firejail", "firejail --quiet --noprofile --seccomp md5sum text 2>/dev/null; echo $?"),
    ("strace", "strace -f -o trace sh -c 'md5sum big; cat text | wc -l'; echo $?; rm -f trace"),
    (
        "gdb",
        "gdb -q -nx -batch -ex 'break exit' -ex run -ex 'print 6*7' -ex kill --args /bin/true 2>/dev/null | grep =",
    ),
    (
        "python3",
        "printf 'import multiprocessing as m, os\\ndef f(i):\\n    with open(\"big\",\"rb\") as g:\\n        g.seek(i*99999); \
        return sum(g.read(9999))\\nif __name__ == \"__main__\":\\n    for k in (\"spawn\",\"forkserver\"):\\n        \
        with m.get_context(k).Pool(3) as p: print(k, p.map(f, range(20)))\\n' > m.py; python3 m.py",
    ),
    (
        "javac",
        "printf 'import java.nio.file.*; import java.util.stream.*; class M { public static void main(String[] a) throws Exception {\\n\
        var c = java.nio.channels.FileChannel.open(Path.of(\"big\")); System.out.println(IntStream.range(0, 400).parallel().mapToLong(i -> {\\n\
        try { var b = java.nio.ByteBuffer.allocate(999); c.read(b, i * 20000L); long s = 0; for (byte x : b.array()) s += x; return s; }\\n\
        catch (Exception e) { return -1; } }).sum()); System.exit(9); } }' > M.java; java M.java; echo $?",
    ),
    (
        "chromium",
        "printf '<p id=p></p><script>p.textContent=6*7</script>' > page.html; chromium --headless --no-sandbox \
        --disable-gpu --user-data-dir=$PWD/c --dump-dom file://$PWD/page.html 2>/dev/null; rm -rf c",
    ),
];

/// Programs that every machine has on which this is built: Debian's essential packages, and those that
/// `scripts/setup.sh` installs. Scripts of others run where they are installed.
const REQUIRED: [&str; 32] = [
    "cat",
    "cp",
    "dd",
    "tac",
    "sort",
    "grep",
    "find",
    "xargs",
    "wc",
    "od",
    "split",
    "tail",
    "diff",
    "sed",
    "awk",
    "tar",
    "gzip",
    "bash",
    "dash",
    "perl",
    "gcc",
    "make",
    "timeout",
    "env",
    "sha256sum",
    "base64",
    "cut",
    "uniq",
    "unshare",
    "setpriv",
    "objdump",
    "strings",
];

fn is_installed(program: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    there.status.success()
}

fn prepare(directory: &Path) {
    common::cold_file(&directory.join("big"), 8);
    let text: String = (0..60_000u64).map(|n| format!("{} line {n}\n", n * 7919 % 60_013)).collect();
    std::fs::write(directory.join("text"), text).unwrap();
    for d in 0..4 {
        let sub = directory.join(format!("tree/d{d}"));
        std::fs::create_dir_all(&sub).unwrap();
        for f in 0..20u32 {
            std::fs::write(sub.join(format!("f{f}")), format!("{f} ").repeat(1000 + 500 * f as usize))
                .unwrap();
        }
    }
}

fn run(directory: &Path, script: &str, mode: Option<&str>, statistics: &Path) -> Output {
    let mut command = Command::new("sh");
    command.current_dir(directory).args(["-c", script]).env("LC_ALL", "C").env("HOME", directory);
    command.stdin(Stdio::null());
    if let Some(mode) = mode {
        command.env("LD_PRELOAD", common::library());
        command.env("LOADLINE_PREFETCH", mode).env("LOADLINE_PREFETCH_DIR", statistics);
    }
    command.output().unwrap()
}

#[test]
fn real_programs_do_the_same() {
    let lacking: Vec<_> = REQUIRED.into_iter().filter(|program| !is_installed(program)).collect();
    assert!(lacking.is_empty(), "install what every such machine has: {}", lacking.join(", "));
    let statistics = common::directory();
    let (mut ran, mut not_run) = (0, Vec::new());
    // One of them alone, for looking closer.
    let only = std::env::var("LOADLINE_PROGRAM").ok();
    for (program, script) in
        PROGRAMS.into_iter().filter(|(program, _)| only.as_deref().is_none_or(|o| o == *program))
    {
        if !is_installed(program) {
            not_run.push(program);
            continue;
        }
        let directory = common::directory();
        prepare(directory.path());
        let alone = run(directory.path(), script, None, statistics.path());
        assert!(!alone.stdout.is_empty(), "{program}: {}", String::from_utf8_lossy(&alone.stderr));
        if only.is_some() {
            eprintln!("{}", String::from_utf8_lossy(&alone.stdout));
        }
        // Every program in the mode that people use; the others in turn.
        for mode in ["auto", ["fetch-all", "os-only", "predict"][ran % 3]] {
            common::drop_cache(&directory.path().join("big"));
            let under = run(directory.path(), script, Some(mode), statistics.path());
            assert_eq!(
                (
                    String::from_utf8_lossy(&alone.stdout),
                    String::from_utf8_lossy(&alone.stderr),
                    alone.status
                ),
                (
                    String::from_utf8_lossy(&under.stdout),
                    String::from_utf8_lossy(&under.stderr),
                    under.status
                ),
                "{program} in mode {mode}: {script}"
            );
        }
        ran += 1;
    }
    eprintln!("{ran} of {} scripts of real programs", ran + not_run.len());
    if !not_run.is_empty() {
        eprintln!("not run, since not installed: {}", not_run.join(", "));
    }
    assert!(common::pages(statistics.path()).len() > ran || only.is_some(), "hardly any was watched");
}

#[test]
fn the_kill_switch_and_unknown_modes_leave_programs_alone() {
    let directory = common::directory();
    prepare(directory.path());
    let watched = |mode: &str| {
        let statistics = common::directory();
        let script = "dd if=big bs=4096 of=/dev/null 2>/dev/null; md5sum < text";
        assert!(run(directory.path(), script, Some(mode), statistics.path()).status.success());
        std::fs::read_dir(statistics.path()).unwrap().count()
    };
    assert!(watched("auto") > 0, "these programs would be watched");
    for mode in ["off", "nonsense", "app-only"] {
        assert_eq!(watched(mode), 0, "{mode}");
    }
}
