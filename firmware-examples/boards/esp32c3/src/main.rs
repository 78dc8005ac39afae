//! Program for an ESP32-C3 (RV32IMC): the light blinks, and training continues in the background.
#![no_std]
#![no_main]

use core::cell::RefCell;
use damper_core::prelude::*;
use damper_firmware_background::{Board, FirstBoot, train};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_time::{Delay, Timer};
use esp_backtrace as _;
use esp_hal::gpio::{Input, InputConfig, Level, Output, OutputConfig};
use esp_hal::peripherals::{ADC1, FLASH, GPIO9, RNG};
use esp_hal::rng::{Trng, TrngSource};
use esp_hal::timer::timg::TimerGroup;
use esp_storage::FlashStorage;

esp_bootloader_esp_idf::esp_app_desc!();

/// Start of journal and snapshots: the partition `damper` of `partitions.csv`.
const REGION: u32 = 0x3f_0000;

/// Reads the counter of cycles. The chip has no `mcycle`, but its own counter at 0x7e2. 0x7e0 makes it count cycles and
/// 0x7e1 turns it on.
fn cycles() -> u32 {
    let cycles;
    // SAFETY: only reads the counter.
    unsafe { core::arch::asm!("csrr {}, 0x7e2", out(reg) cycles, options(nomem, nostack)) };
    cycles
}

#[embassy_executor::task]
async fn training(flash: FLASH<'static>, rng: RNG<'static>, adc: ADC1<'static>, button: GPIO9<'static>) {
    // SAFETY: no other code uses the counter.
    unsafe { core::arch::asm!("csrw 0x7e0, {one}", "csrw 0x7e1, {one}", one = in(reg) 1, options(nomem, nostack)) };
    // Without the noise of the converter, or of the radio, the generator's numbers are not random.
    let source = TrngSource::new(rng, adc);
    let key = Key::fresh(|bytes| Trng::try_new().map(|generator| generator.read(bytes)));
    drop(source);
    let Ok(key) = key else {
        defmt::error!("the random generator is dead, or has no source of noise");
        return;
    };
    let board = Board {
        flash: &RefCell::new(FlashStorage::new(flash)),
        from: REGION,
        noise: &NoiseRng::from_key(key),
        // BOOT, held after the reset. Held during the reset, it would choose the loader.
        first_boot: Input::new(button, InputConfig::default()).is_low().then(FirstBoot::confirmed_by_owner),
        delay: Delay,
        clock: cycles,
    };
    match train(board, |report| defmt::info!("{}", report)).await {
        Ok(params) => defmt::info!("budget spent; the first parameters: {}", params.first_chunk::<4>()),
        Err(failure) => defmt::error!("{}", failure),
    }
}

#[esp_rtos::main]
async fn main(spawner: Spawner) {
    let p = esp_hal::init(esp_hal::Config::default());
    esp_rtos::start(TimerGroup::new(p.TIMG0).timer0, p.FROM_CPU_INTR0);
    Timer::after_millis(500).await;
    if let Ok(task) = training(p.FLASH, p.RNG, p.ADC1, p.GPIO9) {
        spawner.spawn(task);
    }
    // The product's own work, here a light.
    let mut light = Output::new(p.GPIO8, Level::Low, OutputConfig::default());
    loop {
        light.toggle();
        Timer::after_millis(250).await;
    }
}
