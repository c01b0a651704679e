//! IOR's and mdtest's patterns under a launcher.

use needs::needs;
use serde_json::Value;

use crate::common::{SAMPLED_RUNS, can_have_worked};
use crate::{MPIRUN, Place, text};

pub fn metric(trial: &Value, name: &str) -> f64 {
    let metrics = trial["outcome"]["metrics"].as_array().unwrap_or_else(|| panic!("{trial:#}"));
    let found = metrics.iter().find(|metric| metric["name"] == name);
    found.and_then(|metric| metric["value"].as_f64()).unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
}

fn ops(trial: &Value, name: &str) -> u64 {
    let found = trial["outcome"]["ops"].as_array().unwrap().iter().find(|op| op["name"] == name);
    found.and_then(|op| op["ops"].as_u64()).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn ranks_write_and_read_what_others_wrote() {
    needs!(MPIRUN);
    let place = Place::new();
    let words = ["ior", "--on", "dir:shared", "-n", "1", "--"];
    let options = "-b 47008 -t 47008 -s 50 -C -e -g -w -r -R".split(' ');
    let words: Vec<&str> = words.into_iter().chain(options).collect();
    let shown = || {
        let output = place.mpirun("3", &words).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        place.last("home")
    };
    // sampled once, by rank 0, not added over the ranks
    let sampled_once = |shown: &Value| {
        let trial = &shown["run"]["trials"][0];
        can_have_worked(metric(trial, "machine_cpu_seconds"), metric(trial, "counted_seconds"))
    };
    let shown = (0..SAMPLED_RUNS).map(|_| shown()).find(sampled_once).expect("added over the ranks");
    let trial = &shown["run"]["trials"][0];
    assert_eq!((ops(trial, "write"), ops(trial, "read")), (150, 150));
    // what all did within one span of one clock: no more than the sum of the ranks' own rates
    let rate = metric(trial, "write/ops_per_second");
    assert!(rate > 0.0 && metric(trial, "write/mib_per_second") > 0.0);
    assert!(
        metric(trial, "write/slowest_rank_ops_per_second")
            <= metric(trial, "write/fastest_rank_ops_per_second")
    );
    assert!(shown.to_string().contains("no task reads its own data"), "{trial:#}");
    assert_eq!(trial["extras"]["ranks"].as_array().unwrap().len(), 3);
    let words = ["mdtest", "--on", "dir:shared", "-n", "1", "--", "-n", "50", "-u", "-N", "1", "-w", "10"];
    let output = place.mpirun("3", &words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let trial = place.last("home")["run"]["trials"][0].clone();
    assert_eq!((ops(&trial, "file-create"), ops(&trial, "directory-remove")), (150, 150));
    assert!(metric(&trial, "file-stat/ops_per_second") > 0.0);
    place.is_clean();
}

#[test]
fn options_that_cannot_be_are_told() {
    let place = Place::new();
    for (words, why) in [
        (&["ior", "--on", "dir:shared", "--", "-t", "3m"][..], "multiple of the transfer"),
        (&["mdtest", "--on", "dir:shared", "--", "-q"], "there is no option -q"),
        (&["ior", "--on", "dir:shared", "--", "-a", "MPIIO"], "only POSIX"),
        (&["mail.f", "--on", "dir:shared", "--", "-t", "1m"], "options after `--` are for"),
    ] {
        let output = place.loadline("home", &[&["run"][..], words].concat());
        let told = text(&output);
        assert!(output.status.code() == Some(2) && told.contains(why), "{words:?}: {told}");
    }
}
