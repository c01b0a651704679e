//! Making block devices that a process serves, each attempt in the journal before it is made.

use std::io;

use camino::Utf8Path;
use host::Host;
use host::ublk::{self, Control, DeviceSpec};

use crate::loopdev::AttachError;
use crate::{EntryId, Journal, Resource};

/// Numbers that are tried, at most.
const NUMBERS: u32 = 64;

/// A device that was made and has no server yet.
#[derive(Debug)]
pub struct AddedDevice {
    /// N of `/dev/ublkbN`.
    pub number: u32,
    /// Its queues, of which there may be fewer than were wanted.
    pub queues: u16,
    /// The entry that stands for it.
    pub entry: EntryId,
}

/// Makes a device of the first number that is free; `owner` is the directory of the daemon that will serve it.
///
/// # Errors
/// [`AttachError::Io`] with `EBUSY` when no number is free.
pub fn add(
    host: &Host,
    journal: &Journal,
    control: &Control,
    wanted: DeviceSpec,
    owner: &Utf8Path,
) -> Result<AddedDevice, AttachError> {
    let failed = |error| AttachError::Io(ublk::CONTROL.into(), error);
    let free = |number: &u32| !host.path(ublk::server_path(*number)).exists();
    for number in (0..NUMBERS).filter(free) {
        let resource = Resource::UblkDevice { number, tag: wanted.tag, owner: owner.to_owned() };
        match journal.create_exclusive(resource, || control.add(number, wanted).map_err(failed)) {
            Ok((entry, queues)) => return Ok(AddedDevice { number, queues, entry }),
            // another program was quicker
            Err(AttachError::Io(_, error)) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(failed(io::Error::from_raw_os_error(libc::EBUSY)))
}
