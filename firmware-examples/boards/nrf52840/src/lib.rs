//! Chip-specific code of the nRF52840, for an Embassy and an RTIC program: key, flash, clock and button of the
//! development kit (PCA10056).
#![no_std]

use core::cell::RefCell;
use core::convert::Infallible;
use cortex_m::peripheral::{DCB, DWT};
use damper_core::prelude::*;
use damper_firmware_background::{Board, FirstBoot, train};
use defmt_rtt as _;
use embassy_nrf::Peri;
use embassy_nrf::gpio::{Input, Pull};
use embassy_nrf::nvmc::Nvmc;
use embassy_nrf::peripherals::{NVMC, P0_11, RNG};
use embassy_nrf::rng::Rng;
use embassy_time::Delay;
use panic_probe as _;

/// Start of the flash of journal and snapshots, at the end of `memory.x`.
const REGION: u32 = 0xf_0000;

/// Peripherals that training uses.
pub struct Chip {
    /// The controller of the flash.
    pub nvmc: Peri<'static, NVMC>,
    /// The true random generator.
    pub rng: Peri<'static, RNG>,
    /// Button 1. Held at reset, it confirms that the run begins.
    pub button: Peri<'static, P0_11>,
    /// Switch of the cycle counter.
    pub dcb: DCB,
    /// Cycle counter.
    pub dwt: DWT,
}

/// Trains until the budget is spent, and logs the released results.
pub async fn run(chip: Chip) {
    let Chip { nvmc, rng, button, mut dcb, mut dwt } = chip;
    dcb.enable_trace();
    dwt.enable_cycle_counter();
    let mut rng = Rng::new_blocking(rng);
    // Slower, and without the bias of the raw bits.
    rng.set_bias_correction(true);
    let key = Key::fresh(|bytes| {
        rng.blocking_fill_bytes(bytes);
        Ok::<_, Infallible>(())
    });
    let Ok(key) = key else {
        defmt::error!("the random generator is dead");
        return;
    };
    let board = Board {
        flash: &RefCell::new(Nvmc::new(nvmc)),
        from: REGION,
        noise: &NoiseRng::from_key(key),
        first_boot: Input::new(button, Pull::Up).is_low().then(FirstBoot::confirmed_by_owner),
        delay: Delay,
        clock: DWT::cycle_count,
    };
    match train(board, |report| defmt::info!("{}", report)).await {
        Ok(params) => defmt::info!("budget spent; the first parameters: {}", params.first_chunk::<4>()),
        Err(failure) => defmt::error!("{}", failure),
    }
}
