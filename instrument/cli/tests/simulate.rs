//! `loadline simulate` and `loadline reproduce opimq`, as their user runs them.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const SCRIPT: &str = "set $n=4\ndefine fileset name=mail, path=/tmp, entries=50, size=4k, prealloc=80\n\
    define process name=p { thread name=t, instances=$n {\n\
      flowop deletefile name=delete, filesetname=mail\n\
      flowop createfile name=create, filesetname=mail, fd=1\n\
      flowop appendfile name=append, iosize=4k, fd=1\n\
      flowop fsync name=sync, fd=1\n\
      flowop closefile name=close, fd=1\n\
    } }\nrun 60\n";

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(home).env("LOADLINE_HOME", home.join("home")).env("NO_COLOR", "1").args(words);
    command
}

fn loadline(home: &Path, words: &[&str]) -> Output {
    command(home, words).output().unwrap()
}

fn told(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "--- out\n{out}\n--- err\n{err}");
    (out, err)
}

#[test]
fn a_script_is_simulated_stored_and_shown_in_every_form() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("mail.f"), SCRIPT).unwrap();
    let words = [
        "simulate",
        "mail.f",
        "--stack",
        "ext4,opext4",
        "--containers",
        "2,5",
        "--for",
        "200ms",
        "--set",
        "n=3",
    ];
    let more = |more: &[&str]| told(&loadline(home, &[&words[..], more].concat()), 0);
    let (table, err) = more(&["--csv", "points.csv", "--svg", "points.svg", "--name", "sim"]);
    assert!(table.contains("simulated in virtual time") && table.contains("opext4"), "{table}");
    assert!(err.contains("4 cells") && err.contains("containers=5 stack=opext4"), "{err}");
    let points = std::fs::read_to_string(home.join("points.csv")).unwrap();
    assert_eq!(points.lines().count(), 5, "{points}");
    assert!(points.lines().nth(2).unwrap().starts_with("mail,2,opext4,done,"), "{points}");
    let drawing = std::fs::read_to_string(home.join("points.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.matches("<circle").count() == 4, "{drawing}");
    // the same seed gives the same figures
    let (json, _) = more(&["--json", "--quiet"]);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let point = &read["lines"][0]["points"][1];
    assert!(point["ratio"].as_f64().unwrap() > 1.5, "{json}");
    let rate = point["ops_per_second"].as_f64().unwrap().to_string();
    assert!(points.contains(&rate), "{rate} {points}");
    let (report, _) = told(&loadline(home, &["report", "sim", "--format", "json"]), 0);
    assert!(report.contains("fsync_p99_ms"), "stored as any run is");
}

/// What docs/order.md shows is what its command draws; LOADLINE_WRITE_FIGURES=1 draws it anew.
#[test]
fn the_documentation_shows_what_is_drawn() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(documents.join("order.md")).unwrap();
    let line = page.lines().find_map(|line| line.trim().strip_prefix("loadline ")?.strip_suffix("order.svg"));
    let mut words: Vec<&str> = line.expect("the command is there").split_whitespace().collect();
    words.push("drawn.svg");
    let home = tempfile::tempdir().unwrap();
    told(&loadline(home.path(), &words), 0);
    let drawn = std::fs::read_to_string(home.path().join("drawn.svg")).unwrap();
    let file = documents.join("figures/order.svg");
    if std::env::var_os("LOADLINE_WRITE_FIGURES").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    assert!(std::fs::read_to_string(&file).unwrap() == drawn, "{} is not what is drawn now", file.display());
}

#[test]
fn a_trace_has_streams_and_epochs() {
    let home = tempfile::tempdir().unwrap();
    let (trace, _) =
        told(&loadline(home.path(), &["simulate", "write-fsync", "--stack", "opext4", "--trace"]), 0);
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(lines[0], "Timestamp\tPName\tPID\t[sid1, eid1]\t[sid2, eid2]\tbflag\tqid\toptype");
    assert!(lines[1].contains("\tfio\t2736\t[2736, 0]\t[2688, 0]\t1\t"), "{trace}");
    assert!(lines[5].contains("\tkworker\t784\t[2688, 3]\t[0, 0]\t1\t"), "{trace}");
}

#[test]
fn bad_input_is_told_with_what_is_right() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("bad.txt"), "NTCreateX \"a\" 0x40 0x2 9 NT_STATUS_OK\nFlush 8 NT_STATUS_OK\n")
        .unwrap();
    std::fs::write(
        home.join("aio.f"),
        SCRIPT.replace("flowop fsync name=sync, fd=1", "flowop hog name=hog, value=9"),
    )
    .unwrap();
    for (words, expected) in [
        (&["varmail", "--containers", "0"][..], "containers = `0`: a whole number from 1"),
        (&["varmail", "--stack", "ext5"], "unknown stack `ext5`; known are ext4,"),
        (&["varmail", "--device", "990pro"], "no profile named `990pro`; there are"),
        (&["bad.txt"], "bad.txt:2: `Flush` uses handle 8, which is not open; open it before"),
        (&["missing.f"], "there is no file missing.f; a workload is a script"),
        (&["aio.f"], "flowop hog (hog): it spends real processor time"),
        (&["varmail", "--set", "n=1"], "only scripts (*.f) have variables"),
        (&["varmail", "--for", "3x"], "there is no unit `x`"),
    ] {
        let (_, err) = told(&loadline(home, &[&["simulate"], words].concat()), 2);
        assert!(err.contains(expected), "{words:?}: {err}");
    }
    std::fs::write(home.join("work.f"), SCRIPT).unwrap();
    let (_, err) = told(&loadline(home, &["run", "work.f", "--on", "virtual"]), 2);
    assert!(err.contains("`virtual` is for workloads with `simulate`"), "{err}");
}

/// Ctrl-C in a simulation that would take hours: what was done before is kept.
#[test]
fn an_interrupt_keeps_what_is_done() {
    let home = tempfile::tempdir().unwrap();
    let words = ["simulate", "dbench", "--stack", "ext4", "--containers", "200", "--for", "100000s"];
    let mut child =
        command(home.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let store = home.path().join("home");
    // the run is stored before its first trial begins; its process is there a moment later
    while !has_child(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its first trial");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(store.exists());
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a signal to a process that this test has started and not yet waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let (table, _) = told(&child.wait_with_output().unwrap(), 130);
    assert!(table.contains("interrupted") || table.contains("not run"), "{table}");
}

fn has_child(pid: u32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    !children.trim().is_empty()
}

/// One column of the evaluation: the report says that it is simulated, what was published, and what misses.
#[test]
fn a_figure_of_the_evaluation_is_simulated_beside_what_was_published() {
    let home = tempfile::tempdir().unwrap();
    let words =
        ["reproduce", "opimq", "--quick", "-q", "--columns", "fig11,dbench-40", "--rows", "ext4,opimq,mqfs"];
    let output = loadline(home.path(), &words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for expected in [
        "simulated in virtual time (quick)",
        "paper 6.49",
        "paper 27.7",
        "no device was measured",
        "The artifact's own data contradict its claim",
        "OPEXT4 cuts the latency of fsync by 66.59 %",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("MISS"), "{text}");
    assert!(matches!(output.status.code(), Some(1 | 4)), "most claims are open: {:?}", output.status);
}
