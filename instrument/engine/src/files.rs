//! Flowops on files and directories as such: open, create, close, delete, stat, list.

use crate::fileset::Start;
use crate::lane::{Lane, OpResult, RunFault, Slot};
use crate::program::Op;
use crate::target::{OpenHow, Target};

/// Makes a [`Start`] from a flowop's attributes; a macro, since it borrows single fields of the lane.
macro_rules! start_of {
    ($lane:ident, $op:ident, $fileset:ident) => {
        match $op.flow.index {
            Some(index) => Start::At($lane.draws.eval(index)),
            None if $op.flow.open_next => Start::Own(&mut $lane.own_rotors[$fileset]),
            None => Start::Shared(&mut $lane.turns[$fileset]),
        }
    };
}

impl<T: Target> Lane<'_, T> {
    fn fileset_of(&self, op: &Op) -> Result<usize, Box<RunFault>> {
        op.flow.fileset.ok_or_else(|| RunFault::boxed("it needs a filesetname= or filename="))
    }

    fn how(&self, op: &Op, fileset: usize, create: bool) -> OpenHow {
        let fileset = &self.shared.filesets[fileset];
        OpenHow {
            read: fileset.read_only || !fileset.write_only,
            write: !fileset.read_only || create,
            create,
            sync: op.flow.dsync,
            direct: op.flow.direct_io,
            no_read_ahead: op.flow.no_read_ahead,
        }
    }

    /// The slot that a flowop uses (filebench.md section 6).
    #[inline]
    fn slot_number(&mut self, op: &Op) -> usize {
        if op.flow.fd > 0 || !op.flow.open_next {
            return usize::from(op.flow.fd).min(self.slots.len() - 1);
        }
        self.next_slot = if self.next_slot == 0 { self.slots.len() - 1 } else { self.next_slot - 1 };
        self.next_slot
    }

    /// The slot of a flowop that needs an open file; opens one when the slot is empty and the flowop names a fileset.
    #[inline]
    pub(crate) async fn open_slot(&mut self, op: &Op) -> Result<Result<usize, OpResult>, Box<RunFault>> {
        let slot = self.slot_number(op);
        if self.slots[slot].file.is_some() {
            return Ok(Ok(slot));
        }
        if op.flow.fileset.is_some() {
            return Ok(match self.open_into(op, slot).await? {
                OpResult::Done(_) => Ok(slot),
                other => Err(other),
            });
        }
        if self.slots[slot].starved {
            return Ok(Err(OpResult::Starved));
        }
        Err(RunFault::boxed(format!(
            "file slot fd={slot} is not open, and no filesetname= says what to open"
        )))
    }

    /// Opens the next existing file into a slot.
    #[inline]
    async fn open_into(&mut self, op: &Op, slot: usize) -> Result<OpResult, Box<RunFault>> {
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let how = self.how(op, index, false);
        let Some(file) = fileset.pick_existing(start_of!(self, op, index)) else {
            self.slots[slot].starved = true;
            return Ok(self.no_resource());
        };
        match self.target.open(fileset.file_path(file, &mut self.path), how).await {
            Ok(open) => self.fill_slot(slot, open, index, file, how).await?,
            Err(error) => {
                fileset.release(file);
                return Err(error.into());
            }
        }
        Ok(OpResult::Done(0))
    }

    #[inline]
    async fn fill_slot(
        &mut self,
        slot: usize,
        open: T::File,
        fileset: usize,
        file: u64,
        how: OpenHow,
    ) -> Result<(), Box<RunFault>> {
        let alignment = if how.direct { self.target.direct_alignment(&open).await } else { 1 };
        self.slots[slot] =
            Slot { file: Some(open), of: Some((fileset, file)), position: 0, alignment, starved: false };
        Ok(())
    }

    #[inline]
    pub(crate) async fn open_file(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = self.slot_number(op);
        if self.slots[slot].file.is_some() {
            return Err(RunFault::boxed(format!("file slot fd={slot} is already open: close it first")));
        }
        self.open_into(op, slot).await
    }

    #[inline]
    pub(crate) async fn create_file(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = self.slot_number(op);
        if self.slots[slot].file.is_some() {
            return Err(RunFault::boxed(format!("file slot fd={slot} is already open: close it first")));
        }
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let how = self.how(op, index, true);
        let Some(file) = fileset.pick_absent(start_of!(self, op, index)) else {
            self.slots[slot].starved = true;
            return Ok(self.no_resource());
        };
        match self.target.open(fileset.file_path(file, &mut self.path), how).await {
            Ok(open) => {
                fileset.created(file);
                self.fill_slot(slot, open, index, file, how).await?;
                Ok(OpResult::Done(0))
            }
            Err(error) => {
                fileset.not_created(file);
                Err(error.into())
            }
        }
    }

    #[inline]
    pub(crate) async fn close_file(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let number = self.slot_number(op);
        let slot = &mut self.slots[number];
        let Some(file) = slot.file.take() else {
            if std::mem::take(&mut slot.starved) {
                return Ok(OpResult::Starved);
            }
            return Err(RunFault::boxed(format!("file slot fd={number} is not open")));
        };
        let closed = self.target.close(file).await;
        if let Some((fileset, file)) = slot.of {
            self.shared.filesets[fileset].release(file);
        }
        closed?;
        Ok(OpResult::Done(0))
    }

    #[inline]
    pub(crate) async fn delete_file(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = &self.slots[usize::from(op.flow.fd).min(self.slots.len() - 1)];
        let (index, file) = match slot.of {
            Some((index, file)) if op.flow.fd > 0 => {
                let own = u32::from(slot.file.is_some());
                if !self.shared.filesets[index].take_out(file, own) {
                    return Ok(OpResult::Starved);
                }
                (index, file)
            }
            _ if op.flow.fd > 0 && slot.starved => return Ok(OpResult::Starved),
            _ => {
                let index = self.fileset_of(op)?;
                match self.shared.filesets[index].pick_to_delete(start_of!(self, op, index)) {
                    Some(file) => (index, file),
                    None => return Ok(self.no_resource()),
                }
            }
        };
        let fileset = &self.shared.filesets[index];
        let unlinked = self.target.unlink(fileset.file_path(file, &mut self.path)).await;
        fileset.deleted(file);
        unlinked?;
        Ok(OpResult::Done(0))
    }

    #[inline]
    pub(crate) async fn stat_file(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        if op.flow.fd > 0
            && let Some(file) = &self.slots[usize::from(op.flow.fd)].file
        {
            self.target.stat_open(file).await?;
            return Ok(OpResult::Done(0));
        }
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let Some(file) = fileset.pick_existing(start_of!(self, op, index)) else {
            return Ok(self.no_resource());
        };
        let size = self.target.stat(fileset.file_path(file, &mut self.path)).await;
        fileset.release(file);
        Ok(if size.is_ok() { OpResult::Done(0) } else { OpResult::Errored })
    }

    pub(crate) async fn make_dir(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let Some(dir) = fileset.pick_absent_leafdir(start_of!(self, op, index)) else {
            return Ok(self.no_resource());
        };
        let made = self.target.make_dir(fileset.leafdir_path(dir, &mut self.path)).await;
        fileset.set_leafdir(dir, made.is_ok());
        made?;
        Ok(OpResult::Done(0))
    }

    pub(crate) async fn remove_dir(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let Some(dir) = fileset.pick_existing_leafdir(start_of!(self, op, index)) else {
            return Ok(self.no_resource());
        };
        let removed = self.target.remove_dir(fileset.leafdir_path(dir, &mut self.path)).await;
        fileset.set_leafdir(dir, removed.is_err());
        removed?;
        Ok(OpResult::Done(0))
    }

    pub(crate) async fn list_dir(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let index = self.fileset_of(op)?;
        let fileset = &self.shared.filesets[index];
        let dir = fileset.pick_dir(start_of!(self, op, index));
        let (_, bytes) = self.target.list_dir(fileset.dir_path(dir, &mut self.path)).await?;
        Ok(OpResult::Done(bytes))
    }
}
