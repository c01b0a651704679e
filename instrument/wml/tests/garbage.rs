//! Any bytes give a workload or diagnostics that can be shown; never a panic, and never without an error when refused.

mod common;

use common::settings;
use proptest::prelude::*;

/// Loads and renders; what is refused must say why.
fn survives(bytes: &[u8], set: &[(&str, &str)]) {
    match wml::load(bytes, &settings(set)) {
        Ok(loaded) => {
            assert!(!loaded.warnings.has_errors());
            assert!(matches!(loaded.workload.script.last(), Some(workload::Step::Run { .. })));
            for draw in &loaded.workload.draws {
                assert!(draw.check().is_ok(), "{draw:?}");
            }
            loaded.warnings.render("x.f", bytes, true);
        }
        Err(found) => {
            assert!(found.has_errors());
            for one in &found {
                if let Some(span) = one.span {
                    assert!(span.start <= span.end && span.end <= bytes.len(), "{one:?}");
                }
            }
            assert!(!found.render("x.f", bytes, false).is_empty());
        }
    }
}

const SEEDS: &[&str] = &[
    include_str!("../../../workloads/varmail.f"),
    include_str!("../../../workloads/oltp.f"),
    include_str!("../../../workloads/networkfs.f"),
    include_str!("../../../workloads/append.f"),
    "define randvar name=$s,type=gamma,mean=1k\nset $s.mean=8k\nforeach $x in 1,2 { echo \"$x ${s}\" }\n\
     create processes\nsleep 5\nstats clear\npsrun -5 60\nset mode seed 7\nenable multi master=a,client=b\n",
];

/// Words and signs of the language, to be thrown together.
const WORDS: &[&str] = &[
    "set",
    "$a",
    "$b",
    "=",
    ",",
    "{",
    "}",
    "(",
    ")",
    "define",
    "fileset",
    "file",
    "process",
    "thread",
    "flowop",
    "name",
    "path",
    "=x",
    "=/tmp",
    "entries",
    "=10",
    "dirwidth",
    "read",
    "iosize",
    "=4k",
    "fd",
    "=1",
    "filesetname",
    "randvar",
    "cvar",
    "type",
    "=uniform",
    "=cvar-gamma",
    "mean",
    "randtable",
    "={{50,1,2},{50,2,3}}",
    "run",
    "psrun",
    "60",
    "-5",
    "eventgen",
    "rate",
    "foreach",
    "in",
    "echo",
    "\"",
    "\"t $a\"",
    "\\",
    "#",
    "\n",
    " ",
    "\t",
    "1",
    "18446744073709551615",
    "* 3",
    "/ 0",
    "% 2",
    "- 1",
    "+",
    "min",
    "max",
    "round_up",
    "true",
    "create",
    "files",
    "processes",
    "sleep",
    "quit",
    "mode",
    "alldone",
    "$a.mean",
    "${a}",
    "$(b)",
    "$",
    "target",
    "semblock",
    "sempost",
    "iters",
    "indexed",
    "value",
    "\u{e9}",
    "load",
    "stats",
    "snap",
    "usage",
    "system",
    "warmup",
    "ops",
    "offset",
    ";",
    ":",
    "~",
    "?",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives(&bytes, &[]);
    }

    #[test]
    fn random_words(words in proptest::collection::vec(0..WORDS.len(), 0..80), blank in any::<bool>()) {
        let parts: Vec<&str> = words.iter().map(|&index| WORDS[index]).collect();
        survives(parts.join(if blank { " " } else { "" }).as_bytes(), &[]);
    }

    #[test]
    fn mutated_scripts(
        seed in 0..SEEDS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, 0..WORDS.len(), any::<u8>()), 1..6),
    ) {
        let mut bytes = SEEDS[seed].as_bytes().to_vec();
        for (place, what, word, byte) in edits {
            let at = place.index(bytes.len() + 1);
            match what {
                0 => drop(bytes.splice(at..at, WORDS[word].bytes())),
                1 => drop(bytes.splice(at..(at + 1 + usize::from(byte) % 20).min(bytes.len()).max(at), [])),
                2 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.truncate(at.max(1)),
            }
        }
        survives(&bytes, &[]);
    }

    #[test]
    fn random_values_from_outside(words in proptest::collection::vec(0..WORDS.len(), 0..8)) {
        let parts: Vec<&str> = words.iter().map(|&index| WORDS[index]).collect();
        let value = parts.join(" ");
        let text = SEEDS[0].as_bytes();
        if let Err(found) = wml::load(text, &settings(&[("nfiles", &value)])) {
            prop_assert!(found.has_errors());
            found.render("x.f", text, false);
        }
    }

    #[test]
    fn what_parses_parses_with_other_line_ends(seed in 0..SEEDS.len()) {
        let text = SEEDS[seed];
        let plain = wml::parse(text.as_bytes()).map(|script| script.commands.len());
        let other = wml::parse(text.replace('\n', "\r\n").as_bytes()).map(|script| script.commands.len());
        prop_assert_eq!(plain.ok(), other.ok());
    }
}

#[test]
fn deep_and_long_constructs_are_refused_not_died_of() {
    let deep = |open: &str, close: &str, n: usize| format!("set $a={}1{}", open.repeat(n), close.repeat(n));
    survives(deep("(", ")", 100_000).as_bytes(), &[]);
    survives(deep("-", "", 100_000).as_bytes(), &[]);
    survives(deep("min(", ")", 100_000).as_bytes(), &[]);
    survives(format!("set $a=1{}", " + 1".repeat(100_000)).as_bytes(), &[]);
    survives(format!("set $a=/x\nset $b=$a{}", "/$a".repeat(150)).as_bytes(), &[]);
    survives("foreach $x in 1 { ".repeat(50_000).as_bytes(), &[]);
    survives("set $a=randvar(mean=".repeat(50_000).as_bytes(), &[]);
    survives("define process name=p { thread name=t { ".repeat(20_000).as_bytes(), &[]);
    survives(format!("echo \"{}\"", "x".repeat(1_000_000)).as_bytes(), &[]);
    survives(format!("set $a={}", "x".repeat(1_000_000)).as_bytes(), &[]);
    survives("\u{0}".repeat(100_000).as_bytes(), &[]);
    survives("?".repeat(100_000).as_bytes(), &[]);
    survives(&vec![0xff; 100_000], &[]);
    survives("}".repeat(100_000).as_bytes(), &[]);
}

#[test]
fn what_multiplies_is_bounded() {
    // Text that doubles.
    survives(format!("set $a=xxxx\n{}", "set $a=\"$a$a\"\n".repeat(60)).as_bytes(), &[]);
    // Loops in loops.
    let loops = "foreach $i in 1,2,3,4,5,6,7,8,9,10 {\n".repeat(12) + "echo \"$i\"\n" + &"}".repeat(12);
    survives(loops.as_bytes(), &[]);
    // Composites of composites.
    let mut text = String::from("define flowop name=c0 { flowop hog name=h }\n");
    for i in 1..16 {
        let inner = i - 1;
        let uses: String = (0..10).map(|n| format!("flowop c{inner} name=n{n}\n")).collect();
        text.push_str(&format!("define flowop name=c{i} {{\n{uses}}}\n"));
    }
    text.push_str("define process name=p { thread name=t { flowop c15 name=top } }\n");
    let found = wml::load(text.as_bytes(), &settings(&[])).unwrap_err();
    assert!(found.iter().any(|one| one.message.contains("expand to more than")), "{found}");
}

#[test]
fn a_megabyte_is_read() {
    let mut text = String::from("set $dir=/tmp\n");
    let mut number = 0;
    while text.len() < 1_000_000 {
        text.push_str(&format!(
            "define fileset name=set{number},path=$dir,entries=10,dirwidth=20,size=4k\n\
             define process name=p{number} {{ thread name=t {{\n\
             flowop openfile name=o,filesetname=set{number},fd=1\n flowop closefile name=c,fd=1 }} }}\n"
        ));
        number += 1;
    }
    let loaded = common::load(&text);
    assert_eq!(loaded.workload.processes.len(), number);
}
