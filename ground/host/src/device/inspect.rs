//! Looking at a device or file: how a report comes about.

use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::blank;
use super::hold::{Hold, InUse, hold_located};
use super::holder::Holder;
use super::refusal::EraseRefused;
use super::report::{DeviceReport, Partition};
use super::signatures;
use super::subject::Located;
use super::usage::usage;
use crate::runner::Runner;
use crate::wait::wait_until;
use crate::{Host, block};

/// How long one who looks at the same thing for a moment is waited for.
const GLANCE: Duration = Duration::from_secs(2);

impl DeviceReport {
    /// Looks at the device or file; changes nothing. Needs the right to read it.
    ///
    /// # Errors
    /// [`EraseRefused::NotADevice`].
    pub fn inspect(host: &Host, runner: &dyn Runner, path: &Utf8Path) -> Result<Self, EraseRefused> {
        let located = Located::of(host, path)?;
        let mut held = Ok(Err(InUse(path.into())));
        // one who looks at it at the same instant has gone by the next
        wait_until(GLANCE, || {
            held = hold_located(host, &located.at);
            !matches!(held, Ok(Err(_)))
        });
        Ok(Self::look(host, runner, &located, &held))
    }

    /// Looks at what was located, which is held if it can be.
    pub(super) fn look(
        host: &Host,
        runner: &dyn Runner,
        located: &Located,
        held: &io::Result<Result<Hold, InUse>>,
    ) -> Self {
        let subject = &located.subject;
        let (path, content) = (subject.path.clone(), located.content_path());
        let mut unreadable = None;
        let mut signatures_of = |path: &Utf8Path| {
            signatures::probe(runner, path).unwrap_or_else(|why| {
                unreadable.get_or_insert(why.replace(content.as_str(), subject.path.as_str()));
                Vec::new()
            })
        };
        let part = |part: String| {
            let path = Utf8PathBuf::from(format!("/dev/{part}"));
            let signatures = signatures_of(&path);
            Partition { size_bytes: block::size_bytes(host, &part).unwrap_or(0), path, signatures }
        };
        let disk = subject.name.as_deref();
        let partitions: Vec<Partition> = disk
            .map(|name| block::partition_names(host, name))
            .unwrap_or_default()
            .into_iter()
            .map(part)
            .collect();
        let signatures = signatures_of(&content);
        let size_bytes = match disk {
            Some(name) => block::size_bytes(host, name).unwrap_or(0),
            None => rustix::fs::fstat(&located.at).map_or(0, |stat| stat.st_size.unsigned_abs()),
        };
        let blank = match disk {
            Some(_) => blank::device_is_blank(&content, size_bytes),
            None => blank::file_is_blank(&content),
        };
        let usage = usage(host, subject);
        Self {
            is_file: disk.is_none(),
            size_bytes,
            model: disk.and_then(|name| block::model(host, &block::disk_name(host, name))),
            read_only: disk.is_some_and(|name| {
                host.read(format!("/sys/class/block/{name}/ro")).is_ok_and(|ro| ro == "1")
            }),
            signatures,
            unreadable: usage.error.or(unreadable),
            blank: blank.ok(),
            partitions,
            mounts: usage.mounts,
            swaps: usage.swaps,
            holders: usage.holders,
            arrays: usage.arrays,
            exclusive_open_error: exclusive_open_error(host, held),
            path,
        }
    }
}

/// Why it cannot be claimed, if so (open(2), O_EXCL; flock(2)).
fn exclusive_open_error(host: &Host, held: &io::Result<Result<Hold, InUse>>) -> Option<String> {
    match held {
        Ok(Ok(_)) => None,
        Ok(Err(InUse(what))) => Some(match Holder::find(host, what) {
            Some(holder) => format!("another program has claimed it: {holder}"),
            None => format!("another program has claimed {}", what.display()),
        }),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_looks_for_an_instant_is_not_in_the_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = crate::device::hold(file.path()).unwrap().unwrap();
        let leaves = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(other);
        });
        let path = Utf8Path::from_path(file.path()).unwrap();
        let report = DeviceReport::inspect(&Host::system(), &crate::SystemRunner::default(), path).unwrap();
        leaves.join().unwrap();
        assert_eq!(report.exclusive_open_error, None);
    }
}
