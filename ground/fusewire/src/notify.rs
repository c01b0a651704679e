//! What the kernel is told unasked.

use std::io;
use std::sync::Arc;

use crate::device::Device;
use crate::wire::{invalidate_entry, invalidate_inode, prune};

/// Tells the kernel something unasked.
#[derive(Clone, Debug)]
pub struct Notifier(pub(crate) Arc<Device>);

impl Notifier {
    /// Lets the kernel forget a name of the directory `parent`. It may wait for requests about that directory.
    ///
    /// # Errors
    /// ENOENT if the kernel does not know it, and whatever else it says.
    pub fn invalidate_entry(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        self.send(&invalidate_entry(parent, name))
    }

    /// Lets the kernel forget attributes of a node, and its data from `offset` on: `length` bytes, or all for 0.
    ///
    /// # Errors
    /// As [`Notifier::invalidate_entry`].
    pub fn invalidate_inode(&self, node: u64, offset: i64, length: i64) -> io::Result<()> {
        self.send(&invalidate_inode(node, offset, length))
    }

    /// Lets the kernel forget all names of these nodes, but for directories and what somebody uses. Waits for nothing.
    ///
    /// # Errors
    /// EINVAL from a kernel before Linux 6.18, which cannot do it.
    pub fn prune(&self, nodes: &[u64]) -> io::Result<()> {
        self.send(&prune(nodes))
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.0.0, message)?;
        Ok(())
    }
}
