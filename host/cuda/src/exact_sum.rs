//! The sum of a private step on a device.

mod rehearsal;

use crate::device::{Argument, CudaDevice, Launch, THREADS};
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use crate::layout::{LANES, Layout, SumShape, TILE_THREADS};
use crate::memory::DeviceMemory;
use crate::scratch::{Chunk, Tables, Totals, device_bytes};
use crate::tensor::DeviceTensor;
use damper_access::Unreleased;
use damper_core::clip::{AnyRule, Clip as _};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::private::Mechanism as _;
use std::sync::Arc;
use zeroize::Zeroize as _;

/// Threads per block that draw noise. Each thread makes up to 1,024 draws.
const DRAWING_THREADS: u32 = 64;
/// Maximum number of rows in a group, which a thread adds in 32 bits.
const MOST_OF_GROUP: u32 = 255;
/// Number of thread blocks that keep a card busy.
const BUSY: u32 = 2048;
/// Maximum number of scales, more than are needed to shrink a sample to nothing.
const TRIES: u32 = 32;
/// Coordinates that share one address of noise.
const CHUNK: u64 = damper_core::noise::CHUNK as u64;

const SIZES: DeviceError = DeviceError::Shape("a chunk of other sizes");

/// Noise of a step.
pub struct StepNoise<'a, const BLOCKS: usize> {
    /// Mechanism, on the grid of the sum.
    pub mechanism: DiscreteGaussian<i64>,
    /// Generator. Its key is in the device's memory while the noise is drawn.
    pub generator: &'a ChaCha20<BLOCKS>,
    /// Number of the step, which must be charged.
    pub step: u32,
    /// Divisor of the sum.
    pub expected_batch: u32,
}

/// State of a sum within its step.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Idle,
    Adding {
        threshold: f32,
        rule: AnyRule,
    },
    /// Like `Adding`, while the host has the words. The device must not release then: it would release the noise
    /// without the sum, which is the noise of the host.
    Taken {
        threshold: f32,
        rule: AnyRule,
    },
    Broken,
    Released,
}

/// Sum of a private step on a device. It adds the gradients of chunks of samples and releases their sum with noise,
/// with the bits of `damper-core`. All memory is allocated at construction. Dropping it wipes that memory.
///
/// It charges nothing: the caller of `release` must have charged the step, and must release it only once.
pub struct ExactSum {
    device: Arc<dyn CudaDevice>,
    layout: Layout,
    grid: Grid,
    tables: Tables,
    pub(crate) chunk: Chunk,
    pub(crate) totals: Totals,
    state: State,
    /// Number of the last step whose noise was drawn.
    last_step: Option<u32>,
}

impl ExactSum {
    /// Creates a sum of this shape.
    ///
    /// # Errors
    ///
    /// Fails if the sizes do not fit each other, or the device has no room. Nothing is charged by then.
    pub fn new(device: &Arc<dyn CudaDevice>, shape: &SumShape<'_>) -> Result<Self, DeviceError> {
        let layout = Layout::new(shape)?;
        Ok(Self {
            tables: Tables::new(device, &layout)?,
            chunk: Chunk::new(device, &layout)?,
            totals: Totals::new(device, &layout)?,
            device: Arc::clone(device),
            layout,
            grid: shape.grid,
            state: State::Idle,
            last_step: None,
        })
    }

    /// Bytes of device memory for a sum of this shape, without gradients. Used to choose a physical batch.
    ///
    /// # Errors
    ///
    /// Fails if the sizes do not fit each other.
    pub fn device_bytes(shape: &SumShape<'_>) -> Result<u64, DeviceError> {
        Ok(device_bytes(&Layout::new(shape)?))
    }

    /// Number of coordinates.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.layout.dim
    }

    /// Begins a step with an empty sum. Its samples are clipped to `threshold` by `rule`.
    ///
    /// # Errors
    ///
    /// Fails if the grid cannot represent the threshold, or the device fails.
    pub fn begin(&mut self, threshold: f32, rule: AnyRule) -> Result<(), DeviceError> {
        self.state = State::Broken;
        let is_valid = DiscreteGaussian::<i64>::new(self.grid, 1).and_then(|grid| grid.check_clip(threshold)).is_ok();
        if !is_valid {
            return Err(DeviceError::Shape("a threshold that its grid cannot represent"));
        }
        self.totals.sum.clear()?;
        self.tables.segments.upload(&self.layout.segments(threshold))?;
        self.state = State::Adding { threshold, rule };
        Ok(())
    }

    /// Adds the samples of a chunk. Each of `gradients` has one row per sample, in the order of the shape's parts. Rows
    /// that are not `present` add nothing, whatever their contents.
    ///
    /// Returns the norm of each row. The norm is `None` if the row is not present, or if its squared norm is not a
    /// finite f32. Such a row adds nothing. Norms are as secret as the samples.
    ///
    /// # Errors
    ///
    /// Fails if no step was begun, the sizes do not fit, or the device fails. The step cannot be released then.
    pub fn add_chunk(
        &mut self,
        gradients: &[DeviceTensor<'_>],
        present: &[bool],
        _: Unreleased,
    ) -> Result<Vec<Option<f32>>, DeviceError> {
        let State::Adding { rule, .. } = self.state else {
            return Err(DeviceError::Order("a chunk without a step"));
        };
        if present.len() != self.layout.rows as usize {
            return Err(SIZES);
        }
        let state = std::mem::replace(&mut self.state, State::Broken);
        self.upload_parts(gradients).inspect_err(|error| {
            if *error == SIZES {
                self.state = state;
            }
        })?;
        self.chunk.present.upload(&present.iter().map(|present| u8::from(*present)).collect::<Vec<_>>())?;
        self.measure()?;
        self.first_scales(rule)?;
        self.add_until_bounded()?;
        let norms = self.norms()?;
        self.state = state;
        Ok(norms)
    }

    /// Adds the noise and writes the mean over the expected batch to the device's memory, from which
    /// [`read_released`](Self::read_released) copies. Wipes the sum, the key and everything computed from samples.
    ///
    /// # Errors
    ///
    /// Fails if no step was begun, the step was released, an error came before, or the device fails. Also fails if the
    /// noise has another grid or was drawn for the previous step. Nothing of the step can be released after an error.
    pub fn release<const BLOCKS: usize>(
        &mut self,
        noise: &StepNoise<'_, BLOCKS>,
        access: Unreleased,
    ) -> Result<(), DeviceError> {
        let threshold = self.check_release(&noise.mechanism)?;
        // A second sum with the same noise would reveal the difference of the two sums.
        if self.last_step == Some(noise.step) {
            return Err(DeviceError::Order("the noise of a step that was drawn"));
        }
        (self.state, self.last_step) = (State::Broken, Some(noise.step));
        let released = self.draw(noise, threshold, access);
        // Also after an error.
        let wiped = self.wipe();
        released?;
        wiped?;
        self.state = State::Released;
        Ok(())
    }

    /// Threshold of the open step, if noise of this mechanism fits its sum.
    fn check_release(&self, mechanism: &DiscreteGaussian<i64>) -> Result<f32, DeviceError> {
        let State::Adding { threshold, .. } = self.state else {
            return Err(DeviceError::Order("a release without a step"));
        };
        if mechanism.grid() != self.grid {
            return Err(DeviceError::Shape("noise of another grid"));
        }
        Ok(threshold)
    }

    /// Ends the step without a release, and wipes everything computed from its samples.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn discard(&mut self) -> Result<(), DeviceError> {
        self.state = State::Idle;
        self.wipe()
    }

    fn wipe(&self) -> Result<(), DeviceError> {
        let Totals { sum, key, step, .. } = &self.totals;
        let wiped = [key.clear(), step.clear(), self.chunk.wipe(), sum.clear()];
        wiped.into_iter().collect::<Result<(), _>>()?;
        self.device.synchronize()
    }

    /// Moves the words of the sum to the host. They are as secret as the samples. This is for noise that the host
    /// draws, and for ranks that exchange the words. The sum on the device is then empty, and can be released only
    /// after [`put_words`](Self::put_words).
    ///
    /// # Errors
    ///
    /// Fails if no step was begun, `words` has another length, or the device fails. The step cannot be released then.
    pub fn take_words(&mut self, words: &mut [i64], _: Unreleased) -> Result<(), DeviceError> {
        self.check_words(words.len())?;
        let State::Adding { threshold, rule } = self.state else {
            return Err(DeviceError::Order("words without a step"));
        };
        self.state = State::Broken;
        let mut bytes = vec![0; words.len() * 8];
        let moved = self.totals.sum.download(&mut bytes).and_then(|()| self.totals.sum.clear());
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i64::from_le_bytes(*bytes);
        }
        bytes.zeroize();
        moved?;
        self.state = State::Taken { threshold, rule };
        Ok(())
    }

    /// Replaces the words taken from the sum, such as by the totals of all ranks.
    ///
    /// # Errors
    ///
    /// Fails if no words were taken, `words` has another length, or the device fails. The step cannot be released then.
    pub fn put_words(&mut self, words: &[i64], _: Unreleased) -> Result<(), DeviceError> {
        self.check_words(words.len())?;
        let State::Taken { threshold, rule } = self.state else {
            return Err(DeviceError::Order("words that were not taken"));
        };
        self.state = State::Broken;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let moved = self.totals.sum.upload(&bytes);
        bytes.zeroize();
        moved?;
        self.state = State::Adding { threshold, rule };
        Ok(())
    }

    fn check_words(&self, len: usize) -> Result<(), DeviceError> {
        if len == self.layout.dim { Ok(()) } else { Err(DeviceError::Shape("a sum of another length")) }
    }

    /// Copies the released mean.
    ///
    /// # Errors
    ///
    /// Fails if nothing is released, `out` has another length, or the device fails.
    pub fn read_released(&self, out: &mut [f32]) -> Result<(), DeviceError> {
        self.released_memory()?.download_floats(out)
    }

    /// Memory of the released mean.
    pub(crate) fn released_memory(&self) -> Result<&DeviceMemory, DeviceError> {
        if self.state == State::Released {
            Ok(&self.totals.released)
        } else {
            Err(DeviceError::Order("nothing is released"))
        }
    }

    /// Uploads the addresses of a chunk's gradients.
    fn upload_parts(&self, gradients: &[DeviceTensor<'_>]) -> Result<(), DeviceError> {
        self.device.wait_for_others()?;
        let rows = u64::from(self.layout.rows);
        let lens = self.layout.lens.as_chunks().0.iter().map(|len| u64::from_le_bytes(*len));
        let fits =
            |(tensor, len): (&DeviceTensor<'_>, u64)| tensor.floats >= rows * len && tensor.may_be_on(&self.device);
        if !gradients.iter().zip(lens).all(fits) || gradients.len() * 8 != self.layout.lens.len() {
            return Err(SIZES);
        }
        let addresses: Vec<u8> = gradients.iter().flat_map(|tensor| tensor.address.to_le_bytes()).collect();
        self.chunk.parts.upload(&addresses)
    }

    /// Computes the norms of each row's segments.
    fn measure(&self) -> Result<(), DeviceError> {
        let Self { tables, chunk, layout: Layout { rows, blocks, measured, clipped, .. }, .. } = self;
        let lanes = [
            chunk.parts.argument(),
            tables.lens.argument(),
            tables.block_pieces.argument(),
            tables.first_piece.argument(),
            Argument::Narrow(*blocks),
            Argument::Narrow(*rows),
            chunk.lanes.argument(),
        ];
        self.launch(CudaKernel::NormLanes, (u64::from(*blocks) * LANES, *rows), THREADS, &lanes)?;
        let count = u64::from(*blocks) * u64::from(*rows);
        let totals = [chunk.lanes.argument(), Argument::Wide(count), chunk.totals.argument()];
        self.launch(CudaKernel::NormTotals, (count, 1), THREADS, &totals)?;
        let segments = measured + clipped;
        let sums = [
            chunk.totals.argument(),
            tables.segments.argument(),
            Argument::Narrow(segments),
            Argument::Narrow(*rows),
            chunk.present.argument(),
            chunk.norms.argument(),
        ];
        // Few long-running threads. Small blocks spread them over the card.
        self.launch(CudaKernel::NormSums, (u64::from(segments) * u64::from(*rows), 1), 32, &sums)
    }

    fn first_scales(&self, rule: AnyRule) -> Result<(), DeviceError> {
        let (is_automatic, gamma) = match rule {
            AnyRule::Flat => (0, 0.0),
            // The divisor for a norm of 0 is γ.
            AnyRule::Automatic(rule) => (1, rule.divisor(0.0, 0.0)),
        };
        let Self { tables, chunk, layout: Layout { rows, measured, clipped, .. }, .. } = self;
        let arguments = [
            chunk.norms.argument(),
            tables.segments.argument(),
            Argument::Narrow(*measured),
            Argument::Narrow(*clipped),
            Argument::Narrow(*rows),
            Argument::Narrow(is_automatic),
            Argument::Float(gamma),
            chunk.scales.argument(),
        ];
        self.launch(CudaKernel::ScaleFirst, (u64::from(*clipped) * u64::from(*rows), 1), THREADS, &arguments)
    }

    /// Adds the rows. Adds rows above their bound again with a smaller scale, until none exceeds it.
    fn add_until_bounded(&self) -> Result<(), DeviceError> {
        let Self { tables, chunk, layout: Layout { rows, measured, clipped, tiles, .. }, .. } = self;
        let groups = rows.div_ceil(MOST_OF_GROUP).max(rows.div_ceil(16).min(BUSY.div_ceil((*tiles).max(1))));
        let rows_of_group = rows.div_ceil(groups);
        let add = [
            chunk.parts.argument(),
            tables.lens.argument(),
            tables.tile_pieces.argument(),
            tables.segments.argument(),
            Argument::Narrow(*measured),
            Argument::Narrow(*rows),
            Argument::Narrow(rows_of_group),
            chunk.scales.argument(),
            self.totals.sum.argument(),
        ];
        let next = [
            tables.segments.argument(),
            Argument::Narrow(*measured),
            Argument::Narrow(*clipped),
            Argument::Narrow(*rows),
            chunk.scales.argument(),
            chunk.failed.argument(),
        ];
        for _ in 0..TRIES {
            let threads = u64::from(*tiles) * u64::from(TILE_THREADS);
            self.launch(CudaKernel::AddRows, (threads, groups), TILE_THREADS, &add)?;
            chunk.failed.clear()?;
            self.launch(CudaKernel::ScaleNext, (u64::from(*clipped) * u64::from(*rows), 1), THREADS, &next)?;
            let mut failed = [0; 4];
            chunk.failed.download(&mut failed)?;
            if failed == [0; 4] {
                return Ok(());
            }
        }
        Err(DeviceError::Order("a sample that does not shrink: the device computes wrongly"))
    }

    fn norms(&self) -> Result<Vec<Option<f32>>, DeviceError> {
        let mut bytes = vec![0; self.layout.rows as usize * 4];
        self.chunk.norms.download(&mut bytes)?;
        let norms =
            bytes.as_chunks().0.iter().map(|bytes| Some(f32::from_le_bytes(*bytes)).filter(|norm| norm.is_finite()));
        let norms = norms.collect();
        bytes.zeroize();
        Ok(norms)
    }

    /// Adds the noise, wipes the sum and writes the released mean.
    pub(crate) fn draw<const BLOCKS: usize>(
        &self,
        noise: &StepNoise<'_, BLOCKS>,
        threshold: f32,
        access: Unreleased,
    ) -> Result<(), DeviceError> {
        let mut key = [0; 32];
        for (bytes, word) in key.as_chunks_mut().0.iter_mut().zip(noise.generator.key_words(access)) {
            *bytes = word.to_le_bytes();
        }
        let uploaded = self.totals.key.upload(&key);
        key.zeroize();
        uploaded?;
        self.totals.step.upload(&noise.step.to_le_bytes())?;
        let dim = self.layout.dim as u64;
        let arguments = [
            self.totals.sum.argument(),
            Argument::Wide(dim),
            self.totals.key.argument(),
            self.totals.step.argument(),
            Argument::Narrow(noise.mechanism.sigma()),
            // Grid unit of the sum in the mean, computed in the order of `damper-core`.
            Argument::Float(threshold / self.grid.unit() as f32 / noise.expected_batch as f32),
            self.totals.released.argument(),
        ];
        self.launch(CudaKernel::ReleaseChunks, (dim.div_ceil(CHUNK), 1), DRAWING_THREADS, &arguments)
    }

    /// Calls a kernel with at least `size.0` threads along the first axis, and `size.1` blocks along the second.
    fn launch(
        &self,
        kernel: CudaKernel,
        size: (u64, u32),
        block: u32,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        let (threads, second) = size;
        let first = threads.div_ceil(block.into());
        let first = i32::try_from(first).map_err(|_| DeviceError::Shape("more threads than a card has"))? as u32;
        if first == 0 || second == 0 {
            return Ok(());
        }
        self.device.launch(&Launch { kernel, grid: [first, second], block, arguments })
    }
}
