//! Training as an Embassy task, which yields to the others after every sample.
#![no_std]
#![no_main]

use damper_board_nrf52840::{Chip, run};
use embassy_executor::Spawner;
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_time::Timer;

#[embassy_executor::task]
async fn training(chip: Chip) {
    run(chip).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let p = embassy_nrf::init(embassy_nrf::config::Config::default());
    if let Some(cortex_m::Peripherals { DCB: dcb, DWT: dwt, .. }) = cortex_m::Peripherals::take()
        && let Ok(task) = training(Chip { nvmc: p.NVMC, rng: p.RNG, button: p.P0_11, dcb, dwt })
    {
        spawner.spawn(task);
    }
    // The product's own work, here a light.
    let mut light = Output::new(p.P0_13, Level::Low, OutputDrive::Standard);
    loop {
        light.toggle();
        Timer::after_millis(250).await;
    }
}
