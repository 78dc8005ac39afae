//! Instructions of an empty step of one parameter, with its draw of discrete Gaussian noise. It prints a line for each
//! step, `value instructions`.
//!
//! It runs only under QEMU with `-icount shift=10`: an instruction then takes 1024 ns of the timer's time, and a tick
//! 40 ns. `../../timing` runs it and prints what the numbers reveal about the values.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m::peripheral::{Peripherals, SYST, syst::SystClkSource};
use cortex_m_semihosting::hio;
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_firmware_cortex_m::exit;

const STEPS: u32 = 400_000;
const BITS: u32 = 16;

/// Prints the noise of the steps in grid units and the instructions to finish each step. Returns `None` if a call was
/// refused.
fn measure(timer: &mut SYST) -> Option<()> {
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(0x00ff_ffff);
    timer.clear_current();
    timer.enable_counter();
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(black_box(BITS)).ok()?, black_box(1.0)).ok()?,
        clip: FlatL2,
        // With this clip a grid unit is 1.
        threshold: Fixed((1u32 << BITS) as f32),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).ok()?,
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .ok()?;
    let mut state = StepState::new([SumWord::<i32>::ZERO; 1], (), SgdState { momentum: [0f32; 0] }, ());
    let mut ledger = Ledger::volatile(STEPS);
    let generator = ChaCha20::<1>::simulation(black_box(1));
    let mut stdout = hio::hstdout().ok()?;
    for _ in 0..STEPS {
        let mut params = [0f32];
        let open = step.open(&mut state, &mut ledger).ok()?;
        let start = SYST::get_current();
        open.finish(black_box(&mut params[..]), &generator).ok()?;
        let ticks = start.wrapping_sub(SYST::get_current()) & 0x00ff_ffff;
        // The step subtracts its release.
        let [value] = params.map(|param| -param as i32);
        core::fmt::Write::write_fmt(&mut stdout, format_args!("{value} {}\n", (ticks * 10 + 128) / 256)).ok()?;
    }
    Some(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let measured = Peripherals::take().and_then(|mut peripherals| measure(&mut peripherals.SYST));
    exit(measured.is_some())
}
