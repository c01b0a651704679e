//! Loads in containers: begun together, added without loss, named when one fails, and nothing is left.

mod common;

use std::process::Output;

use common::{Place, SAMPLED_RUNS, WORKLOAD, can_have_worked, names, text};
use needs::needs;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.dir.path().join("work.f"), WORKLOAD).unwrap();
    place
}

fn run(place: &Place, runtime: &str, words: &[&str]) -> Output {
    let words = [&["run", "work.f", "--on", "tmpfs", "-n", "1"], words].concat();
    place.command(&words).env("LOADLINE_CONTAINERS", runtime).output().unwrap()
}

fn three_run(runtime: &str, remark: bool) {
    let place = place();
    let output = run(&place, runtime, &["--containers", "3,1", "--ops", "300", "--csv", "csv"]);
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("3 containers: ready after") && told.contains("1 containers: ready after"),
        "{told}"
    );
    assert_eq!(told.contains("plain namespaces"), remark, "{told}");
    let metrics = std::fs::read_to_string(place.dir.path().join("csv/metrics.csv")).unwrap();
    assert!(metrics.contains("container_start_skew_seconds"), "{metrics}");
    place.is_clean();
}

#[test]
fn a_load_runs_in_oci_containers_and_leaves_nothing() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    three_run("runc", false);
}

#[test]
fn without_runc_plain_namespaces_do_and_the_report_says_so() {
    needs!(Root, Mounts, MemoryCgroup);
    three_run("namespaces", true);
}

/// A process that does nothing but use a processor; it ends with the value.
struct Busy(std::process::Child);

impl Busy {
    fn begin() -> Busy {
        Busy(std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // it can only be gone already
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each container once sampled the machine by itself, and the samples were added: four times the machine's CPU seconds, while a
/// compiler beside it was not seen at all.
#[test]
fn the_machine_is_sampled_once_however_many_containers_there_are() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for runtime in ["runc", "namespaces"] {
        assert!((0..SAMPLED_RUNS).any(|_| is_sampled_once(runtime)), "{runtime}: added over the containers");
    }
}

/// Whether what a run says of the machine is no more than that can have done.
fn is_sampled_once(runtime: &str) -> bool {
    let place = place();
    let busy = Busy::begin();
    let begin = std::time::Instant::now();
    let output = run(&place, runtime, &["--containers", "1,4", "--for", "2s", "--csv", "csv"]);
    let wall_seconds = begin.elapsed().as_secs_f64();
    drop(busy);
    assert!(output.status.success(), "{}", text(&output));
    let metrics = std::fs::read_to_string(place.dir.path().join("csv/metrics.csv")).unwrap();
    let all = |name: &str| -> Vec<f64> {
        let lines = metrics.lines().filter(|line| line.split(',').any(|word| word == name));
        lines.map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect()
    };
    let (counted, machine) = (all("counted_seconds"), all("machine_cpu_seconds"));
    let (others, own) = (all("others_cpu_seconds"), all("cpu_user_seconds"));
    assert_eq!([counted.len(), machine.len(), others.len(), own.len()], [2; 4], "{metrics}");
    for at in 0..2 {
        assert!(counted[at] < wall_seconds, "{metrics}");
        assert!(others[at] > 0.0, "the busy process was seen: {metrics}");
    }
    place.is_clean();
    (0..2).all(|at| can_have_worked(machine[at], counted[at]))
}

#[test]
fn a_container_that_fails_is_named_and_the_others_are_taken_down() {
    needs!(Root, Mounts, MemoryCgroup, Runc);
    for runtime in ["runc", "namespaces"] {
        let place = place();
        // no process of loadline fits into it
        let output = run(&place, runtime, &["--containers", "3", "--memory", "1M", "--for", "1s"]);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let named = (0..3).any(|number| told.contains(&format!("failed: container {number} ")));
        assert!(named, "{told}");
        place.is_clean();
    }
}

/// One container has the server, the others a client each.
#[test]
fn sysbench_runs_against_a_server_in_a_container_of_its_own() {
    needs!(
        Root,
        Mounts,
        MemoryCgroup,
        Runc,
        Tool { program: "mariadbd", package: "mariadb-server" },
        Tool { program: "sysbench", package: "sysbench" },
    );
    let place = Place::new();
    let study = "stacks = [\"tmpfs\"]\n[study]\ntitle = \"t\"\ncontainers = [3]\ntrials = 1\n\
        [[workload]]\napp = \"sysbench\"\nset = { seconds = 1, rows = 10 }\n";
    std::fs::write(place.dir.path().join("sysbench.toml"), study).unwrap();
    let words = ["run", "sysbench.toml", "--csv", "csv"];
    let output = place.command(&words).env("LOADLINE_CONTAINERS", "runc").output().unwrap();
    let told = text(&output);
    assert!(output.status.success() && told.contains("3 containers: ready after"), "{told}");
    let trials = std::fs::read_to_string(place.dir.path().join("csv/trials.csv")).unwrap();
    assert!(trials.contains("transaction,sysbench"), "{trials}");
    place.is_clean();
}

#[test]
fn numbers_that_cannot_be_are_refused_before_anything_is_made() {
    let place = place();
    for (number, wrong) in [
        ("0", "0 containers are out of range; 1 to 1000"),
        ("1001", "1001 containers are out of range"),
        ("4,4", "4 containers stand twice"),
        ("many", "`many` is not a number of containers; write 40, or 40,100,200"),
    ] {
        let output = run(&place, "runc", &["--containers", number]);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(wrong), "{told}");
    }
    assert_eq!(names(&place.dir.path().join("home/images")), Vec::<String>::new());
}
