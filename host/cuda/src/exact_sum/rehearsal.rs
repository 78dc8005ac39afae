//! Dry run of a sum on synthetic samples: fingerprints of rows, and a release that cannot be read.

use super::{ExactSum, State, StepNoise};
use crate::device::Argument;
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use crate::layout::{Layout, TILE_THREADS};
use crate::tensor::DeviceTensor;
use damper_access::Unreleased;
use damper_core::noise::{ChaCha20, DiscreteGaussian};

impl ExactSum {
    /// Releases the open step, of synthetic samples, with a public key. The result cannot be read. A device allocates
    /// the memory of a kernel at its first call, and such an allocation must not fail after a charge.
    ///
    /// # Errors
    ///
    /// Fails if no step was begun, the noise has another grid, or the device fails.
    pub fn rehearse_release(
        &mut self,
        mechanism: DiscreteGaussian<i64>,
        access: Unreleased,
    ) -> Result<(), DeviceError> {
        let threshold = self.check_release(&mechanism)?;
        let generator = ChaCha20::<1>::simulation(0);
        let noise = StepNoise { mechanism, generator: &generator, step: 0, expected_batch: 1 };
        let drawn = self.draw(&noise, threshold, access);
        self.discard()?;
        drawn?;
        self.totals.released.clear()
    }

    /// Fingerprint of each row's bits. It shows if a sample's gradient has the same bits in every row and next to every
    /// other sample. Only for synthetic samples, because a fingerprint is as secret as the gradient. Ends the step.
    ///
    /// # Errors
    ///
    /// Fails if the sizes do not fit, or the device fails.
    pub fn fingerprints(&mut self, gradients: &[DeviceTensor<'_>], _: Unreleased) -> Result<Vec<u64>, DeviceError> {
        self.state = State::Idle;
        self.upload_parts(gradients)?;
        let Self { tables, chunk, layout: Layout { rows, tiles, .. }, .. } = &*self;
        chunk.prints.clear()?;
        let arguments = [
            chunk.parts.argument(),
            tables.lens.argument(),
            tables.tile_pieces.argument(),
            Argument::Narrow(*rows),
            chunk.prints.argument(),
        ];
        let threads = u64::from(*tiles) * u64::from(TILE_THREADS);
        self.launch(CudaKernel::Fingerprint, (threads, *rows), TILE_THREADS, &arguments)?;
        let mut bytes = vec![0; *rows as usize * 8];
        chunk.prints.download(&mut bytes)?;
        chunk.prints.clear()?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }
}
