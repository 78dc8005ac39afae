//! Plays a run that a host recorded, read over semihosting: `qemu IMAGE FILE`.
#![no_std]
#![no_main]

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;
use damper_firmware_hosted::HostedFile;
use damper_firmware_program::replay;
use damper_firmware_riscv::exit;
use damper_replay::Memory;
use semihosting::println;

/// Parameters of the largest network that it can play.
const DIM: usize = 650;
/// Vectors of floats besides sums: parameters, a gradient, and the state of filter and optimizer.
const VECTORS: usize = 8;
/// Buffers of correlated noise.
const NOISE: usize = 2 * DIM;

#[riscv_rt::entry]
fn main() -> ! {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; VECTORS * DIM], [SumWord::ZERO; DIM], [SumWord::ZERO; DIM], [SumWord::ZERO; DIM]);
    let (float_sums, noise) = (&mut float_sums[..], &mut [NoiseWord::ZERO; NOISE]);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
    exit(match HostedFile::named() {
        Ok(mut file) => replay::recorded(&mut file, memory, |line| println!("{line}")),
        Err(fault) => {
            println!("{fault}");
            false
        }
    })
}
