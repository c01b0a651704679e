//! A guest as data, and QEMU's command line for it: the one place that knows it.

use camino::{Utf8Path, Utf8PathBuf};

use crate::accel::Accelerator;
use crate::image::{Image, PROGRAM};
use crate::kernel::Kernel;
use crate::wire;

/// The hidden argument that makes `loadline` the first process of a guest.
pub const ARGUMENT: &str = "guest-init";
/// The guest stays and gets one job after the other.
pub const SERVE: &str = "serve";
/// The guest finds its job in the firmware's configuration, does it and ends.
pub const ONCE: &str = "once";
/// Memory of a guest in MiB, which must hold the image, what is in RAM disks, and the page cache.
pub const MEMORY_MIB: u64 = 2048;
/// Virtual processors of a guest that is not deterministic, at most, unless its device has more queues.
const CORES_MAX: usize = 4;
/// Virtual nanoseconds of an instruction, as a power of two: QEMU's `-icount shift`.
pub const SHIFT: u32 = 0;
/// Words for every kernel: its messages on the console, an end by reboot, which QEMU takes as its own end, also after a
/// panic.
const WORDS: &str = "console=ttyS0 loglevel=4 reboot=t panic=-1";
/// Addresses do not depend on chance.
const WORDS_DETERMINISTIC: &str = "nokaslr norandmaps randomize_kstack_offset=off";
/// The machine's clock begins there, and follows virtual time.
const CLOCK: &str = "base=2024-01-01,clock=vm";

/// A guest to be.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its kernel.
    pub kernel: Kernel,
    /// Its first file system.
    pub image: Image,
    /// Further words for the kernel's command line.
    pub parameters: Vec<String>,
    /// How it runs.
    pub mode: Mode,
}

/// How a guest runs.
#[derive(Debug, Clone)]
pub enum Mode {
    /// By the machine's clock, for one trial after the other.
    Normal {
        /// What executes it.
        accelerator: Accelerator,
        /// The file behind its NVMe device, and the queues of that; `None`: one for each virtual processor.
        disk: Option<(Utf8PathBuf, Option<u64>)>,
        /// Virtual processors, at least.
        cores: usize,
    },
    /// In virtual time that repeats to the bit, for one trial. There is no way to give it anything of the machine: waiting
    /// for the machine would show in the guest's time.
    Deterministic {
        /// What all chance comes from.
        seed: u64,
        /// Which part of its life this is.
        phase: Phase,
    },
}

/// The two parts of a deterministic guest's life. The first is made once, and kept as a stream of QEMU's.
#[derive(Debug, Clone)]
pub enum Phase {
    /// It boots, and is stopped before it looks for its job.
    Boot,
    /// It goes on from there.
    Trial {
        /// The file of what was kept.
        stream: Utf8PathBuf,
        /// The file that holds its job.
        job: Utf8PathBuf,
        /// The file that gets what it came to.
        result: Utf8PathBuf,
    },
}

impl Setup {
    /// Virtual processors.
    pub fn cores(&self) -> usize {
        match self.mode {
            Mode::Normal { cores, .. } => {
                let here = std::thread::available_parallelism().map_or(1, |cores| cores.get());
                here.min(CORES_MAX).max(cores)
            }
            Mode::Deterministic { .. } => 1,
        }
    }

    /// What executes it.
    pub fn accelerator(&self) -> Accelerator {
        match self.mode {
            Mode::Normal { accelerator, .. } => accelerator,
            Mode::Deterministic { .. } => Accelerator::Tcg,
        }
    }

    /// The arguments of QEMU; the console's text goes to `console`, and jobs come by descriptor `port` when there are several.
    pub fn arguments(&self, console: &Utf8Path, port: i32) -> Vec<String> {
        let mut words = Words::default();
        let machine = match self.mode {
            Mode::Normal { .. } => "q35",
            // what is kept of the HPET is rounded to its ticks: its time would depend on the instruction of the stop
            Mode::Deterministic { .. } => "q35,hpet=off",
        };
        words
            .flags(&["-nodefaults", "-no-user-config", "-no-reboot"])
            .pair("-display", "none")
            .pair("-M", machine);
        words.pair("-m", MEMORY_MIB).pair("-smp", self.cores());
        let (how, role) = match &self.mode {
            Mode::Normal { accelerator, disk, .. } => {
                match accelerator {
                    Accelerator::Kvm => words.pair("-accel", "kvm").pair("-cpu", "host"),
                    Accelerator::Tcg => words.pair("-accel", "tcg,thread=multi").pair("-cpu", "max"),
                };
                words.pair("-serial", format!("file:{}", comma(console)));
                words.pair("-chardev", format!("socket,id=talk,fd={port}"));
                words.pair("-device", "virtio-serial-pci");
                words.pair("-device", format!("virtserialport,chardev=talk,name={}", wire::PORT));
                if let Some((disk, queues)) = disk {
                    words.pair(
                        "-drive",
                        format!("file={},format=raw,if=none,id=disk,discard=unmap", comma(disk)),
                    );
                    let queues = queues.unwrap_or(self.cores() as u64);
                    words.pair("-device", format!("nvme,drive=disk,serial=loadline,max_ioqpairs={queues}"));
                }
                ("", SERVE)
            }
            Mode::Deterministic { seed, phase } => {
                words.pair("-accel", "tcg,thread=single").pair("-cpu", "max");
                words
                    .pair("-icount", format!("shift={SHIFT},sleep=off"))
                    .pair("-seed", seed)
                    .pair("-rtc", CLOCK);
                words.pair("-serial", format!("file:{}", comma(console)));
                // both parts have the same devices, or the one could not go on where the other ended
                words.pair("-device", "pvpanic");
                words.pair("-chardev", format!("socket,id=monitor,fd={port}"));
                words.pair("-mon", "chardev=monitor,mode=control");
                // it is told when its threads are in order
                words.flags(&["-S"]);
                // nobody hears the packets in which a guest that was moved announces itself, and their timer is not virtual
                words.pair("-global", "migration.announce-rounds=0");
                match phase {
                    Phase::Boot => words.pair("-serial", "null"),
                    Phase::Trial { stream, job, result } => words
                        .pair("-serial", format!("file:{}", comma(result)))
                        .pair("-fw_cfg", format!("name={},file={}", wire::JOB, comma(job)))
                        .pair("-incoming", format!("exec:cat {}", shell(stream))),
                };
                (WORDS_DETERMINISTIC, ONCE)
            }
        };
        words.pair("-kernel", &self.kernel.vmlinuz).pair("-initrd", &self.image.path);
        let parameters = self.parameters.join(" ");
        words.pair("-append", format!("{WORDS} {how} {parameters} rdinit={PROGRAM} -- {ARGUMENT} {role}"));
        words.0
    }
}

/// QEMU's version, as it tells it.
pub fn version() -> Option<String> {
    let text = crate::kernel::run(std::process::Command::new(crate::QEMU).arg("--version")).ok()?;
    text.lines().next().map(str::to_string)
}

/// A path within a list of QEMU's, where a comma is written twice.
fn comma(path: &Utf8Path) -> String {
    path.as_str().replace(',', ",,")
}

/// A path as one word of the shell that QEMU gives `exec:` to.
pub(crate) fn shell(path: &Utf8Path) -> String {
    format!("'{}'", path.as_str().replace('\'', "'\\''"))
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn flags(&mut self, flags: &[&str]) -> &mut Words {
        self.0.extend(flags.iter().map(|flag| flag.to_string()));
        self
    }

    fn pair(&mut self, name: &str, value: impl ToString) -> &mut Words {
        self.0.extend([name.to_string(), value.to_string()]);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(mode: Mode) -> Setup {
        let kernel = Kernel {
            name: "debian-6.12".into(),
            release: "6.12.1".into(),
            vmlinuz: "/k/vmlinuz".into(),
            modules: "/k/modules".into(),
            package: None,
        };
        let image = Image { path: "/i".into(), checksum: "0".into() };
        Setup { kernel, image, parameters: vec!["mitigations=off".into()], mode }
    }

    #[test]
    fn a_deterministic_guest_gets_nothing_of_the_machine() {
        let trial =
            Phase::Trial { stream: "/p/it's".into(), job: "/p/a,b".into(), result: "/p/result".into() };
        let line = |phase| {
            let setup = setup(Mode::Deterministic { seed: 7, phase });
            setup.arguments("/p/console".into(), 3).join(" ")
        };
        let (boot, trial) = (line(Phase::Boot), line(trial));
        for line in [&boot, &trial] {
            for word in
                ["-smp 1 ", "-seed 7 ", "sleep=off", "mitigations=off", "-- guest-init once", "pvpanic"]
            {
                assert!(line.contains(word), "{word}: {line}");
            }
            for word in ["-drive", "-netdev", "virtfs", "virtserial", "kvm", "thread=multi"] {
                assert!(!line.contains(word), "{word}: {line}");
            }
            let count = |word| line.matches(word).count();
            assert_eq!((count("-serial"), count("-device")), (2, 1), "{line}");
        }
        assert!(trial.contains("file=/p/a,,b") && trial.contains(r"exec:cat '/p/it'\''s'"), "{trial}");
        assert!(!boot.contains("-incoming") && !boot.contains("fw_cfg"), "{boot}");
    }

    #[test]
    fn a_guest_that_serves_has_a_port_and_its_disk() {
        let disk = Some(("/p/disk".into(), Some(3)));
        let mode = Mode::Normal { accelerator: Accelerator::Tcg, disk, cores: 7 };
        let line = setup(mode).arguments("/p/console".into(), 3).join(" ");
        for word in
            ["fd=3", "nvme,drive=disk", "max_ioqpairs=3", "-smp 7 ", "-- guest-init serve", "thread=multi"]
        {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert!(!line.contains("icount") && !line.contains("norandmaps"), "{line}");
    }
}
