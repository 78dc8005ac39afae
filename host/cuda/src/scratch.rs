//! Device memory of a sum other than its words: the tables, and the memory for a chunk.

use crate::device::CudaDevice;
use crate::error::DeviceError;
use crate::layout::{LANES, Layout};
use crate::memory::DeviceMemory;
use std::sync::Arc;

/// Tables of a layout.
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

/// Memory for one chunk of samples, as secret as the samples.
pub(crate) struct Chunk {
    pub(crate) parts: DeviceMemory,
    pub(crate) present: DeviceMemory,
    pub(crate) lanes: DeviceMemory,
    pub(crate) totals: DeviceMemory,
    pub(crate) norms: DeviceMemory,
    pub(crate) scales: DeviceMemory,
    pub(crate) failed: DeviceMemory,
    pub(crate) prints: DeviceMemory,
}

/// Bytes of device memory for a sum of this layout.
pub(crate) fn device_bytes(layout: &Layout) -> u64 {
    let tables = [&layout.lens, &layout.block_pieces, &layout.first_piece, &layout.tile_pieces, &layout.segments(0.0)];
    let tables: u64 = tables.into_iter().map(|table| table.len() as u64).sum();
    tables
        + Chunk::sizes(layout).into_iter().sum::<u64>()
        + Totals::BYTES_OF_COORDINATE * layout.dim as u64
        + Totals::BYTES
}

/// Memory of a step that its chunks do not use.
pub(crate) struct Totals {
    /// Words of the sum.
    pub(crate) sum: DeviceMemory,
    pub(crate) released: DeviceMemory,
    pub(crate) key: DeviceMemory,
    pub(crate) step: DeviceMemory,
}

impl Totals {
    const BYTES_OF_COORDINATE: u64 = 8 + 4;
    const BYTES: u64 = 32 + 4;

    pub(crate) fn new(device: &Arc<dyn CudaDevice>, layout: &Layout) -> Result<Self, DeviceError> {
        Ok(Self {
            sum: DeviceMemory::zeros(device, layout.dim as u64 * 8)?,
            released: DeviceMemory::zeros(device, layout.dim as u64 * 4)?,
            key: DeviceMemory::zeros(device, 32)?,
            step: DeviceMemory::zeros(device, 4)?,
        })
    }
}

/// As in `kernels/scale.cu`.
const SCALE_BYTES: u64 = 24;

impl Chunk {
    /// Bytes of each field, in order.
    fn sizes(layout: &Layout) -> [u64; 8] {
        let rows = u64::from(layout.rows);
        let totals = u64::from(layout.blocks) * rows * 4;
        [
            layout.lens.len() as u64,
            rows,
            totals * LANES,
            totals,
            u64::from(layout.measured + layout.clipped) * rows * 4,
            u64::from(layout.clipped) * rows * SCALE_BYTES,
            4,
            rows * 8,
        ]
    }

    pub(crate) fn new(device: &Arc<dyn CudaDevice>, layout: &Layout) -> Result<Self, DeviceError> {
        let [parts, present, lanes, totals, norms, scales, failed, prints] = Self::sizes(layout);
        Ok(Self {
            parts: DeviceMemory::zeros(device, parts)?,
            present: DeviceMemory::zeros(device, present)?,
            lanes: DeviceMemory::zeros(device, lanes)?,
            totals: DeviceMemory::zeros(device, totals)?,
            norms: DeviceMemory::zeros(device, norms)?,
            scales: DeviceMemory::zeros(device, scales)?,
            failed: DeviceMemory::zeros(device, failed)?,
            prints: DeviceMemory::zeros(device, prints)?,
        })
    }

    /// Overwrites everything computed from samples with zeros.
    pub(crate) fn wipe(&self) -> Result<(), DeviceError> {
        [&self.present, &self.lanes, &self.totals, &self.norms, &self.scales, &self.failed, &self.prints]
            .into_iter()
            .try_for_each(DeviceMemory::clear)
    }
}
