//! `damper-candidates products` compares damper's product with those of other crates at the shapes of the shipped
//! networks. `damper-candidates noise` compares its discrete Gaussian with OpenDP's and with a float Gaussian on the
//! same ChaCha20.

mod noise;
mod products;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("products") => products::compare(),
        Some("noise") => noise::compare(),
        _ => {
            eprintln!("usage: damper-candidates products|noise");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
