//! The file that holds a device's bytes: whose it is, and whether it may be used.

use std::fs::File;

use camino::Utf8Path;
use host::{Consent, Host, Permit, SystemRunner, device};
use journal::{Journal, Resource};

use crate::error::SsdError;
use crate::image::{BackingFile, Image};
use crate::options::{AttachOptions, BackingUse};

/// Opens or makes the file at `path`, and says whether it has contents to be kept.
pub(crate) fn open(
    host: &Host,
    journal: &Journal,
    path: &Utf8Path,
    options: &AttachOptions,
) -> Result<(Image, bool), SsdError> {
    if path.symlink_metadata().is_err() {
        return Ok((make(journal, path, options)?, false));
    }
    let failed = || SsdError::io(format!("backing file {path}"));
    if !path.metadata().map_err(failed())?.is_file() {
        return Err(SsdError::BadOption { what: format!("{path} is not a regular file") });
    }
    let consent = match &options.backing_use {
        BackingUse::Keep => Consent::NotNeeded,
        BackingUse::Overwrite { erase } => Consent::Named(erase.as_deref()),
    };
    let permit = Permit::take(host, &SystemRunner::default(), path, consent)?;
    // what was judged, whatever has its name by now
    let file = File::options().read(true).write(true).open(permit.reopen_path()).map_err(failed())?;
    let (held, report) = permit.into_parts();
    match options.backing_use {
        BackingUse::Keep if report.size_bytes != options.bytes => {
            let (has, wanted) = (report.size_bytes, options.bytes);
            let what = format!(
                "{path} has {has} bytes, and the device {wanted}; an existing file is attached as it is: give its size, \
                 or name a file that does not exist"
            );
            return Err(SsdError::BadOption { what });
        }
        BackingUse::Keep => {}
        BackingUse::Overwrite { .. } => {
            file.set_len(0).and_then(|()| file.set_len(options.bytes)).map_err(failed())?;
        }
    }
    let kept = options.backing_use == BackingUse::Keep;
    Ok((Image::File(BackingFile { file, _held: held }), kept))
}

/// Makes the file. That of a run goes with the device; `create_new` never opens what somebody else has made meanwhile.
fn make(journal: &Journal, path: &Utf8Path, options: &AttachOptions) -> Result<Image, SsdError> {
    let create = || {
        let failed = |source| SsdError::Io { what: format!("make backing file {path}"), source };
        File::options().read(true).write(true).create_new(true).open(path).map_err(failed)
    };
    let file = match options.backing_use {
        BackingUse::Keep => create()?,
        BackingUse::Overwrite { .. } => {
            journal.create_exclusive(Resource::ImageFile { path: path.to_owned() }, create)?.1
        }
    };
    let failed = || SsdError::io(format!("backing file {path}"));
    file.set_len(options.bytes).map_err(failed())?;
    let busy = || SsdError::BadOption { what: format!("{path} was claimed by another program meanwhile") };
    let held = device::hold(&device::reopen_path(&file)).map_err(failed())?.map_err(|_| busy())?;
    Ok(Image::File(BackingFile { file, _held: held }))
}
