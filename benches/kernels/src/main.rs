//! Times or lists kernels, or calls one of them for valgrind and QEMU (`misses.py`).
//!
//! `damper-kernels time [PART...]` times the kernels whose names, or those of their networks, contain a part.
//! `damper-kernels list [PART...]` lists them. `damper-kernels count NAME [CALLS]` calls one kernel.

use cpu_time::ThreadTime;
use damper_kernel_benches::{TimedKernel, kernels};
use pulp::{Arch, Simd, WithSimd};
use std::hint::black_box;
use std::process::ExitCode;

/// Least time of a measurement, in seconds, and the number of measurements. They alternate, so that a busy neighbour
/// affects all kernels.
const SPAN: f64 = 2e-3;
const ROUNDS: usize = 40;

/// Region that valgrind counts, by this name.
#[inline(never)]
fn measured(call: &mut dyn FnMut()) {
    call();
}

/// Fused multiply-adds in vector registers, with enough of them in parallel to hide their latency.
struct Peak;

const ABREAST: usize = 12;
const REPEATS: usize = 200_000;

impl WithSimd for Peak {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let factor = simd.splat_f32s(black_box(0.5));
        let mut sums = [simd.splat_f32s(black_box(1.0)); ABREAST];
        let start = ThreadTime::now();
        for _ in 0..REPEATS {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, factor, factor);
            }
        }
        black_box(sums);
        (REPEATS * ABREAST * S::F32_LANES) as f64 / start.elapsed().as_secs_f64()
    }
}

fn time(chosen: &[(TimedKernel, Vec<&str>)]) {
    let mut peak = 0.0f64;
    let mut calls: Vec<_> = chosen.iter().map(|(kernel, _)| (kernel.prepare(), 1u32, f64::MAX)).collect();
    for round in 0..ROUNDS {
        peak = peak.max(Arch::new().dispatch(Peak));
        for (call, repeats, least) in &mut calls {
            let start = ThreadTime::now();
            for _ in 0..*repeats {
                call();
            }
            let took = start.elapsed().as_secs_f64();
            if round > 0 {
                *least = least.min(took / f64::from(*repeats));
            }
            if took < SPAN {
                *repeats = (*repeats * 2).max((f64::from(*repeats) * SPAN / took.max(1e-7)) as u32);
            }
        }
    }
    println!("multiply-adds in registers: {:.1} GFLOP/s\n", 2.0 * peak / 1e9);
    println!("| kernel | networks | µs | GFLOP/s | of peak |\n| --- | --- | --- | --- | --- |");
    for ((kernel, networks), (_, _, least)) in chosen.iter().zip(&calls) {
        let products = kernel.products() as f64 / least;
        let percent = 100.0 * products / peak;
        println!(
            "| {kernel} | {} | {:.1} | {:.1} | {percent:.0} % |",
            networks.join(", "),
            least * 1e6,
            2.0 * products / 1e9
        );
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next();
    let parts: Vec<String> = arguments.collect();
    let is_chosen = |kernel: &TimedKernel, networks: &[&str]| {
        let named = format!("{kernel} of {}", networks.join(", "));
        parts.is_empty() || parts.iter().any(|part| named.contains(part.as_str()))
    };
    let chosen: Vec<_> = kernels().into_iter().filter(|(kernel, networks)| is_chosen(kernel, networks)).collect();
    match (what.as_deref(), &chosen[..]) {
        (_, []) => {
            eprintln!("no kernel has such a name");
            return ExitCode::FAILURE;
        }
        (Some("time"), chosen) => time(chosen),
        (Some("list"), chosen) => {
            for (kernel, networks) in chosen {
                println!("{kernel}\t{}", networks.join(", "));
            }
        }
        (Some("count"), chosen) => {
            let (name, calls) =
                (parts.first().map_or("", String::as_str), parts.get(1).map_or(Ok(1), |calls| calls.parse::<u32>()));
            let (Some((kernel, _)), Ok(calls)) = (chosen.iter().find(|(kernel, _)| kernel.to_string() == name), calls)
            else {
                eprintln!("`count` takes one kernel, by its whole name, and a number of calls");
                return ExitCode::FAILURE;
            };
            let mut call = kernel.prepare();
            call();
            // The first call fills the caches.
            (0..calls).for_each(|_| measured(&mut *call));
        }
        _ => {
            eprintln!("usage: damper-kernels time|list [PART OF A NAME...], damper-kernels count NAME [CALLS]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
