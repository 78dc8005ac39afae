//! Times draws at σ = 2²⁰ on one thread: damper's discrete Gaussian, OpenDP's discrete Gaussian, and a float Gaussian
//! by the ziggurat method on damper's ChaCha20.

use cpu_time::ThreadTime;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
use opendp::traits::samplers::sample_discrete_gaussian;
use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};
use std::hint::black_box;

const ROUNDS: u32 = 40;
const DRAWS: usize = 20_000;
/// Number of draws with OpenDP, whose draws take longer.
const FEWER_DRAWS: usize = 1_000;

/// Generator that counts the drawn words.
struct Counting<R>(R, u64);

impl<R: Rng> rand::TryRng for Counting<R> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.1 += 1;
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.1 += 2;
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

/// Prints nanoseconds a draw for each, the best of many measurements in turns.
pub fn compare() {
    let exact = DiscreteGaussian::<i64>::with_multiplier(Grid::new(20).expect("20 bits"), 1.0).expect("a multiplier");
    let generator = ChaCha20::<16>::simulation(1);
    let stream = |chunk| generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk });
    let names = [
        "damper, exact",
        "rand_distr, ziggurat, f64",
        "rand_distr, ziggurat, f32",
        "OpenDP, exact",
        "a word of ChaCha20",
    ];
    let mut least = [f64::MAX; 5];
    for round in 0..ROUNDS {
        let mut run = |index: usize, draws: usize, draw: &mut dyn FnMut(usize)| {
            let start = ThreadTime::now();
            draw(draws);
            least[index] = least[index].min(start.elapsed().as_secs_f64() / draws as f64);
        };
        let mut words = stream(round);
        run(0, DRAWS, &mut |draws| (0..draws).for_each(|_| _ = black_box(exact.sample(&mut words))));
        run(1, DRAWS, &mut |draws| {
            (0..draws).for_each(|_| _ = black_box::<f64>(StandardNormal.sample(&mut words)));
        });
        run(2, DRAWS, &mut |draws| {
            (0..draws).for_each(|_| _ = black_box::<f32>(StandardNormal.sample(&mut words)));
        });
        run(3, FEWER_DRAWS, &mut |draws| {
            (0..draws).for_each(|_| _ = black_box(sample_discrete_gaussian((1u32 << 20).into()).expect("entropy")));
        });
        run(4, DRAWS, &mut |draws| (0..draws).for_each(|_| _ = black_box(words.next_u32())));
    }
    let [damper, ziggurat, _, opendp, _] = least;
    println!("| sampler | ns a draw |\n| --- | ---: |");
    for (name, least) in names.iter().zip(least) {
        println!("| {name} | {:.1} |", least * 1e9);
    }
    let mut words = Counting(stream(ROUNDS), 0);
    (0..DRAWS).for_each(|_| _ = black_box(exact.sample(&mut words)));
    println!(
        "\n{:.1} × OpenDP, {:.1} × the ziggurat's time; {:.2} words a draw",
        opendp / damper,
        damper / ziggurat,
        words.1 as f64 / DRAWS as f64
    );
}
