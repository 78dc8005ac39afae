//! Memory of a sum on the device, other than its words: the tables, and what a chunk needs.

use crate::device::CudaDevice;
use crate::error::DeviceError;
use crate::layout::{LANES, Layout};
use crate::memory::DeviceMemory;
use std::sync::Arc;

/// The tables of a layout.
pub(crate) struct Tables {
    pub(crate) lens: DeviceMemory,
    pub(crate) block_pieces: DeviceMemory,
    pub(crate) first_piece: DeviceMemory,
    pub(crate) tile_pieces: DeviceMemory,
    pub(crate) segments: DeviceMemory,
}

impl Tables {
    pub(crate) fn new(device: &Arc<dyn CudaDevice>, layout: &Layout) -> Result<Self, DeviceError> {
        Ok(Self {
            lens: DeviceMemory::of(device, &layout.lens)?,
            block_pieces: DeviceMemory::of(device, &layout.block_pieces)?,
            first_piece: DeviceMemory::of(device, &layout.first_piece)?,
            tile_pieces: DeviceMemory::of(device, &layout.tile_pieces)?,
            segments: DeviceMemory::of(device, &layout.segments(0.0))?,
        })
    }
}

/// Memory for one chunk of samples: as secret as they are.
pub(crate) struct Chunk {
    pub(crate) parts: DeviceMemory,
    pub(crate) present: DeviceMemory,
    pub(crate) lanes: DeviceMemory,
    pub(crate) totals: DeviceMemory,
    pub(crate) norms: DeviceMemory,
    pub(crate) scales: DeviceMemory,
    pub(crate) failed: DeviceMemory,
}

/// As `kernels/scale.cu` has it.
const SCALE_BYTES: u64 = 24;

impl Chunk {
    pub(crate) fn new(device: &Arc<dyn CudaDevice>, layout: &Layout) -> Result<Self, DeviceError> {
        let rows = u64::from(layout.rows);
        let totals = u64::from(layout.blocks) * rows * 4;
        Ok(Self {
            parts: DeviceMemory::zeros(device, layout.lens.len() as u64)?,
            present: DeviceMemory::zeros(device, rows)?,
            lanes: DeviceMemory::zeros(device, totals * LANES)?,
            totals: DeviceMemory::zeros(device, totals)?,
            norms: DeviceMemory::zeros(device, u64::from(layout.measured + layout.clipped) * rows * 4)?,
            scales: DeviceMemory::zeros(device, u64::from(layout.clipped) * rows * SCALE_BYTES)?,
            failed: DeviceMemory::zeros(device, 4)?,
        })
    }

    /// Writes zeros over what was computed from samples.
    pub(crate) fn wipe(&self) -> Result<(), DeviceError> {
        [&self.present, &self.lanes, &self.totals, &self.norms, &self.scales, &self.failed]
            .into_iter()
            .try_for_each(DeviceMemory::clear)
    }
}
