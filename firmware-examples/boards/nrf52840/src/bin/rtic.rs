//! Training as an RTIC task of the lowest priority. The others interrupt it within a sample.
#![no_std]
#![no_main]

#[rtic::app(device = embassy_nrf, peripherals = false, dispatchers = [EGU0_SWI0, EGU1_SWI1])]
mod app {
    use damper_board_nrf52840::{Chip, run};
    use embassy_nrf::gpio::{Level, Output, OutputDrive};
    use embassy_time::Timer;

    #[shared]
    struct Shared {}

    #[local]
    struct Local {}

    #[init]
    fn init(cx: init::Context) -> (Shared, Local) {
        let p = embassy_nrf::init(embassy_nrf::config::Config::default());
        let (dcb, dwt) = (cx.core.DCB, cx.core.DWT);
        let _ = training::spawn(Chip { nvmc: p.NVMC, rng: p.RNG, button: p.P0_11, dcb, dwt });
        let _ = light::spawn(Output::new(p.P0_13, Level::Low, OutputDrive::Standard));
        (Shared {}, Local {})
    }

    #[task(priority = 1)]
    async fn training(_: training::Context, chip: Chip) {
        run(chip).await;
    }

    /// The product's own work, here a light.
    #[task(priority = 2)]
    async fn light(_: light::Context, mut light: Output<'static>) {
        loop {
            light.toggle();
            Timer::after_millis(250).await;
        }
    }
}
