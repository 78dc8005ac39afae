//! Compiled networks train on a board by DP-SGD until their budget is spent, as `damper train --backend portable`
//! trains on a host. Data, draws, noise and gradients are the same, and at the end the parameters are too.
//!
//! # Memory
//!
//! For `D` parameters: the parameters, the step's sum, and the network's values of one sample. No gradient.
#![no_std]
#![forbid(unsafe_code)]

/// Defines a program. It trains `$network` on the data of `$folder`, in `$count` samples of `$side` squared pixels, for
/// `$steps` steps of `$batch` expected samples. It returns the digest of the parameters, or `None` if a call was
/// refused.
macro_rules! program {
    ($(#[$doc:meta])* $name:ident, $network:ident, $folder:literal, $count:literal, $side:literal, $steps:literal, $batch:literal) => {
        $(#[$doc])*
        #[inline(never)]
        pub fn $name() -> Option<u64> {
            use core::hint::black_box;
            use damper_core::noise::ChaCha20;
            use damper_core::numerics::digest::Digest;
            use damper_core::prelude::*;
            use damper_core::private::SumWord;
            use damper_core::optimizer::SgdState;
            use $network::{INITIAL, Memory, PARAMS, add_sample};
            const PIXELS: usize = $side * $side;
            static IMAGES: &[u8; 16 + $count * PIXELS] =
                include_bytes!(concat!("../data/", $folder, "/train-images-idx3-ubyte"));
            static LABELS: &[u8; 8 + $count] = include_bytes!(concat!("../data/", $folder, "/train-labels-idx1-ubyte"));

            let rate = Rate::of($batch, $count).ok()?;
            let config = DpSgd::new().clip(0.5).noise_multiplier(1.0).learning_rate(0.5).expected_batch($batch);
            let config = config.poisson_batches(rate, $count).build().ok()?;
            // A product takes its key from the chip's true random generator, and keeps its ledger in flash.
            let generator = ChaCha20::<1>::simulation(black_box(7));
            let mut ledger = Ledger::volatile($steps);
            let (mut sum, mut params, mut memory) = ([SumWord::ZERO; PARAMS], INITIAL, Memory::new());
            let mut state = StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: [] }, ());
            loop {
                let mut step = match config.open(&mut state, &mut ledger) {
                    Ok(step) => step,
                    Err(OpenError::BudgetSpent) => break,
                    Err(_) => return None,
                };
                for sample in step.poisson_batch(&generator).ok()? {
                    let mut pixels = [0.0; PIXELS];
                    let image = IMAGES.get(16..)?.chunks_exact(PIXELS).nth(sample as usize)?;
                    for (to, from) in pixels.iter_mut().zip(image) {
                        *to = f32::from(*from) / 255.0;
                    }
                    let label = LABELS.get(8..)?.get(sample as usize)?;
                    let labels = [i64::from(*label)];
                    GRADIENT.of(|| add_sample(&mut step, &params, &pixels, &labels, black_box(&mut memory))).ok()?;
                }
                step.finish(&mut params[..], &generator).ok()?;
            }
            (ledger.charged_steps() == $steps).then(|| Digest::of(&params).value())
        }
    };
}

use damper_firmware_program::mark::GRADIENT;

program! {
    /// All of the digits CNN.
    digits, digits_cnn, "digits", 200, 8, 4, 20
}
program! {
    /// The last two layers of the MNIST CNN. The others are frozen in flash.
    images, mnist_cnn, "images", 24, 28, 2, 6
}
program! {
    /// The same layers, with the frozen layers in flash as 8-bit integers.
    images_int8, mnist_cnn_int8, "images", 24, 28, 2, 6
}

/// Ends the program of a board with a line for the digest, or with a failure.
pub fn say(digest: Option<u64>, say: impl FnOnce(damper_firmware_program::line::ReportLine<'_>)) -> bool {
    if let Some(digest) = digest {
        say(damper_firmware_program::line::ReportLine::Params(digest));
    }
    digest.is_some()
}
