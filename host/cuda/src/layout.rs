//! Tables for the kernels: the tensor, block, tile and segment of each coordinate (`kernels/layout.h`).

use crate::error::DeviceError;
use damper_core::clip::{Layer, Layers};
use damper_core::grid::Grid;
use std::ops::Range;

/// Coordinates whose squares are added in f32.
const BLOCK: usize = 1024;
/// Lanes of a block.
pub(crate) const LANES: u64 = 8;
/// Threads that add a tile.
pub(crate) const TILE_THREADS: u32 = 128;
/// Coordinates of a tile, eight for each thread.
const TILE: usize = 8 * TILE_THREADS as usize;
/// Maximum number of coordinates: those of a piece are counted in 32 bits.
const MOST_COORDINATES: usize = 1 << 31;
/// Maximum number of rows: a card's limit of blocks along the second axis.
const MOST_ROWS: usize = 65535;

/// Sizes of a sum.
#[derive(Clone, Copy, Debug)]
pub struct SumShape<'a> {
    /// Floats in a row of each tensor. Their rows together are a sample's gradient, in this order.
    pub parts: &'a [usize],
    /// Rows of a chunk, which is the physical batch.
    pub rows: usize,
    /// Layers that are clipped separately.
    pub layers: Option<Layers<'a>>,
    /// Grid.
    pub grid: Grid,
}

/// Coordinates that are clipped together, or whose norm is computed.
struct Segment {
    blocks: Range<u32>,
    units: u32,
    layer: Option<Layer>,
}

/// Tables as bytes.
pub(crate) struct Layout {
    pub(crate) dim: usize,
    pub(crate) rows: u32,
    /// Number of segments that are measured and not clipped. They come first.
    pub(crate) measured: u32,
    pub(crate) clipped: u32,
    pub(crate) blocks: u32,
    pub(crate) tiles: u32,
    pub(crate) lens: Vec<u8>,
    pub(crate) block_pieces: Vec<u8>,
    pub(crate) first_piece: Vec<u8>,
    pub(crate) tile_pieces: Vec<u8>,
    segments: Vec<Segment>,
}

impl Layout {
    pub(crate) fn new(shape: &SumShape<'_>) -> Result<Self, DeviceError> {
        let dim = shape.parts.iter().try_fold(0usize, |dim, len| dim.checked_add(*len));
        let dim = dim.filter(|dim| *dim < MOST_COORDINATES).ok_or(DeviceError::Shape("2^31 coordinates or more"))?;
        if shape.rows == 0 || shape.rows > MOST_ROWS {
            return Err(DeviceError::Shape("rows of a chunk are from 1 to 65535"));
        }
        let layers = shape.layers.map(|layers| layers.as_slice().to_vec());
        if layers.iter().any(|layers| layers.iter().map(|layer| layer.len).sum::<usize>() != dim) {
            return Err(DeviceError::Shape("the layers have another number of coordinates"));
        }
        let mut layout = Self {
            dim,
            rows: shape.rows as u32,
            measured: 0,
            clipped: 1,
            blocks: 0,
            tiles: 0,
            lens: shape.parts.iter().flat_map(|len| (*len as u64).to_le_bytes()).collect(),
            block_pieces: Vec::new(),
            first_piece: 0u32.to_le_bytes().to_vec(),
            tile_pieces: Vec::new(),
            segments: Vec::new(),
        };
        let starts = Starts::new(shape.parts);
        // The whole gradient. Its norm decides if a row adds anything.
        layout.measure(&starts, 0..dim, if layers.is_some() { 0 } else { shape.grid.unit() }, None);
        match &layers {
            None => layout.tile(&starts, 0..dim, 0),
            Some(layers) => {
                (layout.measured, layout.clipped) = (1, layers.len() as u32);
                let mut at = 0;
                for (number, layer) in layers.iter().enumerate() {
                    let coordinates = at..at + layer.len;
                    // For layers, `⌊s_l·2^bits⌋`, with the share in units of 2⁻²².
                    let units = layer.share >> 22u32.saturating_sub(shape.grid.bits());
                    layout.measure(&starts, coordinates.clone(), units, Some(*layer));
                    layout.tile(&starts, coordinates, number as u32);
                    at += layer.len;
                }
            }
        }
        layout.check_counters()?;
        Ok(layout)
    }

    /// Table of segments for the threshold of a step.
    pub(crate) fn segments(&self, threshold: f32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Segment { blocks, units, layer } in &self.segments {
            let share = layer.map_or(1.0, |layer| layer.share as f32 / (1u32 << 22) as f32);
            for word in [blocks.start, blocks.end, *units, (threshold * share).to_bits()] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes
    }

    /// Adds a segment and its blocks.
    fn measure(&mut self, starts: &Starts, coordinates: Range<usize>, units: u32, layer: Option<Layer>) {
        let first = self.blocks;
        for start in coordinates.clone().step_by(BLOCK) {
            let block = start..coordinates.end.min(start + BLOCK);
            for piece in starts.pieces(block, TILE) {
                piece.write(&mut self.block_pieces, piece.first - start, 0);
            }
            self.first_piece.extend(((self.block_pieces.len() / PIECE_BYTES) as u32).to_le_bytes());
            self.blocks += 1;
        }
        self.segments.push(Segment { blocks: first..self.blocks, units, layer });
    }

    /// Adds the tiles of a clipped segment.
    fn tile(&mut self, starts: &Starts, coordinates: Range<usize>, number: u32) {
        for piece in starts.pieces(coordinates, TILE) {
            piece.write(&mut self.tile_pieces, piece.first, number);
            self.tiles += 1;
        }
    }

    /// Fails if a row's counter of squares may overflow. A warp adds at most the bound and one.
    fn check_counters(&self) -> Result<(), DeviceError> {
        let warps = u128::from(self.tiles) * u128::from(TILE_THREADS / 32);
        let cap = |segment: &Segment| u128::from(segment.units) * u128::from(segment.units) + 1;
        if self.segments.iter().any(|segment| warps * cap(segment) > u128::from(u64::MAX)) {
            return Err(DeviceError::Shape("so many coordinates need fewer grid bits"));
        }
        // The segments above their bounds are counted in 32 bits.
        if u64::from(self.clipped) * u64::from(self.rows) > u64::from(u32::MAX) {
            return Err(DeviceError::Shape("so many layers need fewer rows"));
        }
        Ok(())
    }
}

/// First coordinate of each tensor, and the total.
struct Starts(Vec<usize>);

/// As in `kernels/layout.h`.
const PIECE_BYTES: usize = 24;

struct Piece {
    part: usize,
    offset: usize,
    first: usize,
    len: usize,
}

impl Piece {
    fn write(&self, to: &mut Vec<u8>, at: usize, segment: u32) {
        to.extend((self.offset as u64).to_le_bytes());
        // All are below 2³¹, like all coordinates.
        for word in [self.part as u32, at as u32, self.len as u32, segment] {
            to.extend(word.to_le_bytes());
        }
    }
}

impl Starts {
    fn new(parts: &[usize]) -> Self {
        let mut starts = vec![0];
        let mut at = 0;
        for len in parts {
            at += len;
            starts.push(at);
        }
        Self(starts)
    }

    /// Splits coordinates at the end of each tensor and after `most` of them.
    fn pieces(&self, coordinates: Range<usize>, most: usize) -> impl Iterator<Item = Piece> + '_ {
        let mut first = coordinates.start;
        std::iter::from_fn(move || {
            // The last tensor that starts at or before `first`. An empty tensor starts with the next.
            let part = self.0.partition_point(|start| *start <= first).checked_sub(1)?;
            let (start, end) = (self.0.get(part)?, self.0.get(part + 1)?);
            let len = (end - first).min(most).min(coordinates.end.saturating_sub(first));
            let piece = Piece { part, offset: first - start, first, len };
            first += len;
            (len > 0).then_some(piece)
        })
    }
}
