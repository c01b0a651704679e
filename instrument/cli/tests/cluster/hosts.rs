//! Two hosts on one machine: network namespaces with an address and a name each, one of them with another clock.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use needs::Need::Tool;
use needs::needs;
use serde_json::Value;

use super::parallel::metric;
use crate::{MPIRUN, Place, text};

const IP: needs::Need = Tool { program: "ip", package: "iproute2" };
const NSENTER: needs::Need = Tool { program: "nsenter", package: "util-linux" };
/// How far the second host's clock is ahead, in seconds.
const AHEAD: i64 = 100;

/// Two network namespaces with a cable between them; gone when this is dropped.
struct Hosts {
    names: [String; 2],
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split_whitespace()).output().is_ok_and(|output| output.status.success())
}

impl Hosts {
    fn new() -> Hosts {
        let id = std::process::id();
        let hosts = Hosts { names: [format!("lla{id}"), format!("llb{id}")] };
        let [a, b] = &hosts.names;
        for words in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("link add name v0 netns {a} type veth peer name v1 netns {b}"),
            format!("-n {a} addr add 10.213.0.1/24 dev v0"),
            format!("-n {b} addr add 10.213.0.2/24 dev v1"),
            format!("-n {a} link set v0 up"),
            format!("-n {b} link set v1 up"),
            format!("-n {a} link set lo up"),
            format!("-n {b} link set lo up"),
        ] {
            assert!(ip(&words), "ip {words}");
        }
        hosts
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

/// `mpirun` on the first host, whose launcher starts the second rank on the second.
fn run(place: &Place, hosts: &Hosts, words: &[&str]) -> Value {
    let [a, b] = &hosts.names;
    let agent = place.path().join("agent");
    // the launcher says the host and the command
    let script = format!(
        "#!/bin/sh\nshift\nexec nsenter --net=/run/netns/{b} unshare --uts --time --monotonic {AHEAD} --fork \
         sh -c \"hostname {b}; $*\"\n"
    );
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command("nsenter", "home");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.arg(format!("--net=/run/netns/{a}")).args(["unshare", "--uts", "sh", "-c"]);
    command.args([&format!("hostname {a}; exec \"$@\""), "sh", "mpirun", "-n", "2", "-H"]);
    command.args([&format!("{a}:1,{b}:1"), "--bind-to", "none", "--mca", "plm_rsh_agent"]).arg(&agent);
    command.args(["-x", "LOADLINE_HOME", "-x", "NO_COLOR", "--wdir"]).arg(place.path());
    command.args([env!("CARGO_BIN_EXE_loadline"), "run"]).args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    place.last("home")["run"]["trials"][0].clone()
}

/// IOR takes each host's raw clock: with this one a run of a second would seem to take 100.
#[test]
fn another_clock_changes_no_figure() {
    needs!(MPIRUN, Root, IP, NSENTER);
    let place = Place::new();
    let hosts = Hosts::new();
    let trial = run(
        &place,
        &hosts,
        &["mail.f", "--on", "dir:shared", "--for", "1s", "--warmup", "0", "-n", "1", "--rate", "400"],
    );
    let parts = trial["extras"]["ranks"].as_array().unwrap();
    assert_eq!(parts[1]["host"], json_name(&hosts.names[1]));
    let offset = |rank: usize| parts[rank]["clock_offset_ns"].as_i64().unwrap();
    let bound = |rank: usize| parts[rank]["clock_bound_ns"].as_i64().unwrap();
    assert!(offset(0).abs() <= bound(0), "{parts:#?}");
    assert!((offset(1) - AHEAD * 1_000_000_000).abs() <= bound(1), "{} +- {}", offset(1), bound(1));
    // intended times are kept by each rank's own clock, and both began at one moment
    let late = metric(&trial, "rank_start_late_max_seconds");
    for op in trial["outcome"]["ops"].as_array().unwrap() {
        let longest = |histogram: &str| op[histogram]["max"].as_f64().unwrap_or(0.0) / 1e9;
        assert!(longest("intended") < AHEAD as f64 / 2.0, "{op:#}");
    }
    assert!((0.0..AHEAD as f64 / 2.0).contains(&late), "{late}");
    let last = metric(&trial, "rank_last_done_seconds");
    assert!(last < AHEAD as f64 / 2.0 && last >= metric(&trial, "rank_first_done_seconds"), "{last}");
    let trial = run(
        &place,
        &hosts,
        &[
            "ior",
            "--on",
            "dir:shared",
            "-n",
            "1",
            "--",
            "-F",
            "-b",
            "256k",
            "-t",
            "64k",
            "-C",
            "-w",
            "-r",
            "-R",
        ],
    );
    for phase in ["write", "read"] {
        assert!(metric(&trial, &format!("{phase}/seconds")) < AHEAD as f64 / 2.0, "{phase}");
    }
    assert!(
        !trial.to_string().contains("share its cache"),
        "each host reads what the other has written: {trial:#}"
    );
    place.is_clean();
}

fn json_name(name: &str) -> Value {
    Value::String(name.to_string())
}
