//! Plays a run that a host recorded, read over semihosting: `qemu TARGET IMAGE FILE`.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;
use damper_firmware_cortex_m::exit;
use damper_firmware_hosted::HostedFile;
use damper_firmware_program::replay;
use damper_replay::Memory;

/// Parameters of the largest network that it can play.
const DIM: usize = 650;
/// Vectors of floats besides sums: parameters, a gradient, and the state of filter and optimizer. The Cortex-M0, the
/// only part without atomic exchange, has 16 KB of RAM and no room for filter and optimizer state.
const VECTORS: usize = if cfg!(target_has_atomic = "32") { 8 } else { 2 };
/// Entries of sums of i64, and of f32. The Cortex-M0 has no room for either.
const WIDE: usize = if VECTORS > 2 { DIM } else { 0 };
/// Buffers of correlated noise.
const NOISE: usize = 2 * WIDE;

#[cortex_m_rt::entry]
fn main() -> ! {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; VECTORS * DIM], [SumWord::ZERO; DIM], [SumWord::ZERO; WIDE], [SumWord::ZERO; WIDE]);
    let (float_sums, noise) = (&mut float_sums[..], &mut [NoiseWord::ZERO; NOISE]);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
    exit(match HostedFile::named() {
        Ok(mut file) => replay::recorded(&mut file, memory, |line| hprintln!("{}", line)),
        Err(fault) => {
            hprintln!("{}", fault);
            false
        }
    })
}
