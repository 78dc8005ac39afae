//! Program for an STM32L476 (NUCLEO-L476RG): the light blinks, and training continues in the background.
#![no_std]
#![no_main]

mod corrected;

use core::cell::RefCell;
use corrected::Corrected;
use cortex_m::peripheral::{DCB, DWT};
use damper_core::prelude::*;
use damper_firmware_background::{Board, FirstBoot, train};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_stm32::flash::Flash;
use embassy_stm32::gpio::{Input, Level, Output, Pull, Speed};
use embassy_stm32::peripherals::{FLASH, PC13, RNG};
use embassy_stm32::rng::{InterruptHandler, Rng};
use embassy_stm32::{Config, Peri, bind_interrupts};
use embassy_time::{Delay, Timer};
use panic_probe as _;

bind_interrupts!(struct Irqs {
    RNG => InterruptHandler<RNG>;
});

/// Start of the flash of journal and snapshots, at the end of `memory.x`.
const REGION: u32 = 0xf_0000;

#[embassy_executor::task]
async fn training(
    flash: Peri<'static, FLASH>,
    rng: Peri<'static, RNG>,
    button: Peri<'static, PC13>,
    mut dcb: DCB,
    mut dwt: DWT,
) {
    dcb.enable_trace();
    dwt.enable_cycle_counter();
    let (mut draws, mut rng) = ([[0; 32]; 2], Rng::new(rng, Irqs));
    // The generator tests its clock and its bits itself. Without a key the program does not train.
    let mut filled = Ok(());
    for bytes in &mut draws {
        filled = filled.and(rng.async_fill_bytes(bytes).await);
    }
    // Erases the draws, also if one failed.
    let key = Key::from_draws(&mut draws);
    let (Ok(key), Ok(())) = (key, filled) else {
        defmt::error!("the random generator failed");
        return;
    };
    let board = Board {
        flash: &RefCell::new(Corrected(Flash::new_blocking(flash))),
        from: REGION,
        noise: &NoiseRng::from_key(key),
        // The blue button, held at reset.
        first_boot: Input::new(button, Pull::None).is_low().then(FirstBoot::confirmed_by_owner),
        delay: Delay,
        clock: DWT::cycle_count,
    };
    match train(board, |report| defmt::info!("{}", report)).await {
        Ok(params) => defmt::info!("budget spent; the first parameters: {}", params.first_chunk::<4>()),
        Err(failure) => defmt::error!("{}", failure),
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut config = Config::default();
    // 48 MHz for the random generator.
    config.rcc.msi = Some(embassy_stm32::rcc::MSIRange::RANGE48M);
    config.rcc.sys = embassy_stm32::rcc::Sysclk::MSI;
    let p = embassy_stm32::init(config);
    if let Some(cortex_m::Peripherals { DCB: dcb, DWT: dwt, .. }) = cortex_m::Peripherals::take()
        && let Ok(task) = training(p.FLASH, p.RNG, p.PC13, dcb, dwt)
    {
        spawner.spawn(task);
    }
    // The product's own work, here a light.
    let mut light = Output::new(p.PA5, Level::Low, Speed::Low);
    loop {
        light.toggle();
        Timer::after_millis(250).await;
    }
}
