//! Instructions of the compiled digits CNN for one sample. It prints a line for each sample, `name gradient added`:
//! those of its gradient alone, and those of the step that computes, clips and adds it.
//!
//! It runs only on a Cortex-M under QEMU with `-icount shift=10`, and prints nothing elsewhere. `../timing` runs it and
//! prints which samples can be distinguished.
#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod board {
    use core::hint::black_box;
    use cortex_m_semihosting::hio;
    use damper_core::noise::ChaCha20;
    use damper_core::optimizer::SgdState;
    use damper_core::prelude::*;
    use damper_core::private::SumWord;
    use damper_firmware_cortex_m::{Ticks, exit};
    use digits_cnn::{INITIAL, Memory, PARAMS, add_sample, gradient};

    const PIXELS: usize = 64;
    static IMAGES: &[u8; 16 + 200 * PIXELS] = include_bytes!("../../data/digits/train-images-idx3-ubyte");
    static LABELS: &[u8; 8 + 200] = include_bytes!("../../data/digits/train-labels-idx1-ubyte");

    /// Samples by name: pixels, and the label.
    const MADE: [(&str, fn(usize) -> f32, i64); 8] = [
        ("zeros", |_| 0.0, 0),
        ("ones", |_| 1.0, 9),
        ("negative", |_| -1.0, 4),
        ("large", |at| 1e4 + at as f32, 4),
        ("subnormal", |at| f32::from_bits(at as u32 + 1), 4),
        ("nan", |at| if at == 20 { f32::NAN } else { 0.5 }, 4),
        ("infinite", |at| if at == 20 { f32::INFINITY } else { 0.5 }, 4),
        ("too-large", |_| 1e30, 4),
    ];

    fn measure() -> Option<()> {
        let ticks = Ticks::start()?;
        let config = DpSgd::new().clip(0.5).noise_multiplier(1.0).learning_rate(0.5).expected_batch(1);
        let config = config.build().ok()?;
        let mut ledger = Ledger::volatile(1);
        let (mut sum, mut params, mut memory) = ([SumWord::ZERO; PARAMS], INITIAL, Memory::new());
        let mut state = StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: [] }, ());
        let mut step = config.open(&mut state, &mut ledger).ok()?;
        let mut stdout = hio::hstdout().ok()?;
        let mut line = |name: &dyn core::fmt::Display, pixels: &[f32; PIXELS], label: i64| {
            let labels = [label];
            // Counted before the step, so that only the gradient is included.
            let alone = {
                let mut grad = [0f32; PARAMS];
                let mut done = Ok(());
                let count = ticks.count(|| {
                    done = gradient(&params, black_box(pixels), &labels, black_box(&mut memory), black_box(&mut grad))
                });
                done.ok()?;
                count
            };
            let mut done = Ok(());
            let added = ticks
                .count(|| done = add_sample(&mut step, &params, black_box(pixels), &labels, black_box(&mut memory)));
            done.ok()?;
            core::fmt::Write::write_fmt(&mut stdout, format_args!("{name} {alone} {added}\n")).ok()
        };
        for sample in 0..40usize {
            let mut pixels = [0.0; PIXELS];
            let image = IMAGES.get(16..)?.chunks_exact(PIXELS).nth(sample)?;
            for (to, from) in pixels.iter_mut().zip(image) {
                *to = f32::from(*from) / 255.0;
            }
            let label = i64::from(*LABELS.get(8 + sample)?);
            line(&format_args!("digit-{label}"), &pixels, label)?;
        }
        for (name, value, label) in black_box(MADE) {
            line(&name, &core::array::from_fn(value), label)?;
        }
        step.finish(&mut params[..], &ChaCha20::<1>::simulation(black_box(1))).ok()?;
        Some(())
    }

    #[cortex_m_rt::entry]
    fn main() -> ! {
        exit(measure().is_some())
    }
}

#[cfg(target_arch = "riscv32")]
#[riscv_rt::entry]
fn main() -> ! {
    damper_firmware_riscv::exit(true)
}
