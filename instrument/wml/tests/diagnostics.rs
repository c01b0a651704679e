//! Golden diagnostics of typical mistakes.

mod common;

use common::{script, try_load};

/// Shows what loading gives: the errors, or the warnings of a script that runs.
fn shown(text: &str, set: &[(&str, &str)]) -> String {
    match try_load(text, set) {
        Ok(loaded) => format!("runs\n{}", loaded.warnings.render("mail.f", text.as_bytes(), false)),
        Err(found) => found.render("mail.f", text.as_bytes(), false),
    }
}

macro_rules! golden {
    ($($name:ident: $text:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), shown(&$text, &[]));
        })*
    };
}

golden! {
    unknown_command: "rnu 60\n";
    unknown_entity: "define filset name=a,path=/tmp\n";
    unknown_flowop: script("", "flowop opnfile name=a,filesetname=set,fd=1");
    unknown_attribute: script("", "flowop openfile name=a,filesetname=set,fdd=1");
    unknown_fileset: script("", "flowop openfile name=a,filesetname=sets,fd=1");
    unknown_variable: script("set $iosize=4k", "flowop read name=a,filesetname=set,iosize=$iosiz");
    unknown_semaphore: script("", "flowop semblock name=sem,value=1\n    flowop sempost name=post,value=1,target=sen");
    target_of_wrong_type: script("", "flowop hog name=h,value=1\n    flowop wakeup name=w,target=h");
    missing_target: script("", "flowop sempost name=post,value=1");
    missing_name: script("", "flowop openfile filesetname=set,fd=1");
    missing_path: "define fileset name=a,entries=10,dirwidth=20\n";
    missing_comma: script("", "flowop openfile name=a filesetname=set");
    missing_iosize: script("", "flowop write name=a,filesetname=set");
    missing_fileset: script("", "flowop createfile name=a,fd=1");
    slot_never_opened: script("", "flowop openfile name=a,filesetname=set,fd=1\n    flowop closefile name=b,fd=2");
    slot_out_of_range: script("", "flowop openfile name=a,filesetname=set,fd=128");
    not_a_number: script("", "flowop read name=a,filesetname=set,iosize=4q");
    not_a_boolean: script("", "flowop read name=a,filesetname=set,iosize=4k,random=maybe");
    negative_number: script("set $n=10 - 20", "flowop hog name=a,value=$n");
    number_too_large: script("set $n=99999999999999999999", "flowop hog name=a,value=$n");
    product_too_large: script("set $n=16t * 16t", "flowop hog name=a,value=$n");
    division_by_zero: script("set $zero=0\nset $n=16k / $zero", "flowop hog name=a,value=$n");
    unterminated_string: "echo \"hello\nrun 60\n";
    unclosed_block: "define process name=p\n{\n  thread name=t\n  {\n    flowop hog name=h\n  }\nrun 60\n";
    flowop_outside: "flowop read name=a\n";
    stray_bytes: "set $a=4k ? 8k\n";
    missing_value: "set $dir=\n\nset mode quit alldone\n";
    unquoted_blank: "set $dir=/mnt/my disk\n";
    wrong_mode: "set mode quit never\n";
    wrong_cvar_type: script("set $s=cvar(type=cvar-gama,parameters=mean:1)", "flowop hog name=h,value=$s");
    wrong_cvar_parameter: script("set $s=cvar(type=cvar-gamma,parameters=maen:1)", "flowop hog name=h,value=$s");
    bad_table: script("set $s=randvar(type=tabular)", "flowop hog name=h,value=$s");
    table_not_a_hundred: script("set $s=randvar(randtable={{50, 1k, 2k}, {40, 2k, 4k}})", "flowop hog name=h,value=$s");
    unknown_argument: script("define flowop name=c,$file { flowop openfile name=o,filesetname=$file,fd=1 }", "flowop c name=c1,$fil=set");
    missing_argument: script("define flowop name=c,$file { flowop openfile name=o,filesetname=$file,fd=1 }", "flowop c name=c1");
    composite_holds_itself: script("define flowop name=c { flowop c name=again }", "flowop c name=c1");
    two_runs_in_foreach: script("foreach $iosize in 4k, 64k {\nrun 10\n}", "flowop hog name=h");
    behind_the_run: "define process name=p { thread name=t { flowop hog name=h } }\nrun 5\nset $a=5\n";
    load_of_old: "load varmail\nset $dir=/tmp\nrun 60\n";
    no_process: "define fileset name=a,path=/tmp,entries=10,dirwidth=20\nrun 60\n";
    entries_at_random: "set $n=randvar(type=uniform,min=10,mean=20)\ndefine fileset name=a,path=/tmp,entries=$n,dirwidth=20\ndefine process name=p { thread name=t { flowop statfile name=s,filesetname=a } }\n";
    several_at_once: "set $dir=/tmp\ndefine fileset name=a,path=$dir,entrees=10,dirwidth=20\ndefine process name=p\n{\n  thread name=t\n  {\n    flowop opnfile name=o,filesetname=a,fd=1\n    flowop read name=r,fd=1,iosize=4x\n  }\n}\nrun $runtime\n";
}

#[test]
fn wrong_set_from_outside() {
    let text = script("set $nfiles=10", "flowop hog name=h,value=$nfiles");
    let mut all = String::new();
    for (name, value) in
        [("nfile", "10"), ("banana", "10"), ("nfiles", "abc"), ("nfiles", "(1"), ("nfiles", "$x")]
    {
        all.push_str(&format!("--set {name}={value}\n{}\n", shown(&text, &[(name, value)])));
    }
    insta::assert_snapshot!("wrong_set_from_outside", all);
}

#[test]
fn colour_is_only_used_when_asked_for() {
    let text = "rnu 60\n";
    let found = try_load(text, &[]).unwrap_err();
    assert!(!found.render("a.f", text.as_bytes(), false).contains('\u{1b}'));
    assert!(found.render("a.f", text.as_bytes(), true).contains('\u{1b}'));
}

#[test]
fn the_number_of_errors_is_bounded() {
    let text = "set $a\n".repeat(10_000);
    let found = try_load(&text, &[]).unwrap_err();
    assert_eq!(found.len(), 50);
}
