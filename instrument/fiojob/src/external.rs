//! A job file for fio itself: the same sections, each with all its options, and nothing that leaves its directory.
//!
//! fio can start programs, write to any path and to raw devices; loadline runs as root. Only options are passed on that are
//! known not to do such things.

use std::fmt::Write;

use crate::error::{JobError, JobErrors};
use crate::iolog::is_iolog;
use crate::names::is_known;
use crate::number::seconds;
use crate::text::{self, Section};

/// Options that fio does and loadline's engine does not: each stays within the files of its job.
const FIO_ALONE: [&str; 42] = [
    "allrandrepeat",
    "blockalign",
    "bsrange",
    "buffer_compress_percentage",
    "create_fsync",
    "dedupe_percentage",
    "fadvise_hint",
    "file_service_type",
    "filename",
    "fsync_on_close",
    "io_size",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "latency_percentile",
    "latency_target",
    "latency_window",
    "loops",
    "max_latency",
    "number_ios",
    "offset",
    "offset_increment",
    "openfiles",
    "overwrite",
    "percentage_random",
    "percentile_list",
    "pre_read",
    "random_generator",
    "rate",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "rate_process",
    "scramble_buffers",
    "serialize_overlap",
    "softrandommap",
    "startdelay",
    "thinktime",
    "thinktime_blocks",
    "thinktime_spin",
    "zero_buffers",
];

/// I/O engines of fio that move data of its files and do nothing else (others start programs or open sockets and devices).
const ENGINES: [&str; 9] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap"];

/// What is left out: where files lie is loadline's choice, fio would write what it found where it was started, and of a group it
/// would tell one length and one job's options for all.
const LEFT_OUT: [&str; 3] = ["directory", "verify_dump", "group_reporting"];

/// A job file for fio.
#[derive(Debug, Clone, PartialEq)]
pub struct External {
    /// The file: it names no directory.
    pub text: String,
    /// The longest `runtime` of its sections, in seconds, when each has one.
    pub seconds: Option<f64>,
    /// The longest `ramp_time`, in seconds.
    pub ramp_seconds: f64,
    /// The longest `startdelay`, in seconds.
    pub delay_seconds: f64,
}

/// A job file as real fio is to have it. `set` as for [`crate::load`].
///
/// Latencies are whole (`lat_percentiles`), and clones are threads, so that none outlives the trial.
///
/// # Errors
/// The options that are not passed on, with their lines.
pub fn external(text: &str, set: &[(String, String)]) -> Result<External, JobErrors> {
    if is_iolog(text) {
        let message = "an iolog is not passed on to fio: leave out `--with`, and loadline replays it";
        return Err(JobErrors::new(vec![JobError::new(1, message)]));
    }
    let (sections, mut mistakes) = text::jobs(text, set)?;
    let mut written = String::new();
    for section in &sections {
        // its files are called by it
        if section.name.contains('/') || section.name.contains("..") {
            mistakes.push(JobError::new(
                section.line,
                "a section that fio runs has no `/` and no `..` in its name",
            ));
        }
        // Never fails: a String takes all.
        let _ = writeln!(written, "[{}]", section.name);
        for (name, value, line) in &section.options {
            if LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if let Err(message) = admit(name, value) {
                mistakes.push(JobError::new(*line, message));
            }
            let _ = writeln!(written, "{name}={value}");
        }
        let _ = writeln!(written, "thread=1\nclat_percentiles=0\nlat_percentiles=1");
    }
    if !mistakes.is_empty() {
        return Err(JobErrors::new(mistakes));
    }
    let times = |name: &str| -> Vec<f64> {
        let last = |section: &Section| {
            let found = section.options.iter().rev().find(|(known, ..)| known == name)?;
            seconds(&found.1).ok().filter(|seconds| *seconds > 0.0)
        };
        sections.iter().filter_map(last).collect()
    };
    let runtimes = times("runtime");
    let seconds = runtimes.iter().copied().reduce(f64::max).filter(|_| runtimes.len() == sections.len());
    let longest = |name| times(name).into_iter().fold(0.0, f64::max);
    let (ramp_seconds, delay_seconds) = (longest("ramp_time"), longest("startdelay"));
    Ok(External { text: written, seconds, ramp_seconds, delay_seconds })
}

fn admit(name: &str, value: &str) -> Result<(), String> {
    if !is_known(name)
        && !FIO_ALONE.contains(&name)
        && !matches!(name, "clat_percentiles" | "lat_percentiles")
    {
        return Err(format!(
            "`{name}` is not passed on to fio: it is not known to stay within the job's files"
        ));
    }
    match name {
        "read_iolog" => {
            Err("`read_iolog` is not passed on: leave out `--with`, and loadline replays the log".into())
        }
        // they write files beside the job's
        log if log.starts_with("write_") => {
            Err(format!("`{log}` is not passed on: the trial keeps fio's JSON"))
        }
        "filename_format" => Err("`filename_format` is not passed on: it could leave the directory".into()),
        "ioengine" if !ENGINES.contains(&value) => {
            Err(format!("ioengine: `{value}` is none of {}", ENGINES.join(", ")))
        }
        "filename" if value.contains('/') || value.split(':').any(|file| file == "..") => {
            Err("filename: a plain name; where files lie is what --on says".into())
        }
        "startdelay" | "ramp_time" if seconds(value).is_err() => {
            Err(format!("{name}: `{value}` is no single time: when the job began could not be told"))
        }
        "name" if value.contains('/') || value.contains("..") => {
            Err("name: files are called by it; a name without `/` and `..`".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_written_out_and_the_result_reads_back() {
        let text = "[global]\nioengine=libaio\nruntime=5\nramp_time=2\ndirectory=/mnt\nverify_dump=1\ngroup_reporting\n[a]\nrw=randread\nbs=4k ; cut\n\
                    [b]\nstonewall\nrate_iops=100\n";
        let set = [("bs".to_string(), "8k".to_string())];
        let made = external(text, &set).unwrap();
        assert_eq!((made.seconds, made.ramp_seconds, made.delay_seconds), (Some(5.0), 2.0, 0.0));
        assert!(
            made.text
                .starts_with("[a]\nioengine=libaio\nruntime=5\nramp_time=2\nrw=randread\nbs=4k\nbs=8k\n")
        );
        assert!(made.text.contains("[b]\n") && made.text.contains("stonewall=1\nrate_iops=100\n"));
        assert!(LEFT_OUT.iter().all(|name| !made.text.contains(name)), "{}", made.text);
        assert_eq!(external("[a]\n[b]\nstartdelay=500ms\n", &[]).unwrap().delay_seconds, 0.5);
        let again = external(&made.text, &[]).unwrap();
        assert_eq!(again.seconds, made.seconds);
    }

    #[test]
    fn what_could_leave_the_directory_or_the_measuring_is_refused() {
        for (line, part) in [
            ("exec_prerun=rm -rf /", "`exec_prerun` is not passed on"),
            ("filename=/dev/sda", "a plain name"),
            ("filename=..", "a plain name"),
            ("ioengine=exec", "none of"),
            ("ioengine=external:/tmp/x.so", "none of"),
            ("name=../../x", "without `/`"),
            ("write_bw_log=/etc/x", "not passed on"),
            ("read_iolog=/etc/x", "not passed on"),
            ("filename_format=/etc/x", "not passed on"),
            ("startdelay=1-5", "no single time"),
            ("ramp_time=0:0:5", "no single time"),
        ] {
            let errors = external(&format!("[a]\nsize=1m\n{line}\n"), &[]).expect_err(line).0;
            let error = errors.last().unwrap();
            assert!(
                (error.line == 3 || line.starts_with("name=")) && error.message.contains(part),
                "{line}: {error:?}"
            );
        }
        assert!(external("[a]\nfilename=one:two\n", &[]).is_ok());
        // a section's name becomes the name of its files
        assert!(external("[../../x]\nsize=1m\n", &[]).is_err());
        assert!(external("[/etc/x]\nsize=1m\n", &[]).is_err());
    }
}
