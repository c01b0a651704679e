//! Each feature of the language, in the dialect of Filebench 1.5 and in what is added to it.

mod common;

use common::{load, load_clean, load_with, messages, ops, run_of, script, try_load};
use workload::{Distribution, EndMode, Kind, Node, Rounding, Step, Value};

#[test]
fn a_mail_server_is_what_it_says() {
    let loaded = load_clean(
        "set $dir=/data\nset $nfiles=1k\nset $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)\n\
         define fileset name=mail,path=$dir,size=$size,entries=$nfiles,dirwidth=1000000,prealloc=80\n\
         define process name=server,instances=1\n{\n  thread name=user,memsize=10m,instances=16\n  {\n\
         flowop deletefile name=d,filesetname=mail\n\
         flowop createfile name=c,filesetname=mail,fd=1\n\
         flowop appendfilerand name=a,iosize=16k,fd=1\n\
         flowop fsync name=s,fd=1\n    flowop closefile name=z,fd=1\n  }\n}\nrun 60\n",
    );
    let workload = &loaded.workload;
    let fileset = &workload.filesets[0];
    assert_eq!((fileset.name.as_str(), fileset.path.as_str()), ("mail", "/data"));
    assert_eq!((fileset.entries, fileset.prealloc_percent), (1024, 80));
    assert_eq!(fileset.dir_width, Value::Int(1_000_000));
    assert_eq!(fileset.dir_gamma, 1.5);
    let Value::Draw(size) = fileset.size else { panic!("{:?}", fileset.size) };
    let expected = Distribution::Gamma { shift: 0.0, shape: 1.5, scale: 16384.0 / 1.5 };
    assert_eq!(workload.draws[size].distribution, expected);
    assert_eq!(workload.draws[size].rounding, Rounding::TruncatedNearest);
    let thread = &workload.processes[0].threads[0];
    assert_eq!((thread.instances, thread.memory_bytes, thread.io_priority), (16, Value::Int(10 << 20), None));
    let kinds: Vec<Kind> = ops(&loaded).iter().map(|op| op.kind).collect();
    let expected = [Kind::DeleteFile, Kind::CreateFile, Kind::AppendFileRand, Kind::Fsync, Kind::CloseFile];
    assert_eq!(kinds, expected);
    assert_eq!(run_of(&loaded), (Some(60), None, None, 0));
    assert_eq!(loaded.variables[0], ("dir".into(), "/data".into()));
    assert_eq!(loaded.variables[1], ("nfiles".into(), "1024".into()));
    assert_eq!(loaded.variables[2], ("size".into(), "custom variable".into()));
}

#[test]
fn every_flowop_has_its_kind() {
    for (kind, name) in Kind::ALL {
        let target = match kind {
            Kind::SemPost => ",target=sem",
            Kind::Wakeup => ",target=blk",
            _ => "",
        };
        let text = script(
            "",
            &format!(
                "flowop {name} name=x,filesetname=set,fd=1,iosize=4k,random,value=1{target}\n\
                 flowop openfile name=o,filesetname=set,fd=1\n\
                 flowop semblock name=sem,value=1\n flowop block name=blk"
            ),
        );
        assert_eq!(ops(&load_clean(&text))[0].kind, kind, "{name}");
    }
}

#[test]
fn every_attribute_of_a_flowop_arrives() {
    let text = script(
        "set $i=randvar(type=uniform,min=0,mean=50)",
        "flowop read name=r,filename=set,fd=3,srcfd=4,iosize=8k,workingset=1m,random,dsync,directio=1,noreadahead,\
         iters=7,indexed=$i,opennext=true,value=9,offset=16k,blocking,highwater=5",
    );
    let op = &ops(&load_clean(&text))[0];
    assert_eq!((op.fileset, op.fd, op.src_fd), (Some(0), 3, 4));
    assert_eq!(
        (op.io_size, op.working_set, op.iters),
        (Value::Int(8192), Value::Int(1 << 20), Value::Int(7))
    );
    assert!(op.random && op.dsync && op.direct_io && op.no_read_ahead && op.open_next && op.blocking);
    assert_eq!(
        (op.index, op.value, op.offset),
        (Some(Value::Draw(0)), Value::Int(9), Some(Value::Int(16384)))
    );
    assert_eq!(op.highwater, 5);
}

#[test]
fn every_attribute_of_a_fileset_arrives() {
    let text = "set $depth=randvar(type=gamma,mean=3)\n\
        define fileset name=a,path=/x,entries=10,leafdirs=5,dirwidth=7,dirgamma=0,dirdepthrv=$depth,filesize=2m,\
        prealloc,paralloc,reuse,trusttree,readonly,writeonly\n\
        define file name=b,path=/x,size=1g,prealloc=true\n\
        define fileset name=c,path=/x,entries=1,dirwidth=1,prealloc=false\n\
        define process name=p,nice=-5 { thread name=t,ioprio=3 { flowop statfile name=s,filesetname=a } }\n";
    let loaded = load_clean(text);
    let [a, b, c] = loaded.workload.filesets.as_slice() else { panic!("{:?}", loaded.workload.filesets) };
    assert_eq!((a.leafdirs, a.dir_width, a.dir_gamma, a.dir_depth), (5, Value::Int(7), 0.0, Some(0)));
    assert_eq!((a.size, a.prealloc_percent), (Value::Int(2 << 20), 100));
    assert!(a.parallel_alloc && a.reuse && a.trust_tree && a.read_only && a.write_only && !a.single);
    assert!(b.single);
    assert_eq!((b.entries, b.leafdirs, b.dir_gamma, b.prealloc_percent), (1, 0, 0.0, 100));
    assert_eq!(c.prealloc_percent, 0);
    assert_eq!(c.size, Value::Int(1024));
    let process = &loaded.workload.processes[0];
    assert_eq!((process.nice, process.threads[0].io_priority), (-5, Some(3)));
    assert_eq!(run_of(&loaded), (None, None, None, 0), "a file without `run` runs for the default length");
}

#[test]
fn units_and_names_are_read_generously() {
    for (written, expected) in [
        ("3k", 3 << 10),
        ("3K", 3 << 10),
        ("3kb", 3 << 10),
        ("3KiB", 3 << 10),
        ("2m", 2 << 20),
        ("2MB", 2 << 20),
        ("2g", 2 << 30),
        ("2t", 2u64 << 40),
        ("2TiB", 2 << 40),
        ("08", 8),
        ("0", 0),
        ("18446744073709551615", u64::MAX),
    ] {
        let op = &ops(&load_clean(&script("", &format!("flowop hog name=h,value={written}"))))[0];
        assert_eq!(op.value, Value::Int(expected), "{written}");
    }
    for name in ["file", "random", "rate", "\"run\"", "\"two words\"", "a.b-c_d", "1st"] {
        let op = &ops(&load_clean(&script("", &format!("flowop hog name={name},value=1"))))[0];
        assert_eq!(op.name, name.trim_matches('"'), "{name}");
    }
}

#[test]
fn brackets_and_one_letter_names_are_the_same_variable() {
    for written in ["$x", "${x}", "$(x)", "(${x})", "\"$x\"", "$(x)"] {
        let text = script("set $x=abc", &format!("flowop print name=h,value={written}"));
        assert_eq!(ops(&load_clean(&text))[0].text.as_deref(), Some("abc"), "{written}");
    }
    let text = script("set $m=16k\nset $v=randvar(type=uniform,mean=$m)", "flowop hog name=h,value=$v");
    load_clean(&text);
}

#[test]
fn line_ends_of_other_systems_and_a_byte_order_mark_are_fine() {
    let text = script("set $x=4k", "flowop hog name=h,value=$x");
    assert_eq!(load_clean(&text.replace('\n', "\r\n")).workload, load_clean(&text).workload);
    assert_eq!(load_clean(&format!("\u{feff}{text}")).workload, load_clean(&text).workload);
}

#[test]
fn a_script_may_stand_on_one_line() {
    let text = script("set $x=4k set $y=$x", "flowop hog name=h,value=$y flowop hog name=i,value=$x");
    let one_line = text.replace('\n', " ");
    assert_eq!(load_clean(&one_line).workload, load_clean(&text).workload);
}

#[test]
fn expressions_compute() {
    for (expression, expected) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3),
        ("7 % 4", 3),
        ("2*3", 6),
        ("$a*2", 200),
        ("$a/8", 12),
        ("$a-1", 99),
        ("$a - -1", 101),
        ("1k+1", 1025),
        ("min(3, 2, 5)", 2),
        ("max(1, $a, 5)", 100),
        ("round_up(10, 4)", 12),
        ("round_up(12, 4)", 12),
        ("round_down($a * 3, 64)", 256),
        ("$ram / 1g", 24),
        ("$cores * 4", 8),
        ("$free / 1g", 7),
    ] {
        let text = script(&format!("set $a=100\nset $n={expression}"), "flowop hog name=h,value=$n");
        assert_eq!(ops(&load_clean(&text))[0].value, Value::Int(expected), "{expression}");
        let text = script("set $a=100", &format!("flowop hog name=h,value={expression},iters=2"));
        assert_eq!(ops(&load_clean(&text))[0].value, Value::Int(expected), "as attribute: {expression}");
    }
}

#[test]
fn paths_are_joined() {
    for (value, expected) in [
        ("$dir/sub", "/mnt/x/sub"),
        ("$dir/sub/deep-1.d", "/mnt/x/sub/deep-1.d"),
        ("$dir/$leaf", "/mnt/x/leaf"),
        ("\"$dir/sub\"", "/mnt/x/sub"),
        ("$dir.log", "/mnt/x.log"),
        ("\"${dir}s\"", "/mnt/xs"),
    ] {
        let text = format!(
            "set $dir=/mnt/x\nset $leaf=leaf\nset $path={value}\n\
             define fileset name=set,path=$path,entries=1,dirwidth=1\n\
             define process name=p {{ thread name=t {{ flowop statfile name=s,filesetname=set }} }}\n"
        );
        assert_eq!(load(&text).workload.filesets[0].path, expected, "{value}");
    }
}

#[test]
fn variables_are_looked_up_when_the_run_begins() {
    let text =
        script("set $x=1", "flowop hog name=h,value=$x").replace("run 1", "echo \"$x\"\nset $x=2\nrun 1");
    let loaded = load_clean(&text);
    assert_eq!(ops(&loaded)[0].value, Value::Int(2));
    assert_eq!(loaded.workload.script[0], Step::Echo("1".into()), "but `echo` sees the value at its place");
}

#[test]
fn files_created_early_keep_the_value_of_their_time() {
    let text = "set $n=5\ndefine fileset name=a,path=/x,entries=$n,dirwidth=1\ncreate files\nset $n=6\n\
                define fileset name=b,path=/x,entries=$n,dirwidth=1\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=b } }\nrun 3";
    let loaded = load_clean(text);
    assert_eq!((loaded.workload.filesets[0].entries, loaded.workload.filesets[1].entries), (5, 6));
    assert_eq!(loaded.workload.script[0], Step::CreateFiles);
}

#[test]
fn values_from_outside_go_before_the_scripts_own() {
    let text = script("set $a=1\nset $b=$a * 2\nset $dir=/tmp", "flowop hog name=h,value=$b");
    let value = |set: &[(&str, &str)]| ops(&load_with(&text, set))[0].value;
    assert_eq!(value(&[]), Value::Int(2));
    assert_eq!(value(&[("a", "10k")]), Value::Int(20 << 10));
    assert_eq!(value(&[("$a", "10")]), Value::Int(20));
    assert_eq!(value(&[("b", "$a + 41")]), Value::Int(42), "an expression of the script's variables");
    assert_eq!(value(&[("b", "min($cores, 8)")]), Value::Int(2));
    assert_eq!(value(&[("a", "$b2"), ("a", "3")]), Value::Int(6), "the last one counts");
    assert_eq!(value(&[("b", "randvar(type=uniform,min=1,mean=2)")]), Value::Draw(0));
    let loaded = load_with(&text, &[("dir", "/mnt/with blank")]);
    assert!(loaded.variables.contains(&("dir".into(), "/mnt/with blank".into())));
}

#[test]
fn the_machines_variables_give_way_to_the_scripts() {
    let text = script("set $ram=5", "flowop hog name=h,value=$ram");
    assert_eq!(ops(&load_clean(&text))[0].value, Value::Int(5));
    let text = script("", "flowop hog name=h,value=$ram");
    assert_eq!(ops(&load_with(&text, &[("ram", "1g")]))[0].value, Value::Int(1 << 30));
}

/// The distribution of the variable that `hog` gets.
fn distribution(value: &str) -> Distribution {
    let loaded = load_clean(&script(&format!("set $v={value}"), "flowop hog name=h,value=$v"));
    assert_eq!(loaded.workload.draws[0].name, "v");
    loaded.workload.draws[0].distribution.clone()
}

#[test]
fn random_variables_have_their_final_units() {
    let gamma = |shift, shape, scale| Distribution::Gamma { shift, shape, scale };
    assert_eq!(
        distribution("randvar(type=uniform,min=10,mean=30)"),
        Distribution::Uniform { low: 10.0, high: 50.0 }
    );
    assert_eq!(
        distribution("randvar(type=uniform,min=10,max=30)"),
        Distribution::Uniform { low: 10.0, high: 30.0 }
    );
    assert_eq!(distribution("randvar(type=uniform,min=10,mean=10)"), Distribution::Constant(10.0));
    assert_eq!(distribution("randvar(type=gamma,mean=30,gamma=3000)"), gamma(0.0, 3.0, 10.0));
    assert_eq!(distribution("randvar(mean=32,min=2)"), gamma(2.0, 1.5, 20.0), "gamma is the default");
    assert_eq!(
        distribution("randvar(type=gamma,gamma=100)"),
        gamma(0.0, 0.1, 1.0),
        "the default mean is the shape"
    );
    let table = distribution("randvar(type=tabular,randtable={{80, 1k, 4k}, {20, 4k, 8k}})");
    let Distribution::Table { rows, factor, shift } = table else { panic!("{table:?}") };
    assert_eq!((rows.len(), rows[1].percent, rows[1].low, rows[1].high), (2, 20.0, 4096.0, 8192.0));
    assert_eq!((factor, shift), (1.0, 0.0));
}

#[test]
fn custom_variables_have_their_final_units() {
    let cvar = |kind: &str, parameters: &str| {
        distribution(&format!("cvar(type=cvar-{kind},parameters=\"{parameters}\")"))
    };
    assert_eq!(cvar("uniform", "lower:2;upper:8"), Distribution::Uniform { low: 2.0, high: 8.0 });
    assert_eq!(cvar("normal", "mean:5"), Distribution::Normal { mean: 5.0, sigma: 1.0 });
    assert_eq!(
        cvar("lognormal", "shape:2;scale:3"),
        Distribution::LogNormal { log_mean: 3.0, log_sigma: 2.0 }
    );
    assert_eq!(cvar("exponential", "mean:4k"), Distribution::Exponential { mean: 4096.0 });
    assert_eq!(cvar("exponential", "mean:-4"), Distribution::Exponential { mean: 0.0 });
    assert_eq!(cvar("erlang", "shape:3;rate:12.5"), Distribution::Erlang { shape: 3, mean: 12.5 });
    assert_eq!(cvar("weibull", "shape:0.5;scale:7"), Distribution::Weibull { shape: 0.5, scale: 7.0 });
    let triangular = Distribution::Triangular { low: 0.0, high: 10.0, mode: 4.0 };
    assert_eq!(cvar("triangular", "lower:0;upper:10;mode:4"), triangular);
    assert_eq!(
        cvar("gamma", "mean:4096"),
        Distribution::Gamma { shift: 0.0, shape: 1.5, scale: 4096.0 / 1.5 }
    );
    for wrong in ["gamma:0", "mean:-1", "mean:inf", "mean:nan", "mean", "mean:1e999", "mean:4q"] {
        let text = format!("set $v=cvar(type=cvar-gamma,parameters=\"{wrong}\")");
        assert!(try_load(&script(&text, "flowop hog name=h,value=$v"), &[]).is_err(), "{wrong}");
    }
}

#[test]
fn custom_variables_are_clamped_and_rounded() {
    let text = script(
        "set $v=cvar(type=cvar-normal,parameters=mean:100;sigma:10,min=20,max=900,round=16)\n\
         set $w=cvar(type=normal)",
        "flowop hog name=h,value=$v\n flowop hog name=i,value=$w",
    );
    let loaded = load_clean(&text);
    let (v, w) = (&loaded.workload.draws[0], &loaded.workload.draws[1]);
    assert_eq!((v.clamp_min, v.clamp_max, v.round), (Some(20.0), Some(900.0), 16));
    assert_eq!((w.clamp_min, w.clamp_max, w.round), (Some(f64::MIN_POSITIVE), None, 0));
    assert_ne!(v.seed, w.seed, "variables without a seed have streams of their own");
}

#[test]
fn seeds_are_taken_and_otherwise_depend_on_the_name_only() {
    let seeds = |commands: &str| -> Vec<u64> {
        let loaded = load_clean(&script(commands, "flowop hog name=h"));
        loaded.workload.draws.iter().map(|draw| draw.seed).collect()
    };
    assert_eq!(seeds("set $a=randvar(type=uniform,mean=5,seed=77)"), [77]);
    let both = seeds("set $a=randvar(type=uniform,mean=5)\nset $b=cvar(type=cvar-normal)");
    let swapped = seeds("set $b=cvar(type=cvar-normal)\nset $a=randvar(type=uniform,mean=5)");
    assert_eq!(both, [swapped[1], swapped[0]]);
    let loaded = load_clean(&script("set mode seed 42", "flowop hog name=h"));
    assert_eq!(loaded.workload.seed, Some(42));
}

#[test]
fn a_small_random_index_is_a_share_of_the_entries() {
    let index = |commands: &str, fileset: &str| {
        let text = script(commands, &format!("flowop statfile name=s,{fileset},indexed=$i"));
        let loaded = load_clean(&text);
        match ops(&loaded)[0].index {
            Some(Value::Draw(index)) => Ok(loaded.workload.draws[index].distribution.clone()),
            other => Err(other),
        }
    };
    // 100 entries: factor 50.
    let scaled = index("set $i=randvar(type=gamma,gamma=100)", "filesetname=set");
    assert_eq!(scaled, Ok(Distribution::Gamma { shift: 0.0, shape: 0.1, scale: 50.0 }));
    let direct = index("set $i=randvar(type=uniform,mean=40)", "filesetname=set");
    assert_eq!(direct, Ok(Distribution::Uniform { low: 0.0, high: 80.0 }));
    assert_eq!(index("set $i=7", "filesetname=set"), Err(Some(Value::Int(7))));
}

#[test]
fn composite_flowops_take_arguments_and_nest() {
    let text = script(
        "define flowop name=inner,$file,$size=4k {\n flowop read name=r,filesetname=$file,iosize=$size,fd=1\n}\n\
         define flowop name=outer,iters=3,$target,$n {\n flowop inner name=in,iters=$n,$file=$target\n\
         flowop inner name=big,$file=$target,$size=64k\n}",
        "flowop outer name=o1,$target=set,$n=5\n flowop outer name=o2,iters=2,$n=1,$target=set",
    );
    let loaded = load_clean(&text);
    let body = &loaded.workload.processes[0].threads[0].body;
    let Node::Group { name, iters, body: inner } = &body[0] else { panic!("{body:?}") };
    assert_eq!((name.as_str(), *iters), ("o1", Value::Int(3)));
    let Node::Group { name, iters, .. } = &inner[0] else { panic!("{inner:?}") };
    assert_eq!((name.as_str(), *iters), ("o1.in", Value::Int(5)));
    let Node::Group { iters, .. } = &body[1] else { panic!("{body:?}") };
    assert_eq!(*iters, Value::Int(2));
    let found: Vec<(String, Value)> = ops(&loaded).into_iter().map(|op| (op.name, op.io_size)).collect();
    let expected = [("o1.in.r", 4), ("o1.big.r", 64), ("o2.in.r", 4), ("o2.big.r", 64)];
    assert_eq!(found, expected.map(|(name, kib)| (name.to_owned(), Value::Int(kib << 10))));
}

#[test]
fn arguments_hide_variables_only_inside() {
    let text = script(
        "set $x=1\ndefine flowop name=c,$x=2 { flowop hog name=in,value=$x }",
        "flowop c name=a\n flowop c name=b,$x=$x\n flowop hog name=out,value=$x",
    );
    let values: Vec<Value> = ops(&load_clean(&text)).iter().map(|op| op.value).collect();
    assert_eq!(values, [Value::Int(2), Value::Int(1), Value::Int(1)]);
}

#[test]
fn targets_are_found_inside_composites_and_across_processes() {
    let text = "define fileset name=set,path=/x,entries=1,dirwidth=1\n\
        define flowop name=guard { flowop semblock name=sem,value=1\n flowop block name=gate }\n\
        define process name=a { thread name=t { flowop guard name=g } }\n\
        define process name=b { thread name=t { flowop sempost name=post,target=sem,value=1\n\
        flowop wakeup name=wake,target=g.gate } }\n\
        define process name=c { thread name=t { flowop read name=r,filesetname=set,iosize=1k\n\
        flowop bwlimit name=l,target=r\n flowop finishoncount name=f,value=3,target=r } }\n";
    let loaded = load_clean(text);
    let targets = |process: usize| -> Vec<Option<String>> {
        let body = &loaded.workload.processes[process].threads[0].body;
        body.iter()
            .map(|node| match node {
                Node::Op(op) => op.target.clone(),
                Node::Group { .. } => None,
            })
            .collect()
    };
    assert_eq!(targets(1), [Some("g.sem".into()), Some("g.gate".into())]);
    assert_eq!(targets(2), [None, Some("r".into()), Some("r".into())]);
}

#[test]
fn a_limiter_sees_only_flowops_of_its_own_thread() {
    let text = "define process name=a { thread name=t { flowop hog name=h,value=1 } }\n\
                define process name=b { thread name=t { flowop iopslimit name=l,target=h } }\n";
    let found = try_load(text, &[]).unwrap_err();
    assert_eq!(messages(&found), ["there is no flowop of the same thread `h`"]);
}

#[test]
fn runs_of_every_form() {
    let run = |written: &str| {
        let text = script("set $t=9", "flowop hog name=h").replace("run 1", written);
        let loaded = load_clean(&text);
        run_of(&loaded)
    };
    assert_eq!(run("run"), (None, None, None, 0));
    assert_eq!(run("run 0"), (None, None, None, 0));
    assert_eq!(run("run $t"), (Some(9), None, None, 0));
    assert_eq!(run("run 60 ops=100000"), (Some(60), Some(100_000), None, 0));
    assert_eq!(run("run ops=100k, warmup=5"), (None, Some(102_400), None, 5));
    assert_eq!(run("run 60, warmup=$t"), (Some(60), None, None, 9));
    assert_eq!(run("psrun"), (None, None, Some(10), 0));
    assert_eq!(run("psrun -5 60"), (Some(60), None, Some(-5), 0));
    assert_eq!(run("psrun 5 $t"), (Some(9), None, Some(5), 0));
    assert_eq!(run("warmup 7\nrun 3"), (Some(3), None, None, 7));
    assert_eq!(run(""), (None, None, None, 0));
    assert_eq!(run("quit"), (None, None, None, 0));
}

#[test]
fn modes_generators_and_histograms() {
    let text =
        script("set mode quit firstdone\neventgen rate=$r\nset $r=50\nenable lathist", "flowop hog name=h");
    let loaded = load_clean(&text);
    assert_eq!(loaded.workload.end, EndMode::FirstDone);
    assert_eq!(loaded.workload.events_per_second, Some(Value::Int(50)));
    assert!(loaded.workload.latency_counters);
    let loaded = load_clean(&script("set mode quit alldone\nset mode nousestats", "flowop hog name=h"));
    assert_eq!(loaded.workload.end, EndMode::AllDone);
    assert_eq!(loaded.workload.events_per_second, None);
    let loaded = load_clean(&script("eventgen rate = 0", "flowop hog name=h"));
    assert_eq!(loaded.workload.events_per_second, Some(Value::Int(0)));
}

#[test]
fn text_is_shown_with_its_variables() {
    let text = script(
        "set $n=5\nset $b=true\nset $r=randvar(type=uniform,mean=3)\nset $c=cvar(type=cvar-normal)\n\
         echo \"n=$n b=$b r=$r c=$c \\$n ${n}x # no comment\\nend\"\nsystem \"sync; echo $n\"\nsleep 3",
        "flowop hog name=h",
    );
    let script = load_clean(&text).workload.script;
    let expected = "n=5 b=true r=uniform random var c=custom variable $n 5x # no comment\nend";
    assert_eq!(script[0], Step::Echo(expected.into()));
    assert_eq!(script[1], Step::System("sync; echo 5".into()));
    assert_eq!(script[2], Step::SleepSeconds(3));
    let loaded = load(&common::script("echo \"cost $amount\"", "flowop hog name=h"));
    assert_eq!(loaded.workload.script[0], Step::Echo("cost $amount".into()));
    assert_eq!(messages(&loaded.warnings), ["the variable `$amount` has no value here"]);
}

#[test]
fn programs_are_known_with_their_lines_and_variables() {
    let text = "set $dir=/x\nsystem \"touch $dir/a\"\nforeach $n in 1, 2 {\n  system \"echo $n\n;date\"\n}\n\
                define process name=p { thread name=t { flowop hog name=h } }\nrun 1\nsystem \"never\"\n";
    let loaded = load(text);
    let programs: Vec<(usize, &str)> = (loaded.programs.iter())
        .map(|program| (program.span.line(text.as_bytes()), program.command.as_str()))
        .collect();
    assert_eq!(programs, [(2, "touch /x/a"), (4, "echo 1\n;date"), (4, "echo 2\n;date")]);
    assert!(loaded.workload.programs().eq(programs.iter().map(|program| program.1)));
}

#[test]
fn nothing_of_a_command_hides_when_it_is_shown() {
    let hidden = "echo \"it's\" \\ \r\u{1b}[2K\u{202e}\nrm x";
    assert_eq!(wml::command_line(hidden), "echo \"it's\" \\ \\r\\u{1b}[2K\\u{202e}\\nrm x");
}

#[test]
fn list_fileset_is_a_step_at_its_place() {
    let file = |name: &str| format!("define file name={name},path=/x,size=1k\n");
    for word in ["fileset", "filesets", "file"] {
        let text = format!("{}list {word}\n{}", file("a"), script(&file("b"), "flowop hog name=h"));
        let loaded = load_clean(&text);
        assert_eq!(loaded.workload.script[0], Step::ListFilesets { defined: 1 }, "{word}");
        assert_eq!(loaded.workload.filesets.len(), 3);
    }
}

#[test]
fn what_has_no_effect_is_said() {
    for (commands, warning) in [
        ("enable multi master=host,client=me", "this command has no effect"),
        ("domultisync value=1", "this command has no effect"),
        ("fscheck path=/x,fstype=ufs", "this command has no effect"),
        ("sleep 0", "`sleep 0` would wait for ever"),
    ] {
        let loaded = load(&script(commands, "flowop hog name=h"));
        assert_eq!(messages(&loaded.warnings), [warning], "{commands}");
    }
    load_clean(&script("debug 1\nversion\nlist flowop", "flowop hog name=h"));
}

#[test]
fn asynchronous_writes_are_random() {
    let loaded =
        load(&script("", "flowop aiowrite name=w,filesetname=set,iosize=2k\n flowop aiowait name=a"));
    assert!(ops(&loaded)[0].random);
    assert_eq!(loaded.warnings.len(), 1);
}

#[test]
fn the_order_of_threads_and_repeated_names_is_kept() {
    let text = "define process name=p,instances=3 {\n thread name=a { flowop hog name=x\n flowop hog name=x }\n\
                thread name=b { flowop hog name=y }\n }\n";
    let loaded = load_clean(text);
    let process = &loaded.workload.processes[0];
    assert_eq!(process.instances, 3);
    assert_eq!(process.threads.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}
