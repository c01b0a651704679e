//! `loadline sweep` as its user runs it.

use std::process::Command;

const WORKLOAD: &str = "define fileset name=data,path=/tmp,entries=20,size=64k,dirwidth=20,prealloc\n\
    define process name=p { thread name=t,instances=2 {\n\
      flowop read name=read,filesetname=data,iosize=4k,random\n\
      flowop write name=write,filesetname=data,iosize=4k,random\n\
    } }\nrun 60\n";

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a temporary directory"));
        std::fs::write(bench.0.path().join("work.f"), WORKLOAD).expect("a workload");
        std::fs::create_dir(bench.0.path().join("data")).expect("a directory");
        bench
    }

    fn expect(&self, code: i32, words: &[&str]) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.current_dir(self.0.path()).env("LOADLINE_HOME", self.0.path().join("home"));
        let output = command.env("NO_COLOR", "1").args(words).output().expect("the command starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}\n--- out\n{out}\n--- err\n{err}");
        (out, err)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }
}

#[test]
fn rates_become_a_curve_in_terminal_csv_json_drawing_and_page() {
    let bench = Bench::new();
    let sweep =
        ["sweep", "work.f", "--on", "dir:data", "--rates", "max,300,600", "--for", "4s", "-n", "1", "-q"];
    let files = ["--limit", "10s", "--svg", "c.svg", "--points", "c.csv", "--html", "c.html"];
    let (out, _) = bench.expect(0, &[&sweep[..], &files].concat());
    assert!(out.contains("work on dir:data, operations/s") && out.contains("closed loop"), "{out}");
    // a rate of a few hundred is kept by anything
    assert!(out.contains("no rate was too high") && out.contains("p99 below"), "{out}");
    let points = bench.file("c.csv");
    let rows: Vec<Vec<&str>> = points.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 6, "two rates: all operations, reads, writes\n{points}");
    for row in &rows {
        assert_eq!(row.len(), points.lines().next().unwrap_or_default().split(',').count(), "{row:?}");
        let offered: f64 = row[3].parse().expect("a rate");
        assert!(offered == 300.0 || offered == 600.0, "{row:?}");
    }
    assert!(bench.file("c.svg").starts_with("<svg") && bench.file("c.html").contains("Load curves"));
    let (again, _) = bench.expect(0, &["report", "last"]);
    assert!(again.contains("closed loop"), "{again}");
    let (json, _) = bench.expect(0, &[&sweep[..], &["--json"]].concat());
    let curves: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let of_first = &curves[0]["points"][0];
    assert_eq!((of_first["level"].as_str(), of_first["offered"].as_f64()), (Some("300"), Some(300.0)));
    assert_eq!(of_first["ops"].as_array().map(Vec::len), Some(2));
}

#[test]
fn wrong_rates_say_what_would_be_right() {
    let bench = Bench::new();
    for (words, hint) in [
        (&["--rates", "fast"][..], "write max, 50%"),
        (&["--rates", "50%"], "add it"),
        (&["--rates", "max,0"], "out of range"),
        (&["--rate", "100"], "--rates"),
        (&["--limit", "0"], "--limit"),
    ] {
        let (_, err) = bench.expect(2, &[&["sweep", "work.f", "--on", "dir:data"], words].concat());
        assert!(err.contains(hint), "{words:?}: {err}");
    }
}
