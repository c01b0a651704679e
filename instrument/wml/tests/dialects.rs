//! Scripts in the manner of Filebench before 1.5, and the features of its shipped personalities: all texts are ours.

mod common;

use common::{load, load_clean, load_with, messages, ops, run_of, script, try_load};
use workload::{Distribution, EndMode, Kind, Step, Value};

/// Warnings, which these scripts may have; and the workload.
fn warned(text: &str) -> (Vec<String>, wml::Loaded) {
    let loaded = load(text);
    (messages(&loaded.warnings), loaded)
}

#[test]
fn usage_lines_and_what_stands_behind_the_run_do_no_harm() {
    let text = script("set $dir=/tmp\nset $nthreads=4", "flowop hog name=h")
        + "echo \"Some personality 3.0 loaded\"\nusage \"Usage: set \\$dir=<dir>\"\n\
           usage \"       set \\$nthreads=<value>  defaults to $nthreads\"\nusage \" \"\nusage \"  run runtime\"\n";
    assert_eq!(run_of(&load_clean(&text)), (Some(1), None, None, 0));
}

#[test]
fn random_variables_defined_as_entities() {
    let text = "set $dir=/tmp\nset $cached=false\nset $rate=10\nset $total=$rate * 100\neventgen rate=$rate\n\
        define randvar name=$wsize, type=tabular, min=1k, round=1k, randtable =\n\
        {{ 0,  1k,  7k},\n {60,  9k, 15k},\n {40, 65k, 71k}\n}\n\
        define randvar name=$idx, type=gamma, min=0, gamma=100\n\
        define randvar name=$gsize, min=512, round=512, type=gamma, mean=16k\n\
        define fileset name=tree,path=$dir,size=$gsize,entries=$total,dirwidth=20,prealloc=60,cached=$cached\n\
        define flowop name=rewrite, $fs\n{\n\
          flowop openfile name=o,filesetname=$fs,indexed=$idx,fd=1\n\
          flowop writewholefile name=w,fd=1,iosize=$wsize,srcfd=1\n\
          flowop closefile name=c,fd=1\n}\n\
        define process name=client,instances=1\n{\n  thread name=user,memsize=10m,instances=2\n  {\n\
          flowop rewrite name=rw1, iters=6, $fs=tree\n    flowop eventlimit name=rate\n  }\n}\n";
    let (warnings, loaded) = warned(text);
    assert_eq!(warnings, ["`cached` has no effect"]);
    assert_eq!(loaded.workload.filesets[0].entries, 1000);
    let draw = |name: &str| loaded.workload.draws.iter().find(|draw| draw.name == name).unwrap();
    let Distribution::Table { rows, .. } = &draw("wsize").distribution else { panic!() };
    assert_eq!(rows.len(), 2, "a row of 0 percent is left out");
    assert_eq!((draw("wsize").round, draw("wsize").clamp_min), (1024, Some(1024.0)));
    let gamma = Distribution::Gamma { shift: 512.0, shape: 1.5, scale: (16384.0 - 512.0) / 1.5 };
    assert_eq!(draw("gsize").distribution, gamma);
    // The share of 1000 entries that gamma=100 (mean 0.1) stands for.
    let Some(Value::Draw(index)) = ops(&loaded)[0].index else { panic!() };
    let expected = Distribution::Gamma { shift: 0.0, shape: 0.1, scale: 500.0 };
    assert_eq!(loaded.workload.draws[index].distribution, expected);
    assert_eq!(ops(&loaded)[0].name, "rw1.o");
    assert_eq!(run_of(&loaded), (None, None, None, 0));
}

#[test]
fn fields_of_random_variables_are_set_later() {
    let text = script(
        "define randvar name=$size,type=gamma,mean=1k\nset $size.mean=8k\nset $size.min = 2k\nset $size.gamma=2000",
        "flowop hog name=h,value=$size",
    );
    let expected = Distribution::Gamma { shift: 2048.0, shape: 2.0, scale: 3072.0 };
    assert_eq!(load_clean(&text).workload.draws[0].distribution, expected);
    let uniform = text.replace("set $size.gamma=2000", "set $size.type=uniform");
    let expected = Distribution::Uniform { low: 2048.0, high: 14336.0 };
    assert_eq!(load_clean(&uniform).workload.draws[0].distribution, expected);
}

#[test]
fn an_override_goes_before_a_defined_random_variable() {
    let text = script("define randvar name=$size,type=gamma,mean=1k", "flowop hog name=h,value=$size");
    assert_eq!(ops(&load_with(&text, &[("size", "4k")]))[0].value, Value::Int(4096));
}

#[test]
fn sizes_with_a_gamma_of_their_own() {
    let text = |gamma: &str| {
        format!(
            "define fileset name=set,\n\tpath=/tmp,\n\tentries=10,\n\tsize=500k,\n\tfilesizegamma={gamma},\n\
             \tdirwidth=10,dirgamma=0\n\
             define process name=p {{ thread name=t {{ flowop statfile name=s,filesetname=set }} }}"
        )
    };
    let loaded = load_clean(&text("1500"));
    let Value::Draw(size) = loaded.workload.filesets[0].size else { panic!() };
    let expected = Distribution::Gamma { shift: 0.0, shape: 1.5, scale: 512_000.0 / 1.5 };
    assert_eq!(loaded.workload.draws[size].distribution, expected);
    assert_eq!(load_clean(&text("0")).workload.filesets[0].size, Value::Int(512_000));
}

type Run = (Option<u64>, Option<u64>, Option<i64>, u64);

/// An interactive script around one thread.
fn interactive(commands: &str) -> (Vec<String>, Run) {
    let text = script("set $runtime=30", "flowop hog name=h").replace("run 1", commands);
    let (warnings, loaded) = warned(&text);
    (warnings, run_of(&loaded))
}

#[test]
fn interactive_scripts_run_as_long_as_they_sleep() {
    let none: Vec<String> = Vec::new();
    let sleep = "create filesets\ncreate processes\nsleep $runtime\nshutdown processes\n";
    assert_eq!(interactive(sleep), (none.clone(), (Some(30), None, None, 0)));
    let snap =
        "create fileset\ncreate processes\nstats clear\nsleep 20\nstats snap\nshutdown processes\nquit\n";
    assert_eq!(interactive(snap), (none.clone(), (Some(20), None, None, 0)));
    let warm = "create processes\nsleep 5\nstats clear\nsleep 20\nsleep 10\nstats dump \"out\"\nquit\n";
    assert_eq!(interactive(warm), (none.clone(), (Some(30), None, None, 5)));
    let windows = "create processes\nstats clear\nsleep 10\nstats snap\n".to_owned()
        + &"stats clear\nsleep 30\nstats snap\n".repeat(4)
        + "shutdown processes\nquit";
    assert_eq!(interactive(&windows), (none.clone(), (Some(120), None, Some(-30), 10)));
    let run = "create processes\nstats clear\nrun 7\nquit";
    assert_eq!(interactive(run), (none.clone(), (Some(7), None, None, 0)));
    let forever = "create processes\nsleep 0\nquit";
    assert_eq!(interactive(forever), (none, (None, None, None, 0)));
    let directory = "stats directory /tmp/x\nstats command \"vmstat 5\"\nrun 3";
    let has_none = "this command has no effect".to_owned();
    assert_eq!(interactive(directory), (vec![has_none.clone(), has_none], (Some(3), None, None, 0)));
}

/// A first `stats clear` before anything was slept leaves no warm-up when all measurements are alike.
#[test]
fn measurements_of_one_length_have_no_warm_up() {
    let window = "stats clear\nsleep 15\nstats snap\n";
    let even = format!("create processes\n{}shutdown\n", window.repeat(4));
    assert_eq!(interactive(&even), (Vec::new(), (Some(60), None, Some(-15), 0)));
    let warm = format!("create processes\nsleep 5\n{}shutdown\n", window.repeat(4));
    assert_eq!(interactive(&warm), (Vec::new(), (Some(60), None, Some(-15), 5)));
    let mixed = format!("create processes\n{}stats clear\nsleep 20\n{window}quit", window.repeat(2));
    assert_eq!(interactive(&mixed), (Vec::new(), (Some(65), None, None, 0)));
}

#[test]
fn a_rate_that_changes_during_an_interactive_run_is_reported_once() {
    let text = "eventgen rate=0\ncreate processes\neventgen rate=40\nstats clear\nsleep 9\n\
                eventgen rate=90\nsleep 1\neventgen rate=40\nsleep 10\nstats snap\nquit";
    let (warnings, run) = interactive(text);
    assert_eq!(warnings, ["the rate of events cannot change during the run"]);
    assert_eq!(run, (Some(20), None, None, 0));
    let before = "eventgen rate=0\ncreate processes\neventgen rate=40\nsleep 9\nquit";
    assert_eq!(interactive(before).0, Vec::<String>::new());
}

#[test]
fn flowops_of_old_that_have_nothing_left_to_do() {
    let (warnings, loaded) = warned(&script(
        "",
        "flowop aiowrite name=w,filesetname=set,iosize=4k,random\nflowop aiosubmit name=go\nflowop aiowait name=a",
    ));
    assert_eq!(warnings, ["`aiosubmit` has no effect"]);
    let kinds: Vec<Kind> = ops(&loaded).iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [Kind::AioWrite, Kind::AioWait]);
    // A composite of that name goes before.
    let own = "define flowop name=aiosubmit\n{\n  flowop hog name=h\n}\n";
    assert_eq!(ops(&load_clean(&script(own, "flowop aiosubmit name=go")))[0].name, "go.h");
}

#[test]
fn a_script_that_sleeps_before_it_runs_still_runs() {
    let text = script("", "flowop hog name=h").replace("run 1", "sleep 2\nstats clear\nrun 5");
    let loaded = load_clean(&text);
    assert_eq!(loaded.workload.script[0], Step::SleepSeconds(2));
    assert_eq!(run_of(&loaded), (Some(5), None, None, 0));
}

#[test]
fn loops_without_a_run_are_unrolled() {
    let text = script(
        "set $sum=0\nforeach $i in 1, 2k, 3 {\n  set $sum=$sum + $i\n  echo \"$i\"\n}",
        "flowop hog name=h,value=$sum",
    );
    let loaded = load_clean(&text);
    assert_eq!(ops(&loaded)[0].value, Value::Int(1 + 2048 + 3));
    assert_eq!(loaded.workload.script[1], Step::Echo("2048".into()));
}

#[test]
fn other_commands_of_old_are_accepted() {
    let text = script(
        "log \"begin\"\nvars\nhelp\nfsflush\nenable_osprof\ndefine posset name=x,type=rnd",
        "flowop hog name=h",
    );
    let (warnings, _) = warned(&text);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(
        run_of(
            &load_clean(&text.replace("fsflush\nenable_osprof\ndefine posset name=x,type=rnd", "")).clone()
        )
        .0,
        Some(1)
    );
}

#[test]
fn attributes_by_their_oldest_names() {
    let text = "define fileset name=set,directory=/tmp,entries=9,sizegamma=0,filesize=2k,dirwidth=3\n\
        define process procname=p { thread name=t { flowop statfile name=s,fileset=set } }";
    let loaded = load_clean(text);
    assert_eq!(loaded.workload.filesets[0].path, "/tmp");
    assert_eq!((loaded.workload.processes[0].name.as_str(), ops(&loaded)[0].fileset), ("p", Some(0)));
}

/// Without an error such a fileset would stay empty, and all its operations starve.
#[test]
fn raw_devices_of_the_oldest_dialect_are_refused() {
    let text = "define fileset name=disk,path=\"raw:/dev/sdz\",dirwidth=1024,prealloc=100,reuse\n\
        define process name=p { thread name=t { flowop read name=r,filesetname=disk,iosize=8k,random } }";
    let found = try_load(text, &[]).unwrap_err();
    assert!(messages(&found)[0].contains("raw:"));
    let shown = found.render("test.f", text.as_bytes(), false);
    assert!(shown.contains("`define file name=sdz, path=/dev`"), "{shown}");
}

#[test]
fn booleans_written_as_numbers() {
    let text = script(
        "set $directio=0\nset $sync=1",
        "flowop read name=r,filesetname=set,iosize=2k,random,directio=$directio,dsync=$sync",
    );
    let op = &ops(&load_clean(&text))[0];
    assert!(!op.direct_io && op.dsync);
}

#[test]
fn names_of_filesets_in_variables() {
    let text = "set $dir=/tmp\nset $active=hot\nset $reuse=false\n\
        define fileset name=$active,path=$dir,size=10m,entries=4,dirwidth=4,prealloc,paralloc,reuse=$reuse\n\
        define process name=v { thread name=v,memsize=1m,instances=8\n{\n\
        flowop read name=stream,filesetname=$active,iosize=256k\n flowop bwlimit name=l, target=stream } }\n";
    let loaded = load_clean(text);
    assert_eq!(loaded.workload.filesets[0].name, "hot");
    assert_eq!(ops(&loaded)[0].fileset, Some(0));
}

#[test]
fn a_database_with_semaphores_across_processes() {
    let text = "eventgen rate = 0\n\
        define file name=data.df,path=/tmp,size=10m,reuse,prealloc,paralloc\n\
        define file name=redo_1,path=/tmp,size=10m,reuse,prealloc,paralloc\n\
        define process name=writer,instances=10\n{\n  thread name=writer,memsize=1m,useism\n  {\n\
          flowop aiowrite name=w-data.df,filename=data.df,\n iosize=2k,workingset=10g,random,dsync,directio,iters=10\n\
          flowop hog name=w-hog,value=10000\n\
          flowop semblock name=w-block,value=100,highwater=10000\n    flowop aiowait name=w-wait\n  }\n}\n\
        define process name=shadow,instances=200\n{\n  thread name=shadow,memsize=1m,useism\n  {\n\
          flowop read name=r-data,filename=data.df,iosize=2k,random\n  flowop hog name=hog,value=20000\n\
          flowop read name=r-redo,filename=redo_1,iosize=2k,random\n  flowop hog name=hog,value=20000\n\
          flowop sempost name=post,value=1,target=w-block,blocking\n    flowop eventlimit name=rate\n  }\n}\n\
        echo \"loaded\"\n";
    let loaded = load_clean(text);
    assert!(loaded.workload.filesets.iter().all(|fileset| fileset.single && fileset.reuse));
    let writer = &ops(&loaded)[2];
    assert_eq!((writer.kind, writer.highwater, writer.value), (Kind::SemBlock, 10_000, Value::Int(100)));
    assert_eq!(loaded.workload.processes[1].instances, 200);
}

#[test]
fn thirty_files_are_not_too_many() {
    let mut text = String::new();
    for i in 0..30 {
        text.push_str(&format!("define file name=f_{i},path=/tmp,size=1m,reuse,prealloc,paralloc\n"));
    }
    text.push_str("define process name=p { thread name=t {\n");
    for i in 0..30 {
        text.push_str(&format!(
            "flowop write name=w_{i},filename=f_{i},iosize=2k,random,dsync,directio,iters=10\n"
        ));
    }
    text.push_str("} }\n");
    assert_eq!(load_clean(&text).workload.filesets.len(), 30);
}

#[test]
fn a_composite_that_swings_between_two_processes() {
    let text = "set $path=/tmp\nset $nfiles=100\neventgen rate=0\n\
        define fileset name=many,path=$path,entries=$nfiles,size=5k,dirwidth=$nfiles,dirgamma=0\n\
        define flowop name=make\n{\n flowop createfile name=create,filesetname=many,fd=1\n\
          flowop writewholefile name=write,filesetname=many,fd=1\n flowop closefile name=close,fd=1\n\
          flowop eventlimit name=limit\n}\n\
        define process name=a {\n thread name=a {\n  flowop make name=make,\n   iters=$nfiles\n\
          flowop wakeup name=wake-b, target=wait-b\n  flowop block name=wait-a\n }\n}\n\
        define process name=b {\n thread name=b {\n  flowop block name=wait-b\n\
          flowop deletefile name=delete, filesetname=many, iters=$nfiles\n  flowop wakeup name=wake-a, target=wait-a\n }\n}\n";
    let loaded = load_clean(text);
    assert_eq!(ops(&loaded)[0].name, "make.create");
    assert_eq!(ops(&loaded)[4].target.as_deref(), Some("wait-b"));
}

#[test]
fn arguments_are_handed_down_through_composites() {
    let text = "define fileset name=one,path=/tmp,size=1k,entries=7,dirwidth=2,prealloc=80, paralloc\n\
        define fileset name=two,path=/tmp,size=1k,entries=7,dirwidth=2,prealloc=80, paralloc\n\
        define flowop name=both, $fileset\n{\n flowop openfile name=o1,filesetname=$fileset,fd=1\n\
          flowop readwholefile name=r,fd=1\n flowop closefile name=c,fd=1\n}\n\
        define flowop name=work, $fs, $n\n{\n flowop createfile name=n,filesetname=$fs,fd=1\n\
          flowop closefile name=c,fd=1\n flowop both name=b, iters=$n, $fileset=$fs\n}\n\
        define process name=p,instances=1\n{\n thread name=u1,memsize=1m,instances=10\n {\n\
          flowop work name=w1, iters=1, $n=5, $fs=one\n }\n\
          thread name=u2,memsize=1m,instances=10\n {\n flowop work name=w2, iters=1, $n=4, $fs=two\n }\n}\n";
    let loaded = load_clean(text);
    let found: Vec<(String, Option<usize>)> =
        ops(&loaded).into_iter().map(|op| (op.name, op.fileset)).collect();
    let expected =
        [("w1.n", Some(0)), ("w1.c", None), ("w1.b.o1", Some(0)), ("w1.b.r", None), ("w1.b.c", None)];
    assert_eq!(found, expected.map(|(name, fileset)| (name.to_owned(), fileset)));
}

#[test]
fn runs_that_end_by_a_count() {
    let text = "set $count=3\nset mode quit firstdone\ndefine file name=big,path=/tmp,size=0,prealloc\n\
        define process name=w { thread name=w,memsize=1m\n {\n\
        flowop appendfile name=app,filename=big,iosize=8k,iters=1024\n flowop fsync name=sync\n\
        flowop finishoncount name=end,value=$count,target=sync\n } }\nrun\n";
    let loaded = load_clean(text);
    assert_eq!(loaded.workload.end, EndMode::FirstDone);
    let end = &ops(&loaded)[2];
    assert_eq!(
        (end.kind, end.value, end.target.as_deref()),
        (Kind::FinishOnCount, Value::Int(3), Some("sync"))
    );
}

#[test]
fn variables_changed_behind_the_definitions_count() {
    let text =
        script("set $nfiles=10", "flowop hog name=h,value=$nfiles").replace("run 1", "set $nfiles=3\nrun 1");
    assert_eq!(ops(&load_clean(&text))[0].value, Value::Int(3));
}
