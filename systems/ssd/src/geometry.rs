//! Flash addresses: slots (4 KiB), pages, program units, blocks, dies; scaled to a capacity.

use crate::command::BLOCK_BYTES;
use crate::error::ConfigError;
use crate::profile::{MediaKind, Profile};

/// Most logical blocks a device can have (8 TiB less spare: slots and map entries are 31-bit).
pub(crate) const LOGICAL_BLOCKS_MAX: u64 = 1 << 30;

/// Host writes leave this many free blocks on each die to garbage collection.
pub(crate) const GC_RESERVE: usize = 1;
/// Garbage collection of a die starts at this many free blocks.
pub(crate) const GC_LOW: usize = 3;

/// The array. A *slot* holds one logical block; a *unit* is what one program writes: a page on each plane
/// of a die; a *block* is what one erase clears: `units_per_block` units.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Logical blocks.
    pub logical: u32,
    /// Channels.
    pub channels: u32,
    /// Dies in all; die `d` is on channel `d % channels`.
    pub dies: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Slots of a page.
    pub page_slots: u32,
    /// Slots of a unit.
    pub unit_slots: u32,
    /// Units of a block.
    pub units_per_block: u32,
    /// Slots of a block.
    pub block_slots: u32,
    /// Blocks of a die.
    pub blocks_per_die: u32,
}

impl Geometry {
    /// The geometry of `profile` scaled to `capacity_bytes`: blocks are made smaller until each die has
    /// some 64, and spare blocks are added until collection cannot run dry.
    ///
    /// # Errors
    /// [`ConfigError::Capacity`].
    pub fn new(profile: &Profile, capacity_bytes: u64) -> Result<Geometry, ConfigError> {
        let logical = capacity_bytes / BLOCK_BYTES;
        if logical == 0 || logical > LOGICAL_BLOCKS_MAX || !capacity_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(ConfigError::Capacity {
                bytes: capacity_bytes,
                max: LOGICAL_BLOCKS_MAX * BLOCK_BYTES,
            });
        }
        let m = &profile.media;
        let dies = m.channels * m.dies_per_channel;
        let (planes, page_slots, pages) = match m.kind {
            MediaKind::Flash => (m.planes, (m.page_bytes / BLOCK_BYTES) as u32, m.pages_per_block),
            // In place: a block of one slot and a free erase is memory that can be rewritten.
            MediaKind::Inplace | MediaKind::Rotating => (1, 1, 1),
        };
        let unit_slots = planes * page_slots;
        let spare = (logical as f64 * profile.ftl.over_provisioning).ceil() as u64;
        let per_die = (logical + spare).div_ceil(u64::from(dies)) as u32;
        let units_per_block = pages.min((per_die / 64 / unit_slots).max(4)).max(1);
        let units_per_block = if m.kind == MediaKind::Flash { units_per_block } else { 1 };
        let block_slots = unit_slots * units_per_block;
        let mut blocks_per_die = per_die.div_ceil(block_slots);
        let live_per_die = (logical as u32).div_ceil(dies);
        let waiting = profile.ftl.suspended_blocks_max.div_ceil(dies);
        // One unit of every block may be padding or garbage before a victim is worth collecting.
        let padding = if units_per_block > 1 { unit_slots } else { 0 };
        while blocks_per_die * (block_slots - padding)
            < live_per_die + waiting + (GC_LOW as u32 + 3) * block_slots
        {
            blocks_per_die += 1;
        }
        Ok(Geometry {
            logical: logical as u32,
            channels: m.channels,
            dies,
            planes,
            page_slots,
            unit_slots,
            units_per_block,
            block_slots,
            blocks_per_die,
        })
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u32 {
        self.dies * self.blocks_per_die
    }

    /// Slots in all.
    pub fn slots(&self) -> u32 {
        self.blocks() * self.block_slots
    }

    pub(crate) fn block_of(&self, slot: u32) -> u32 {
        slot / self.block_slots
    }

    pub(crate) fn die_of_block(&self, block: u32) -> u32 {
        block / self.blocks_per_die
    }

    /// Page number over the whole array; slots of one page are read together.
    pub(crate) fn page_of(&self, slot: u32) -> u32 {
        slot / self.page_slots
    }

    /// (die, plane) of a page.
    pub(crate) fn plane_of_page(&self, page: u32) -> (u32, u32) {
        let slot = page * self.page_slots;
        (self.die_of_block(self.block_of(slot)), page % self.planes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_devices_keep_spare_blocks() {
        for name in crate::profile::NAMES {
            let p = Profile::named(name).unwrap();
            for mib in [16u64, 256, 4096] {
                let g = Geometry::new(&p, mib << 20).unwrap();
                assert!(u64::from(g.slots()) * 4096 > mib << 20, "{name}");
                assert!(g.blocks_per_die >= 8, "{name} {mib} {g:?}");
                let last = g.slots() - 1;
                assert_eq!(g.die_of_block(g.block_of(last)), g.dies - 1);
                assert_eq!(g.plane_of_page(g.page_of(last)), (g.dies - 1, g.planes - 1));
            }
        }
        let p = Profile::named("980pro").unwrap();
        assert!(Geometry::new(&p, 0).is_err());
        assert!(Geometry::new(&p, 4097).is_err());
    }
}
