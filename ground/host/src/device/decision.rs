//! The one decision: may this be overwritten?

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use camino::Utf8Path;

use super::hold::{Hold, hold_located_to_write};
use super::refusal::EraseRefused;
use super::report::DeviceReport;
use super::subject::{Located, reopen_path, same};
use super::usage::uses_of;
use crate::Host;
use crate::runner::Runner;
use crate::wait::wait_until;

/// How far the user has agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent<'a> {
    /// It is to be overwritten, and this is what `--erase` names. Needed whatever lies there: what exists is not
    /// loadline's own.
    Named(Option<&'a Utf8Path>),
    /// The command itself names what it overwrites (`mkfs`); whether `--erase` was said, which is needed when anything
    /// lies there.
    Said(bool),
    /// Its contents stay as they are, and are then used as the user likes: only nobody else may use it.
    NotNeeded,
}

/// Decides whether what `report` describes may be overwritten. Nothing in use is, whatever the user says.
///
/// # Errors
/// [`EraseRefused::InUse`] with everything that is in the way; [`EraseRefused::NotAsked`] and
/// [`EraseRefused::OtherDevice`] when the user has not agreed to that.
pub fn may_overwrite(report: &DeviceReport, consent: Consent<'_>) -> Result<(), EraseRefused> {
    decide(report, &report.path, consent)
}

/// As [`may_overwrite`], of what `at` leads to, which is also said to be `report.path`.
fn decide(report: &DeviceReport, at: &Utf8Path, consent: Consent<'_>) -> Result<(), EraseRefused> {
    let mut blockers = report.blockers();
    if consent == Consent::NotNeeded {
        blockers.retain(|blocker| !blocker.is_unknown());
    }
    if !blockers.is_empty() {
        return Err(EraseRefused::InUse { blockers, report: Box::new(report.clone()) });
    }
    match consent {
        Consent::NotNeeded | Consent::Said(true) => Ok(()),
        Consent::Said(false) if !report.holds_data() => Ok(()),
        Consent::Named(Some(erase)) if same(erase, at) => Ok(()),
        Consent::Named(Some(erase)) => Err(EraseRefused::OtherDevice {
            device: report.path.clone(),
            erase: erase.to_owned(),
            report: Box::new(report.clone()),
        }),
        Consent::Named(None) | Consent::Said(false) => {
            Err(EraseRefused::NotAsked { report: Box::new(report.clone()) })
        }
    }
}

impl DeviceReport {
    /// Decides whether it may be formatted by something that `--erase` must name: see [`may_overwrite`].
    ///
    /// # Errors
    /// As [`may_overwrite`].
    pub fn check_erase(&self, erase: Option<&Utf8Path>) -> Result<(), EraseRefused> {
        may_overwrite(self, Consent::Named(erase))
    }
}

/// How long one who looks at the same thing for a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The right to overwrite a device or a file. As long as it lives nobody else can claim it: not mount, not swapon, not
/// mkfs, not another loadline.
#[derive(Debug)]
pub struct Permit {
    /// What lies there.
    pub report: DeviceReport,
    hold: Hold,
}

impl Permit {
    /// Looks at `path` while it is held, and decides. A busy one is waited for, for two seconds.
    ///
    /// # Errors
    /// As [`may_overwrite`]; [`EraseRefused::NotADevice`].
    pub fn take(
        host: &Host,
        runner: &dyn Runner,
        path: &Utf8Path,
        consent: Consent<'_>,
    ) -> Result<Permit, EraseRefused> {
        Permit::take_within(host, runner, path, consent, PATIENCE)
    }

    /// As [`Permit::take`], with another patience.
    ///
    /// # Errors
    /// As [`Permit::take`].
    pub fn take_within(
        host: &Host,
        runner: &dyn Runner,
        path: &Utf8Path,
        consent: Consent<'_>,
        patience: Duration,
    ) -> Result<Permit, EraseRefused> {
        let located = Located::of(host, path)?;
        let mut held = hold_located_to_write(host, &located.at);
        // one whose use can be seen is not waited for
        if matches!(held, Ok(Err(_))) && uses_of(host, &located.subject).is_empty() {
            wait_until(patience, || {
                held = hold_located_to_write(host, &located.at);
                !matches!(held, Ok(Err(_)))
            });
        }
        let report = DeviceReport::look(host, runner, &located, &held);
        decide(&report, &located.pinned_path(), consent)?;
        match held {
            Ok(Ok(hold)) => Ok(Permit { report, hold }),
            // not reached: `report` then has a blocker
            _ => Err(EraseRefused::InUse { blockers: report.blockers(), report: Box::new(report) }),
        }
    }

    /// What is held, open for reading and writing: what is under way through it keeps others away.
    pub fn file(&self) -> &File {
        self.hold.file()
    }

    /// A path at which it is opened again, for writing too: what was judged, whatever has its name now. Good as long as
    /// the permit lives.
    pub fn reopen_path(&self) -> PathBuf {
        reopen_path(self.file())
    }

    /// What holds it, and what lies there.
    pub fn into_parts(self) -> (Hold, DeviceReport) {
        (self.hold, self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MountedPart;

    /// A device that does not exist and that nothing forbids to overwrite.
    fn report() -> DeviceReport {
        DeviceReport {
            path: "/dev/loadline-test".into(),
            is_file: false,
            size_bytes: 1 << 40,
            model: None,
            read_only: false,
            signatures: Vec::new(),
            unreadable: None,
            blank: Some(false),
            partitions: Vec::new(),
            mounts: Vec::new(),
            swaps: Vec::new(),
            holders: Vec::new(),
            arrays: Vec::new(),
            exclusive_open_error: None,
        }
    }

    #[test]
    fn what_is_in_use_is_refused_at_every_door_with_everything_in_the_way() {
        let mount = MountedPart { source: "/dev/x1".into(), target: "/home".into() };
        let mut used = report();
        (used.mounts, used.swaps) = (vec![mount], vec!["/dev/x2".into()]);
        (used.holders, used.arrays) = (vec!["loop7".into()], vec!["md0".into()]);
        (used.read_only, used.unreadable) = (true, Some("no blkid".into()));
        used.exclusive_open_error = Some("claimed".into());
        let path = used.path.clone();
        for consent in [
            Consent::Named(None),
            Consent::Named(Some("/dev/other".into())),
            Consent::Named(Some(&path)),
            Consent::Said(false),
            Consent::Said(true),
            Consent::NotNeeded,
        ] {
            let Err(EraseRefused::InUse { blockers, .. }) = may_overwrite(&used, consent) else {
                panic!("{consent:?}")
            };
            // what lies there need not be known to leave it as it is
            let all = if consent == Consent::NotNeeded { 6 } else { 7 };
            assert_eq!(blockers.len(), all, "{consent:?}: {blockers:?}");
        }
    }

    #[test]
    fn each_door_asks_for_the_consent_that_it_needs() {
        let (full, blank) = (report(), DeviceReport { blank: Some(true), ..report() });
        let path = full.path.clone();
        let asked = |result| matches!(result, Err(EraseRefused::NotAsked { .. }));
        assert!(asked(may_overwrite(&full, Consent::Named(None))));
        assert!(asked(may_overwrite(&blank, Consent::Named(None))), "what exists is not loadline's own");
        assert!(asked(may_overwrite(&full, Consent::Said(false))));
        let unknown = DeviceReport { blank: None, ..report() };
        assert!(asked(may_overwrite(&unknown, Consent::Said(false))), "what cannot be read is not blank");
        let other = may_overwrite(&full, Consent::Named(Some("/dev/other".into())));
        assert!(matches!(other, Err(EraseRefused::OtherDevice { .. })));
        assert!(may_overwrite(&blank, Consent::Said(false)).is_ok());
        for consent in [Consent::Named(Some(&path)), Consent::Said(true), Consent::NotNeeded] {
            assert!(may_overwrite(&full, consent).is_ok(), "{consent:?}");
        }
    }

    /// Finds no signature; the first time that it is asked, it puts another file where the one is that is judged.
    struct Swapper {
        swap: std::sync::Once,
        from: std::path::PathBuf,
        to: std::path::PathBuf,
    }

    impl Runner for Swapper {
        fn run(&self, _: &crate::CommandLine) -> std::io::Result<crate::CommandOutput> {
            self.swap.call_once(|| std::fs::rename(&self.from, &self.to).unwrap());
            let nothing = String::new;
            Ok(crate::CommandOutput { code: Some(0), stdout: nothing(), stderr: nothing(), elapsed_ms: 0 })
        }
    }

    /// What is decided of a file with a letter, in whose place a blank one comes while it is judged.
    fn judged_while_swapped(parent: &Utf8Path) -> Result<Permit, EraseRefused> {
        let dir = tempfile::tempdir_in(parent).unwrap();
        let (path, blank) = (dir.path().join("image"), dir.path().join("blank"));
        std::fs::write(&path, "a letter").unwrap();
        std::fs::write(&blank, [0; 8]).unwrap();
        let swapper = Swapper { swap: std::sync::Once::new(), from: blank, to: path.clone() };
        let path = Utf8Path::from_path(&path).unwrap();
        Permit::take(&Host::system(), &swapper, path, Consent::Said(false))
    }

    #[test]
    fn what_is_judged_is_what_is_held_though_its_name_means_another_file_meanwhile() {
        let judged = judged_while_swapped(Utf8Path::from_path(&std::env::temp_dir()).unwrap());
        assert!(
            matches!(judged, Err(EraseRefused::NotAsked { .. })),
            "a letter may be overwritten: {judged:?}"
        );
    }

    /// /dev/shm is no place that only root arranges.
    #[test]
    fn what_is_judged_in_dev_shm_is_what_is_held_too() {
        let judged = judged_while_swapped("/dev/shm".into());
        assert!(matches!(judged, Err(EraseRefused::NotAsked { .. })), "{judged:?}");
    }

    /// It is shown by a name that another file can have.
    #[test]
    fn a_file_whose_name_is_not_utf8_is_not_mistaken_for_the_one_that_has_the_name_it_is_shown_by() {
        use std::os::unix::ffi::OsStrExt;

        for parent in [Utf8Path::new("/dev/shm"), Utf8Path::new("/tmp")] {
            let dir = tempfile::tempdir_in(parent).unwrap();
            let (letter, blank) = (
                dir.path().join(std::ffi::OsStr::from_bytes(b"image\xff")),
                dir.path().join("image\u{fffd}"),
            );
            let (link, other) = (dir.path().join("link"), dir.path().join("other"));
            std::fs::write(&letter, "a letter").unwrap();
            std::fs::write(&blank, [0; 8]).unwrap();
            std::fs::write(&other, [0; 8]).unwrap();
            std::os::unix::fs::symlink(&letter, &link).unwrap();
            let [blank, link] = [&blank, &link].map(|path| Utf8Path::from_path(path).unwrap());
            let take = |consent| {
                let swapper =
                    Swapper { swap: std::sync::Once::new(), from: other.clone(), to: other.clone() };
                Permit::take(&Host::system(), &swapper, link, consent)
            };
            let judged = take(Consent::Said(false));
            assert!(matches!(judged, Err(EraseRefused::NotAsked { .. })), "{judged:?}");
            let judged = take(Consent::Named(Some(blank)));
            assert!(matches!(judged, Err(EraseRefused::OtherDevice { .. })), "{judged:?}");
            take(Consent::Named(Some(link))).unwrap();
        }
    }

    #[test]
    fn a_permit_opens_again_what_was_judged() {
        let dir = tempfile::tempdir().unwrap();
        let (path, letter) = (dir.path().join("image"), dir.path().join("letter"));
        std::fs::write(&path, [0; 8]).unwrap();
        std::fs::write(&letter, "a letter").unwrap();
        let swapper = Swapper { swap: std::sync::Once::new(), from: letter, to: path.clone() };
        let utf8 = Utf8Path::from_path(&path).unwrap();
        let permit = Permit::take(&Host::system(), &swapper, utf8, Consent::Said(false)).unwrap();
        std::fs::write(permit.reopen_path(), "mine now").unwrap();
        std::os::unix::fs::FileExt::write_all_at(permit.file(), b"m", 0).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    }
}
