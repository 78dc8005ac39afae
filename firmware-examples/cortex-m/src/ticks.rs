//! Counts instructions by QEMU's timer. With `-icount shift=10` an instruction takes 1024 ns of it, and a tick 40 ns.

use cortex_m::peripheral::{Peripherals, SYST, syst::SystClkSource};

/// The largest number of ticks before the timer wraps.
const LARGEST: u32 = 0x00ff_ffff;

/// Counts instructions.
pub struct Ticks(());

impl Ticks {
    /// Starts the timer. Returns `None` if it was started before.
    pub fn start() -> Option<Self> {
        let mut timer = Peripherals::take()?.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(LARGEST);
        timer.clear_current();
        timer.enable_counter();
        Some(Self(()))
    }

    /// Runs `of` and returns its instructions modulo 655,360, after which the timer wraps.
    pub fn count(&self, of: impl FnOnce()) -> u32 {
        let start = SYST::get_current();
        of();
        let ticks = start.wrapping_sub(SYST::get_current()) & LARGEST;
        (ticks * 10 + 128) / 256
    }
}
