//! Whether KVM boots a kernel here. That /dev/kvm opens says little: a host that runs this machine as a guest by other means
//! (PVM) offers one that starts no ordinary kernel, and every question that QEMU asks beforehand is answered well.

use std::process::{Command, Stdio};
use std::time::Duration;

use camino::Utf8Path;
use host::Host;
use journal::PrivateTree;

use crate::{GuestError, QEMU};

/// How long a kernel may take to its first line under KVM: a tenth of a second is usual.
const CANARY_PATIENCE: Duration = Duration::from_secs(5);
/// What an ordinary kernel prints first.
const FIRST_LINE: &str = "Linux version";

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU's translator: ten to thirty times slower, and its times are those of no real processor.
    Tcg,
}

impl Accelerator {
    /// As results are labelled.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }
}

/// Which it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What guests use.
    pub accelerator: Accelerator,
    /// Why it is not KVM.
    pub why: Option<String>,
}

impl Choice {
    fn tcg(why: impl Into<String>) -> Choice {
        Choice { accelerator: Accelerator::Tcg, why: Some(why.into()) }
    }
}

/// Decides for `vmlinuz`: what the machine says, then a boot up to the kernel's first line, of at most five seconds, in a
/// private directory.
pub fn choose(host: &Host, vmlinuz: &Utf8Path, place: &PrivateTree) -> Choice {
    match kvm_obstacle(host) {
        Some(why) => Choice::tcg(why),
        None => match canary(vmlinuz, place) {
            Ok(true) => Choice { accelerator: Accelerator::Kvm, why: None },
            Ok(false) => Choice::tcg(format!(
                "KVM is present but does not boot this kernel (no output in {} s)",
                CANARY_PATIENCE.as_secs()
            )),
            Err(error) => Choice::tcg(format!("KVM could not be tried: {error}")),
        },
    }
}

/// What stands against KVM as far as can be seen without trying.
fn kvm_obstacle(host: &Host) -> Option<String> {
    let device = host.path("/dev/kvm");
    if let Err(error) = std::fs::File::options().read(true).write(true).open(&device) {
        return Some(format!("/dev/kvm: {error}"));
    }
    if host.exists("/sys/module/kvm_pvm") {
        return Some("KVM here is PVM, which boots no ordinary kernel".into());
    }
    let processors = host.read("/proc/cpuinfo").unwrap_or_default();
    let flags = host::text::value_of(&processors, "flags", ':').unwrap_or_default();
    let virtual_machines = flags.split_whitespace().any(|flag| matches!(flag, "vmx" | "svm"));
    let module = host.exists("/sys/module/kvm_intel") || host.exists("/sys/module/kvm_amd");
    if !(virtual_machines && module) {
        return Some("/dev/kvm is there, but the processor shows neither VMX nor SVM".into());
    }
    None
}

/// Whether the kernel says anything under KVM in time.
fn canary(vmlinuz: &Utf8Path, place: &PrivateTree) -> Result<bool, GuestError> {
    let console = place.path().join("canary.log");
    let mut command = Command::new(QEMU);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35"]);
    command.args(["-accel", "kvm", "-cpu", "host", "-m", "256", "-kernel", vmlinuz.as_str()]);
    command.args(["-append", "earlyprintk=serial,ttyS0 console=ttyS0 panic=-1"]);
    command.arg("-serial").arg(format!("file:{console}"));
    host::process::end_with_parent(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(GuestError::at(QEMU))?;
    let spoke =
        || std::fs::read(&console).is_ok_and(|text| String::from_utf8_lossy(&text).contains(FIRST_LINE));
    let mut ended = false;
    host::wait::wait_until(CANARY_PATIENCE, || {
        ended = child.try_wait().is_ok_and(|status| status.is_some());
        ended || spoke()
    });
    let booted = spoke();
    let _ = child.kill();
    let _ = child.wait();
    Ok(booted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as its files tell it.
    fn machine(flags: &str, modules: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        ["dev", "proc", "sys/module"].iter().for_each(|dir| std::fs::create_dir_all(at(dir)).unwrap());
        std::fs::write(at("dev/kvm"), "").unwrap();
        std::fs::write(at("proc/cpuinfo"), format!("processor\t: 0\nflags\t\t: fpu {flags}\n")).unwrap();
        modules.iter().for_each(|name| std::fs::create_dir(at("sys/module").join(name)).unwrap());
        root
    }

    #[test]
    fn a_kvm_that_only_looks_like_one_is_told() {
        for (flags, modules, why) in [
            ("vmx", &["kvm", "kvm_intel"][..], None),
            ("svm", &["kvm", "kvm_amd"][..], None),
            ("vmx", &["kvm", "kvm_intel", "kvm_pvm"][..], Some("PVM")),
            ("hypervisor", &["kvm", "kvm_pvm"][..], Some("PVM")),
            ("hypervisor", &["kvm", "kvm_intel"][..], Some("VMX")),
            ("vmx", &["kvm"][..], Some("VMX")),
        ] {
            let root = machine(flags, modules);
            let host = Host::rooted(Utf8Path::from_path(root.path()).unwrap());
            let found = kvm_obstacle(&host);
            assert_eq!(found.is_some(), why.is_some(), "{flags} {modules:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(why.unwrap_or_default()), "{flags} {modules:?}");
        }
        let empty = tempfile::tempdir().unwrap();
        let host = Host::rooted(Utf8Path::from_path(empty.path()).unwrap());
        assert!(kvm_obstacle(&host).unwrap().contains("/dev/kvm"));
    }
}
