//! Benchmarks of accounting: compositions, schedules, calibration.

use criterion::{Criterion, criterion_group, criterion_main};
use damper_accounting::{Accountant, DrawSchedule, NoiseFactors, Plan, calibrate, sampling_rate};
use damper_core::accounting::event::Rate;
use std::time::Duration;

const STEPS: u32 = 10_000;

type Factor = fn(u32) -> f64;

/// Noise schedules with different factors in all steps: slowly rising, polynomial, and that of step sizes linear in √t.
const SCHEDULES: [(&str, Factor); 3] = [
    ("rising", |t| 0.8 + f64::from(t) * 1e-5),
    ("polynomial", |t| 0.45 * (20.0 + f64::from(t)).powf(0.25)),
    ("endless", |t| 0.3 / (0.1 - (0.1 - 1e-10) * (f64::from(t) / f64::from(STEPS)).sqrt()).sqrt()),
];

fn rate(q: f64) -> Rate {
    sampling_rate(q).unwrap()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("10,000 equal steps");
    for (q, multiplier, delta) in [
        (0.004, 0.8, 1e-5),
        (0.01, 1.0, 1e-6),
        (1e-3, 0.5, 1e-6),
        (0.5, 20.0, 1e-10),
        (1e-5, 0.3, 1e-10),
        (0.1, 2.94, 1e-3),
    ] {
        let plan = Plan::constant(rate(q), multiplier, None, u64::from(STEPS)).unwrap();
        group.bench_function(format!("q {q}, multiplier {multiplier}, delta {delta:e}"), |b| {
            b.iter(|| plan.epsilon(Accountant::Pld, delta).unwrap());
        });
    }
    group.finish();

    let mut group = c.benchmark_group("10,000 different steps");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for (name, factor) in SCHEDULES {
        let plan = Plan::new(rate(0.005), (1..=STEPS).map(factor), None).unwrap();
        group.bench_function(name, |b| b.iter(|| plan.epsilon(Accountant::Pld, 1e-5).unwrap()));
    }
    group.finish();

    let mut group = c.benchmark_group("calibration to epsilon 2");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("10,000 equal steps", |b| {
        b.iter(|| calibrate(Accountant::Pld, 2.0, 1e-5, rate(0.005), u64::from(STEPS)).unwrap());
    });
    for (name, factor) in SCHEDULES {
        let factors: Vec<f64> = (1..=STEPS).map(factor).collect();
        let schedule = DrawSchedule {
            accountant: Accountant::Pld,
            rate: rate(0.005),
            factors: NoiseFactors::Each(&factors),
            joint: None,
            release: None,
        };
        group.bench_function(name, |b| b.iter(|| schedule.calibrate(2.0, 1e-5).unwrap()));
    }
    group.finish();
}

criterion_group!(accounting, benches);
criterion_main!(accounting);
