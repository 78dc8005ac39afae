//! Program for an RP2040 (Raspberry Pi Pico): the light blinks, and training continues in the background.
#![no_std]
#![no_main]

mod entropy;

use core::cell::RefCell;
use damper_core::prelude::*;
use damper_firmware_background::{Board, FirstBoot, train};
use damper_journal::BlockOn;
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_rp::flash::Flash;
use embassy_rp::gpio::{Input, Level, Output, Pull};
use embassy_rp::peripherals::{DMA_CH0, FLASH, PIN_15};
use embassy_rp::{Peri, bind_interrupts, dma};
use embassy_time::{Delay, Instant, Timer};
use panic_probe as _;

bind_interrupts!(struct Irqs {
    DMA_IRQ_0 => dma::InterruptHandler<DMA_CH0>;
});

/// Bytes of the board's flash chip.
const FLASH_SIZE: usize = 2 << 20;
/// Start of the flash of journal and snapshots, at the end of `memory.x`.
const REGION: u32 = 0x1f_0000;

#[embassy_executor::task]
async fn training(flash: Peri<'static, FLASH>, dma: Peri<'static, DMA_CH0>, button: Peri<'static, PIN_15>) {
    let Ok(key) = Key::fresh(entropy::fill) else {
        defmt::error!("the ring oscillator does not look random");
        return;
    };
    let board = Board {
        // An asynchronous driver.
        flash: &RefCell::new(BlockOn::new(Flash::<_, _, FLASH_SIZE>::new(flash, dma, Irqs))),
        from: REGION,
        noise: &NoiseRng::from_key(key),
        // A button from GPIO 15 to ground, held at reset.
        first_boot: Input::new(button, Pull::Up).is_low().then(FirstBoot::confirmed_by_owner),
        delay: Delay,
        // A Cortex-M0+ has no cycle counter, so this is microseconds of the chip's timer times the megahertz of its
        // clock.
        clock: || (Instant::now().as_micros() as u32).wrapping_mul(embassy_rp::clocks::clk_sys_freq() / 1_000_000),
    };
    match train(board, |report| defmt::info!("{}", report)).await {
        Ok(params) => defmt::info!("budget spent; the first parameters: {}", params.first_chunk::<4>()),
        Err(failure) => defmt::error!("{}", failure),
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let p = embassy_rp::init(embassy_rp::config::Config::default());
    if let Ok(task) = training(p.FLASH, p.DMA_CH0, p.PIN_15) {
        spawner.spawn(task);
    }
    // The product's own work, here a light.
    let mut light = Output::new(p.PIN_25, Level::Low);
    loop {
        light.toggle();
        Timer::after_millis(250).await;
    }
}
