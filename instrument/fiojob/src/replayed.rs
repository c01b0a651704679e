//! What jobs issue that replay logs.

use workload::Stream;
use workload::stream::{Replay, SyncPolicy, TransferDirection, TransferSizes};
use workload::trace::Action;

use crate::error::JobError;
use crate::files::Files;
use crate::iolog::{self, Iolog};
use crate::options::Job;
use crate::replay::{ALONE, Logs};
use crate::text::Section;

/// Options that say nothing where a log says it.
const LEFT_TO_THE_LOG: [&str; 20] = [
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "blockalign",
    "size",
    "filesize",
    "nrfiles",
    "filename",
    "file_service_type",
    "offset",
    "offset_increment",
    "random_distribution",
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
];

/// Seconds that a log was recorded for, at the speed of its replay and in all its passes.
pub fn seconds(stream: &Stream) -> Option<f64> {
    let replay = stream.replay.as_ref()?;
    let pass = replay.trace.length_ns as f64 / 1e9 / replay.speed.unwrap_or(1.0);
    Some(pass * stream.budget.passes as f64)
}

/// What the clones of a job replay: each log is read once.
pub struct Replays<'l> {
    logs: Vec<Result<Iolog, Vec<JobError>>>,
    names: &'l [String],
}

impl<'l> Replays<'l> {
    /// Reads the logs of a job.
    pub fn of(job: &'l Job, logs: &Logs) -> Replays<'l> {
        let read = |name: &String| {
            let Some(text) = logs.text(name) else {
                let message = format!(
                    "[{}]: the log `{name}` was not read: only those that the job file itself names are",
                    job.name
                );
                return Err(vec![JobError::new(job.line, message)]);
            };
            iolog::parse(text, &job.replay.shape).map_err(|found| {
                // of a log alone the lines are the file's; of others the log has a name
                let of_job = |one: JobError| match name.as_str() {
                    ALONE => one,
                    name => JobError::new(job.line, format!("{name}:{}: {}", one.line, one.message)),
                };
                found.into_iter().map(of_job).collect()
            })
        };
        // a log without a clone is not replayed
        let used = job.clones.min(job.replay.logs.len() as u64) as usize;
        Replays { logs: job.replay.logs[..used].iter().map(read).collect(), names: &job.replay.logs }
    }

    /// Logs that have clones.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// How many clones replay a log: they take the logs in turn.
    pub fn clones(&self, at: usize, job: &Job) -> u64 {
        let (at, logs) = (at as u64, self.names.len() as u64);
        job.clones / logs + u64::from(at < job.clones % logs)
    }

    /// What the clones of a log issue, as the stream of that number.
    pub fn stream(
        &self,
        at: usize,
        job: &Job,
        number: u64,
        files: &mut Files,
    ) -> Result<Stream, Vec<JobError>> {
        let log = match &self.logs[at] {
            Ok(log) => log,
            Err(mistakes) => return Err(mistakes.clone()),
        };
        let does = |action: Action| log.trace.operations[action as usize] > 0;
        let changes = does(Action::Write) || does(Action::Trim);
        let way = match (does(Action::Read), changes) {
            (true, true) => TransferDirection::Mixed { read_percent: 50 },
            (false, true) => TransferDirection::Write,
            (_, false) => TransferDirection::Read,
        };
        let mut order = job.order.clone();
        (order.random, order.visit_once) = (false, false);
        let sizes = TransferSizes::One(u64::from(log.trace.transfer_bytes_max.max(1)));
        let mut budget = job.budget;
        budget.bytes = log.trace.bytes[..=Action::Write as usize].iter().sum();
        Ok(Stream {
            number,
            seed: job.seed,
            repeat: job.repeat,
            usual_offsets: job.usual_offsets,
            files: files.of_log(job, log),
            turns: job.turns,
            way,
            order,
            sizes: [sizes.clone(), sizes],
            queue: job.queue,
            budget,
            pace: job.pace,
            syncs: SyncPolicy::default(),
            open: job.open,
            verify: None,
            replay: Some(Replay { trace: log.trace.clone(), speed: job.replay.speed }),
        })
    }

    /// What to know of the replay.
    pub fn notes(&self, section: &Section) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, log) in self.names.iter().zip(&self.logs) {
            let of = |note: &String| if name == ALONE { note.clone() } else { format!("{name}: {note}") };
            notes.extend(log.iter().flat_map(|log| &log.notes).map(of));
        }
        let left: Vec<&str> = LEFT_TO_THE_LOG
            .into_iter()
            .filter(|name| section.options.iter().any(|(set, ..)| set == name))
            .collect();
        if !left.is_empty() {
            notes.push(format!(
                "[{}] replays a log, which says what {} would",
                section.name,
                left.join(", ")
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach;
    use crate::{Loaded, load};

    const LOG: &str = "fio version 3 iolog\n0 /a add\n0 /a open\n0 /a read 0 4096\n2000000 /a write 4096 8192\n2000001 /a sync 0 0\n";

    fn attached(job: &str) -> String {
        let read = |name: &str| match name {
            "app.iolog" => Ok(LOG.to_string()),
            "two.iolog" => Ok(LOG.replace("/a", "b")),
            _ => Err("no such file".to_string()),
        };
        attach(job, &read).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn loaded(text: &str, set: &[(&str, &str)]) -> Loaded {
        let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        load(text, "app", &set).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn stream(loaded: &Loaded, number: usize) -> &Stream {
        loaded.workload.processes[number].threads[0].stream.as_deref().unwrap()
    }

    #[test]
    fn a_log_alone_is_a_job() {
        let app = loaded(LOG, &[("speed", "2x"), ("direct", "1")]);
        let stream = stream(&app, 0);
        let replay = stream.replay.as_ref().unwrap();
        assert_eq!((replay.speed, app.replay_seconds, stream.open.direct), (Some(2.0), 1.000_000_5, true));
        assert_eq!(replay.due_ns(2_000_000_000), Some(1_000_000_000));
        assert_eq!(stream.way, TransferDirection::Mixed { read_percent: 50 });
        assert_eq!(stream.sizes, [TransferSizes::One(8192), TransferSizes::One(8192)]);
        let files = &app.workload.filesets;
        assert_eq!(
            (files.len(), files[0].path.as_str(), files[0].name.as_str(), files[0].size.fixed()),
            (1, "", "a", Some(12288))
        );
        let names: Vec<&str> = app.workload.processes[0].threads[0]
            .body
            .iter()
            .filter_map(|node| match node {
                workload::Node::Op(op) => Some(op.name.as_str()),
                workload::Node::Group { .. } => None,
            })
            .collect();
        assert_eq!(names, ["app-read", "app-write", "app-fsync"]);
        assert!(app.variables.contains(&("app.speed".into(), "2x".into())));
        assert!(!loaded(LOG, &[("speed", "max")]).workload.processes.is_empty());
    }

    #[test]
    fn a_job_replays_the_logs_behind_its_file() {
        let text = attached(
            "[x]\nread_iolog=app.iolog:two.iolog\nnumjobs=3\nreplay_time_scale=50\nrw=read ; no\n[y]\nrw=read\nsize=1m\n",
        );
        assert!(crate::is_job_file(&text));
        let job = loaded(&text, &[]);
        let clones =
            |number: usize| (stream(&job, number).files[0].fileset, job.workload.processes[number].instances);
        assert_eq!((clones(0), clones(1), job.replay_seconds), ((0, 2), (1, 1), 4.000_002));
        assert!(stream(&job, 2).replay.is_none());
        assert!(job.notes.iter().any(|note| note.contains("says what rw would")), "{:?}", job.notes);
        let names: Vec<&str> = job.workload.filesets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "y.0.0"]);
    }

    /// Written files are made as `fallocate` says, others with data.
    #[test]
    fn files_that_are_read_hold_data() {
        use workload::Contents::{Allocated, Data, Hole};
        let contents = |text: &str, set: &[(&str, &str)]| {
            loaded(text, set).workload.filesets.iter().map(|set| set.contents).collect::<Vec<_>>()
        };
        let both = "fio version 2 iolog\na add\nb add\na open\nb open\na read 0 1\nb write 0 1\n";
        assert_eq!(contents(both, &[]), [Data, Allocated]);
        assert_eq!(contents(both, &[("overwrite", "1")]), [Data, Data]);
        assert_eq!(contents(both, &[("fallocate", "truncate")]), [Data, Hole]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let errors = |text: &str, set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            load(text, "app", &set).expect_err(text).render("app.iolog")
        };
        let broken = LOG.replace("read 0 4096", "read 0");
        assert!(errors(&broken, &[]).starts_with("app.iolog:4: "), "{}", errors(&broken, &[]));
        let job = attach("[x]\nread_iolog=l\n", &|_| Ok(broken.clone())).unwrap();
        assert!(errors(&job, &[]).contains("l:4: "), "{}", errors(&job, &[]));
        assert!(
            attach("[x]\nread_iolog=l\n", &|_| Err("gone".into())).unwrap_err().0[0]
                .message
                .contains("l: gone")
        );
        for (set, part) in [
            (("speed", "0"), "write 2x, 0.5x, or max"),
            (("speed", "nan"), "write 2x"),
            (("replay_time_scale", "0"), "above 0"),
            (("replay_align", "3000"), "not a power of two"),
            (("replay_skip", "open"), "none of read, write, trim, sync"),
            (("verify", "md5"), "`verify` beside read_iolog"),
            (("rate_iops", "5"), "`rate` beside read_iolog"),
            (("read_iolog", "other"), "`other` was not read"),
        ] {
            let found = errors(LOG, &[set]);
            assert!(found.contains(part), "{set:?}: {found}");
        }
        let lost = errors("[x]\nsize=1m\nreplay_no_stall=1\n", &[]);
        assert!(lost.contains("`replay_no_stall` is for jobs that replay a log"), "{lost}");
        assert!(crate::external(LOG, &[]).unwrap_err().0[0].message.contains("not passed on"));
        assert!(crate::groups(LOG).is_empty());
    }

    /// What is said for all sections, or of one of several that run one by one, is for those that replay.
    #[test]
    fn options_of_replays_stand_beside_sections_without() {
        for (job, set) in [
            ("[global]\nreplay_no_stall=1\n[x]\nread_iolog=app.iolog\n[y]\nrw=read\nsize=1m\n", vec![]),
            ("[x]\nread_iolog=app.iolog\n[y]\nrw=read\nsize=1m\n", vec![("speed", "max")]),
            (
                "[x]\nread_iolog=app.iolog\n[y]\nstonewall\nrw=read\nsize=1m\n",
                vec![("speed", "max"), ("job", "y")],
            ),
        ] {
            let job = loaded(&attached(job), &set);
            assert!(
                job.workload
                    .streams()
                    .all(|stream| stream.replay.as_ref().is_none_or(|replay| replay.speed.is_none()))
            );
        }
    }

    #[test]
    fn a_length_is_that_of_all_passes() {
        let seconds = |set: &[(&str, &str)]| loaded(LOG, set).replay_seconds;
        assert_eq!(seconds(&[("loops", "3")]), 3.0 * seconds(&[]));
        assert_eq!(seconds(&[("loops", "3"), ("speed", "3x")]), seconds(&[]));
    }

    /// A longer file of another job does not take from a replay what it reads.
    #[test]
    fn a_shared_file_stays_data() {
        let text = attached(
            "[x]\nread_iolog=app.iolog\n[y]\nfilename=a\nrw=write\nsize=1m\n[z]\nfilename=a\nrw=read\nsize=4k\n",
        );
        let files = loaded(&text, &[]).workload.filesets;
        assert_eq!(
            (files.len(), files[0].size.fixed(), files[0].contents),
            (1, Some(1 << 20), workload::Contents::Data)
        );
    }

    #[test]
    fn a_log_may_have_any_name() {
        for name in ["global", "", "a b", "#"] {
            let loaded = load(LOG, name, &[]).unwrap_or_else(|errors| panic!("{name}: {errors}"));
            let process = &loaded.workload.processes[0];
            assert!(!process.threads[0].name.is_empty() && process.threads[0].name != "global", "{name}");
        }
    }

    /// A job file that was kept with a run is the same when it is run again, even where its logs are no more.
    #[test]
    fn logs_are_attached_once() {
        let job = "[x]\nread_iolog=app.iolog:two.iolog\nnumjobs=2\n";
        let once = attached(job);
        assert_eq!(attach(&once, &|_| Err("gone".into())).unwrap(), once);
        assert_eq!(stream(&loaded(&once, &[]), 0).replay.as_ref().unwrap().trace.operation_count(), 3);
    }

    /// Offsets of a log may be those of any device.
    #[test]
    fn files_are_not_larger_than_the_target() {
        let log = "fio version 3 iolog\n0 a add\n0 b add\n0 a open\n0 b open\n0 a read 2199023251456 4096\n0 b write 0 4096\n";
        let fits = |set: &[(&str, &str)], free| loaded(log, set).workload.replayed_files_fit(free);
        let told = fits(&[], 1 << 30).unwrap_err();
        for part in ["take 2.0TiB", "has 1GiB free", "replay_scale=", "replay_redirect=", "larger stack"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let exact = (2 << 40) - 4096 + 8192;
        assert!(fits(&[], exact).is_ok() && fits(&[], exact - 1).is_err());
        assert!(fits(&[("replay_scale", "1m")], 1 << 30).is_ok());
        assert!(fits(&[], 0).is_ok(), "the target does not say what is free");
        // what is a hole takes nothing, and two clones have one file
        let hole = [("fallocate", "none"), ("replay_skip", "read")];
        assert!(fits(&hole, 1).is_ok() && fits(&[("numjobs", "2")], exact).is_ok());
        let far: String = ["c", "d", "e"]
            .map(|name| format!("0 {name} add\n0 {name} open\n0 {name} read {} 1\n", i64::MAX - 1))
            .concat();
        assert!(loaded(&(log.to_string() + &far), &[]).workload.replayed_files_fit(1 << 60).is_err());
    }
}
