//! One private step, part by part, at the size of the MNIST CNN (26,010 parameters).

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use damper_core::accounting::{Ledger, Rate};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::{Grid, Word};
use damper_core::noise::{ChaCha20, ContinuousGaussian, DiscreteGaussian, Generator, Xoshiro};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::Mechanism;
use damper_core::sampling::{poisson, poisson_part};
use damper_core::schedule::Constant;
use damper_core::step::{NoisePart, PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use std::thread;

const DIM: usize = 26_010;

type Step<M> = PrivateStep<Identity, Sgd, M>;
type State<W> = StepState<Vec<W>, (), SgdState<Vec<f32>>>;

fn momentum<M: Mechanism<NoiseState = ()>>(mechanism: M) -> (Step<M>, State<M::Word>) {
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch: 256,
    })
    .unwrap();
    let state = StepState::new(vec![M::Word::default(); DIM], (), SgdState { momentum: vec![0.0; DIM] }, ());
    (step, state)
}

fn exact<W: Word>() -> DiscreteGaussian<W> {
    DiscreteGaussian::with_multiplier(Grid::new(20).unwrap(), 1.0).unwrap()
}

/// Times clip, round to the grid, check the bound and add, per coordinate of one sample.
fn add<M: Mechanism<NoiseState = ()>>(c: &mut Criterion, name: &str, mechanism: M) {
    let (step, mut state) = momentum(mechanism);
    let grad: Vec<f32> = (0..DIM).map(|i| ((i * 7919) % 1000) as f32 / 1e4 - 0.05).collect();
    let mut ledger = Ledger::volatile(1);
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    let mut group = c.benchmark_group("clip and accumulate");
    group.throughput(Throughput::Elements(DIM as u64));
    group.bench_function(name, |b| b.iter(|| open.add_combined(&[&grad[..1000], &grad[1000..]]).unwrap()));
}

/// Times noise, release and momentum, per coordinate of one step.
fn finish<M: Mechanism<NoiseState = ()>, G: Generator>(c: &mut Criterion, name: &str, mechanism: M, generator: &G) {
    let (step, mut state) = momentum(mechanism);
    let mut ledger = Ledger::volatile(1 << 31);
    let mut group = c.benchmark_group("release");
    group.throughput(Throughput::Elements(DIM as u64));
    group.bench_function(name, |b| {
        b.iter_batched(
            || vec![0f32; DIM],
            |mut params| {
                let open = step.open(&mut state, &mut ledger).unwrap();
                open.finish(&mut params, generator).unwrap();
            },
            BatchSize::SmallInput,
        )
    });
}

/// Times the parts of a step outside the graph, on one worker and on two: the draw from MNIST's samples, and noise and
/// update of `dim` parameters.
fn outside(c: &mut Criterion, name: &str, dim: usize) {
    let generator = ChaCha20::<16>::simulation(1);
    for threads in [1, 2] {
        let (step, _) = momentum(exact::<i64>());
        let mut state = StepState::new(vec![Default::default(); dim], (), SgdState { momentum: vec![0.0; dim] }, ());
        let (mut ledger, mut params) = (Ledger::volatile(1 << 31), vec![0f32; dim]);
        let mut group = c.benchmark_group(format!("outside the graph, {name}, {threads} workers"));
        group.bench_function("noise and update", |b| {
            b.iter(|| {
                let open = step.open(&mut state, &mut ledger).unwrap();
                let draw = |parts: &mut [NoisePart<'_, _, ChaCha20<16>>]| {
                    thread::scope(|scope| {
                        let (own, others) = parts.split_first_mut().unwrap();
                        others.iter_mut().for_each(|part| drop(scope.spawn(|| part.draw())));
                        own.draw();
                    });
                };
                open.finish_on(&mut params, &generator, threads, draw).unwrap();
            });
        });
        let (rate, border) = (Rate::of(256, 60_000).unwrap(), 60_000 / threads as u32);
        group.bench_function("Poisson draw from 60,000", |b| {
            b.iter(|| {
                let part = |range| poisson_part(&generator, 3, rate, range).collect::<Vec<u32>>();
                thread::scope(|scope| {
                    let other = (threads > 1).then(|| scope.spawn(|| part(border..60_000)));
                    let own = part(0..border);
                    own.len() + other.map_or(0, |other| other.join().unwrap().len())
                })
            });
        });
    }
}

fn benches(c: &mut Criterion) {
    outside(c, "MNIST CNN", DIM);
    outside(c, "CIFAR CNN", 550_570);
    add(c, "exact, i32", exact::<i32>());
    add(c, "exact, i64", exact::<i64>());
    add(c, "float", ContinuousGaussian::new(1.0).unwrap());
    finish(c, "exact, ChaCha20", exact::<i64>(), &ChaCha20::<1>::simulation(1));
    finish(c, "exact, xoshiro128++", exact::<i64>(), &Xoshiro::simulation(1));
    finish(c, "float, ChaCha20", ContinuousGaussian::new(1.0).unwrap(), &ChaCha20::<1>::simulation(1));

    let rate = Rate::of(512, 60_000).unwrap();
    let mut group = c.benchmark_group("sampling");
    group.throughput(Throughput::Elements(60_000));
    group.bench_function("Poisson draw from 60,000", |b| {
        b.iter(|| poisson(&ChaCha20::<1>::simulation(1), 3, rate, 60_000).count())
    });
}

criterion_group!(step, benches);
criterion_main!(step);
