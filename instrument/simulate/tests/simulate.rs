//! Simulations: the interpreter's operations in virtual time, repeatable, in the mix that the workload asks for.

use engine::Control;
use engine::options::RunOptions;
use simulate::{Job, run};
use stats::Outcome;
use stats::outcome::Ended;

const VARMAIL: &str = include_str!("../../../workloads/varmail.f");

fn model(text: &str, set: &[(&str, &str)]) -> workload::Workload {
    let set = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 40, free_bytes: 1 << 30 };
    wml::load(text.as_bytes(), &wml::Settings { machine, set, name: "w".into() }).unwrap().workload
}

fn job(text: &str, set: &[(&str, &str)], variables: &[(&str, &str)]) -> Job {
    Job::new("wml", Some(model(text, set)), &strings(variables)).unwrap()
}

fn strings(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn simulated(job: &Job, seconds: f64, seed: u64) -> Outcome {
    let options =
        RunOptions { seconds: Some(seconds), warmup_seconds: Some(0.1), seed, ..RunOptions::default() };
    run(job, &options, &Control::new(), &mut |_| ()).unwrap()
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    outcome.metrics.iter().find(|metric| metric.name == name).unwrap().value
}

/// Each thread goes round its loop: the flowops of a loop are done equally often, but for the loops under way.
#[test]
fn varmail_has_the_mix_of_its_loop() {
    let set = [("nthreads", "8"), ("nfiles", "300")];
    for stack in ["ext4", "opext4"] {
        let job = job(VARMAIL, &set, &[("stack", stack), ("containers", "2")]);
        let outcome = simulated(&job, 0.5, 1);
        assert_eq!(outcome.ended, Ended::TimeUp, "{outcome:?}");
        assert_eq!(outcome.ops.len(), 13);
        let counts: Vec<u64> = outcome.ops.iter().map(|op| op.ops).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 50, "{stack}: {counts:?}");
        // 16 threads, each within one loop at the beginning and at the end
        assert!(most - least <= 32, "{stack}: {counts:?}");
        assert!(outcome.ops.iter().all(|op| op.errors == 0 && op.starved == 0), "{stack}");
        let syncs: u64 = outcome.ops.iter().filter(|op| op.kind == "fsync").map(|op| op.ops).sum();
        let seen = metric(&outcome, "fsyncs_per_second") * 0.5;
        assert!((seen - syncs as f64).abs() <= 32.0, "{stack}: {syncs} of the script, {seen} of the stack");
        let sync = outcome.ops.iter().find(|op| op.kind == "fsync").unwrap();
        assert!(sync.service.min().unwrap() > 1_000_000, "{stack}: an fsync waits for a flush");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let job =
        job(VARMAIL, &[("nthreads", "4"), ("nfiles", "200")], &[("stack", "opext4"), ("containers", "3")]);
    let text = |seed| serde_json::to_string(&simulated(&job, 0.2, seed)).unwrap();
    assert_eq!(text(5), text(5));
    assert_ne!(text(5), text(6));
}

/// Within a fifth at 40 containers. The built-in program is an approximation of the same workload: it spends its processor
/// time in two pieces and not at each operation, draws files at random instead of in turn, and all its mails have 16 KiB.
#[test]
fn varmail_agrees_with_the_built_in_approximation() {
    let variables = [("stack", "ext4"), ("containers", "40")];
    let script = job(VARMAIL, &[("nthreads", "40"), ("nfiles", "1000")], &variables);
    let built_in = Job::new("varmail", None, &strings(&variables)).unwrap();
    let rate = |job: &Job| metric(&simulated(job, 0.4, 1), "kops_per_second");
    let (script, built_in) = (rate(&script), rate(&built_in));
    let ratio = script / built_in;
    println!("script {script:.1}, built in {built_in:.1}, ratio {ratio:.3}");
    assert!((0.8..1.25).contains(&ratio), "{script} {built_in}");
}

#[test]
fn threads_that_wait_for_others_are_woken() {
    let text = "define fileset name=f, path=/tmp, entries=4, size=4k, prealloc=100\n\
        define process name=p\n{\n\
        thread name=a, instances=1\n{\nflowop openfile name=o, filesetname=f, fd=1\nflowop appendfile name=w, iosize=4k, fd=1\n\
        flowop fsync name=s, fd=1\nflowop closefile name=c, fd=1\nflowop sempost name=post, target=wait, value=1\n}\n\
        thread name=b, instances=1\n{\nflowop semblock name=wait, value=1, highwater=10\nflowop statfile name=stat, filesetname=f\n}\n}\n\
        run 1\n";
    let outcome = simulated(&job(text, &[], &[("stack", "ext4")]), 0.5, 1);
    let count = |name: &str| outcome.ops.iter().find(|op| op.name == name).unwrap().ops;
    assert!(count("s") > 20 && count("s").abs_diff(count("stat")) <= 2, "{} {}", count("s"), count("stat"));
    assert_eq!(outcome.notes.len(), 1, "all came back: {:?}", outcome.notes);
}

#[test]
fn a_load_file_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.txt");
    let mut text = String::from("Deltree \"\\c\" NT_STATUS_OK\nMkdir \"\\c\" NT_STATUS_OK\n");
    for file in 0..20 {
        let handle = 100 + file;
        text += &format!("NTCreateX \"\\c\\f{file}\" 0x40 0x2 {handle} NT_STATUS_OK\n");
        text += &format!("WriteX {handle} 0 8192 8192 NT_STATUS_OK\nReadX {handle} 0 10 10 NT_STATUS_OK\n");
        text += &format!("Flush {handle} NT_STATUS_OK\nClose {handle} NT_STATUS_OK\n");
        text += &format!("Rename \"\\c\\f{file}\" \"\\c\\g{file}\" NT_STATUS_OK\n");
    }
    text += "Unlink \"\\c\\g3\" 0x6 NT_STATUS_OK\n";
    std::fs::write(&path, &text).unwrap();
    let of = |stack: &str| {
        let variables = [("loadfile", path.to_str().unwrap()), ("stack", stack), ("containers", "10")];
        simulated(&Job::new("dbench", None, &strings(&variables)).unwrap(), 0.5, 1)
    };
    let (slow, fast) = (of("ext4"), of("opext4"));
    // of 121 counted lines 41 sync
    let share = slow.ops[1].ops as f64 / slow.ops[0].ops as f64;
    assert!((share - 41.0 / 121.0).abs() < 0.03, "{share}");
    assert!(fast.ops[0].ops as f64 > 2.0 * slow.ops[0].ops as f64, "{} {}", slow.ops[0].ops, fast.ops[0].ops);
    let job = Job::new("dbench", None, &strings(&[("loadfile", path.to_str().unwrap())])).unwrap();
    std::fs::write(&path, text + "# more\n").unwrap();
    let error = run(&job, &RunOptions::default(), &Control::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("is not what it was when the run was planned"), "{error}");
}

#[test]
fn every_stack_runs_every_program() {
    for stack in simulate::Stack::names() {
        for program in simulate::job::PROGRAMS {
            let job = Job::new(program, None, &strings(&[("stack", stack), ("containers", "3")])).unwrap();
            let outcome = simulated(&job, 0.1, 1);
            assert!(matches!(outcome.ended, Ended::TimeUp | Ended::Done), "{stack} {program}: {outcome:?}");
            assert!(outcome.io_ops() > 0, "{stack} {program}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let error =
        |variables: &[(&str, &str)]| Job::new("varmail", None, &strings(variables)).unwrap_err().to_string();
    for (variables, expected) in [
        ([("containers", "0")], "containers = `0`: a whole number from 1 to 10000 is right"),
        ([("stack", "ext5")], "unknown stack `ext5`; known are ext4, ext4-nofua"),
        ([("device", "990pro")], "990pro"),
        ([("cores", "many")], "cores = `many`"),
        ([("pinning", "yes")], "`on` or `off` is right"),
        ([("cpu", "1x")], "a time such as 120us is right"),
        ([("colour", "red")], "`colour` is no variable of this program; known are stack, containers"),
    ] {
        let error = error(&variables);
        assert!(error.contains(expected), "{error}");
    }
    let error = Job::new("postmark", None, &[]).unwrap_err().to_string();
    assert!(error.contains("unknown program `postmark`; known are varmail, dbench"), "{error}");
    let text = |flowop: &str| {
        format!(
            "define fileset name=f, path=/tmp, entries=4, size=4k, prealloc=100\ndefine process name=p\n{{\n\
                 thread name=t\n{{\n{flowop}\n}}\n}}\nrun 1\n"
        )
    };
    for (flowop, expected) in [
        (
            "flowop aiowrite name=w, filesetname=f, iosize=4k, fd=1",
            "flowop w (aiowrite): the simulated file system has no",
        ),
        ("flowop hog name=h, value=10", "flowop h (hog): it spends real processor time"),
        (
            "flowop write name=w, filesetname=f, iosize=4k, directio",
            "`directio` is simulated for reads alone",
        ),
    ] {
        let error = Job::new("wml", Some(model(&text(flowop), &[])), &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_trace_has_the_form_of_the_artifact() {
    let job = Job::new("write-fsync", None, &strings(&[("stack", "opext4")])).unwrap();
    let trace = simulate::trace(&job, &RunOptions::default(), &Control::new()).unwrap();
    let table = trace.table();
    let first: Vec<&str> = table.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(first[1..6], ["fio", "2736", "[2736, 0]", "[2688, 0]", "1"]);
    assert_eq!(table.lines().filter(|line| line.ends_with("nvme_cmd_flush")).count(), 3, "{table}");
}
