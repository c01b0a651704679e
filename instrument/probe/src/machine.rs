//! Kernel, processors, memory and load.

use host::text::{kib_of, value_of};
use study::environment::{Cpu, Kernel, Load, Memory};

use crate::root::Root;

/// Words of the kernel's command line that are known to change performance.
const TELLING_WORDS: [&str; 22] = [
    "mitigations",
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "transparent_hugepage",
    "intel_pstate",
    "amd_pstate",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "idle",
    "clocksource",
    "tsc",
    "nosmt",
    "maxcpus",
    "mem",
    "swapaccount",
    "elevator",
    "iommu",
];

pub fn kernel(root: &Root) -> Kernel {
    let command_line = root.text("/proc/cmdline").unwrap_or_default();
    let telling = |word: &&str| TELLING_WORDS.contains(&word.split('=').next().unwrap_or(word));
    let os_release = root.text("/etc/os-release").or_else(|| root.text("/usr/lib/os-release"));
    Kernel {
        release: root.text("/proc/sys/kernel/osrelease"),
        version: root.text("/proc/sys/kernel/version"),
        machine: root.text("/proc/sys/kernel/arch").or_else(|| Some(std::env::consts::ARCH.to_string())),
        command_line: command_line.split_whitespace().filter(telling).map(str::to_string).collect(),
        boot: root.text("/proc/sys/kernel/random/boot_id"),
        booted: root
            .text("/proc/stat")
            .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()),
        distribution: os_release.and_then(|text| {
            value_of(&text, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_string())
        }),
    }
}

pub fn cpu(root: &Root) -> Cpu {
    let info = root.text("/proc/cpuinfo").unwrap_or_default();
    let model = ["model name", "cpu model", "Processor", "CPU part"]
        .into_iter()
        .find_map(|key| value_of(&info, key, ':'))
        .map(str::to_string);
    let policy = |name: &str| format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}");
    let no_turbo = root.switch("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| !off);
    let vendor = root.text("/sys/hypervisor/type").or_else(|| hypervisor_of_dmi(root));
    let flagged =
        value_of(&info, "flags", ':').is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
    Cpu {
        model,
        cores_online: root.text("/sys/devices/system/cpu/online").and_then(|list| count_list(&list)),
        // As sched_getaffinity(2) says. A quota of a control group is not in it: under one the load runs on all of these, for
        // less of the time, and what others take of a core it takes from the load as without one.
        cores_allowed: root
            .text("/proc/self/status")
            .and_then(|status| count_list(value_of(&status, "Cpus_allowed_list", ':')?)),
        governor: root.text(policy("scaling_governor")),
        frequency_driver: root.text(policy("scaling_driver")),
        frequency_khz_min: root.number(policy("scaling_min_freq")),
        frequency_khz_max: root.number(policy("scaling_max_freq")),
        boost: no_turbo.or_else(|| root.switch("/sys/devices/system/cpu/cpufreq/boost")),
        smt: root.text("/sys/devices/system/cpu/smt/control"),
        virtualisation: vendor.or_else(|| flagged.then(|| "a hypervisor".to_string())),
        clocksource: root.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }
}

/// Firmware vendors that only hypervisors have.
fn hypervisor_of_dmi(root: &Root) -> Option<String> {
    let vendor = root.text("/sys/class/dmi/id/sys_vendor")?;
    let product = root.text("/sys/class/dmi/id/product_name").unwrap_or_default();
    let both = format!("{vendor} {product}");
    [
        "QEMU",
        "KVM",
        "VMware",
        "VirtualBox",
        "Xen",
        "Amazon EC2",
        "Google Compute",
        "Virtual Machine",
        "Parallels",
    ]
    .into_iter()
    .find(|name| both.contains(name))
    .map(|_| both.trim().to_string())
}

pub fn memory(root: &Root, limit_bytes: Option<u64>) -> Memory {
    let info = root.text("/proc/meminfo").unwrap_or_default();
    let vm = |name: &str| root.number(format!("/proc/sys/vm/{name}"));
    Memory {
        total_bytes: kib_of(&info, "MemTotal"),
        limit_bytes,
        swap_bytes: kib_of(&info, "SwapTotal"),
        transparent_huge_pages: root.chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        swappiness: vm("swappiness"),
        dirty_ratio_percent: vm("dirty_ratio"),
        dirty_background_ratio_percent: vm("dirty_background_ratio"),
        dirty_bytes: vm("dirty_bytes"),
        dirty_background_bytes: vm("dirty_background_bytes"),
        dirty_expire_centiseconds: vm("dirty_expire_centisecs"),
        dirty_writeback_centiseconds: vm("dirty_writeback_centisecs"),
        vfs_cache_pressure: vm("vfs_cache_pressure"),
    }
}

pub fn load(root: &Root) -> Load {
    let loadavg = root.text("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = loadavg.split_whitespace().collect();
    let average = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let pressure = |name: &str| {
        let text = root.text(format!("/proc/pressure/{name}"))?;
        let some = text.lines().find(|line| line.starts_with("some"))?;
        some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
    };
    Load {
        average: average(0)
            .zip(average(1))
            .zip(average(2))
            .map(|((one, five), fifteen)| [one, five, fifteen]),
        runnable: words.get(3).and_then(|word| word.split('/').next()?.parse().ok()),
        available_bytes: kib_of(&root.text("/proc/meminfo").unwrap_or_default(), "MemAvailable"),
        copied_bytes_per_second: None,
        cpu_pressure_percent: pressure("cpu"),
        io_pressure_percent: pressure("io"),
        memory_pressure_percent: pressure("memory"),
    }
}

/// How many numbers a list such as `0-3,8` holds.
fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list("0-3,8"), Some(5));
        assert_eq!(count_list("3-1"), None);
        assert_eq!(count_list("x"), None);
    }
}
