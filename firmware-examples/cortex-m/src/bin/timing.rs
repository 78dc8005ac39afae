//! How many instructions a draw of discrete Gaussian noise takes: a line for each draw, `value instructions`.
//!
//! Only under QEMU with `-icount shift=10`: an instruction then takes 1024 ns of the timer's time, and a tick 40 ns.
//! `../../timing` runs it and says what the numbers tell about the values.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m::peripheral::{Peripherals, SYST, syst::SystClkSource};
use cortex_m_semihosting::hio;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
use damper_core::private::Mechanism;
use damper_firmware_cortex_m::exit;

const DRAWS: u32 = 400_000;
const BITS: u32 = 16;

/// Prints the draws' values in grid units and how many instructions each took, its first block of words included. `None`: something
/// was refused.
fn measure(timer: &mut SYST) -> Option<()> {
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(0x00ff_ffff);
    timer.clear_current();
    timer.enable_counter();
    let mechanism = DiscreteGaussian::<i32>::with_multiplier(Grid::new(black_box(BITS)).ok()?, black_box(1.0)).ok()?;
    let generator = ChaCha20::<1>::simulation(black_box(1));
    let mut stdout = hio::hstdout().ok()?;
    for chunk in 0..DRAWS {
        let (mut sum, mut out) = ([0], [0.0]);
        let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk });
        let start = SYST::get_current();
        // With this clip a grid unit is 1.
        mechanism.release(black_box((1u32 << BITS) as f32), 1, black_box(&mut sum), &mut words, black_box(&mut out));
        let ticks = start.wrapping_sub(SYST::get_current()) & 0x00ff_ffff;
        let [value] = out;
        core::fmt::Write::write_fmt(&mut stdout, format_args!("{} {}\n", value as i32, (ticks * 10 + 128) / 256))
            .ok()?;
    }
    Some(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let measured = Peripherals::take().and_then(|mut peripherals| measure(&mut peripherals.SYST));
    exit(measured.is_some())
}
