//! Properties of GaLore, tested through whole private steps.

use super::*;
use crate::choice::FilterState;
use crate::{ByName, FilterChoice, OptimizerChoice, OptimizerRule};
use damper_core::accounting::{Ledger, Volatile};
use damper_core::clip::FlatL2;
use damper_core::noise::{ContinuousGaussian, Xoshiro};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::slots::FilterSlot;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use toml::{Table, toml};

const LR: f64 = 0.05;
/// The clip, far above any gradient here.
const CLIP: f32 = 100.0;

const fn form(rows: usize, columns: usize) -> MatrixShape {
    MatrixShape { rows, columns }
}

/// One tensor projected to rank 2 on the left, one on the right, and three that are not projected. With 143 values,
/// segments straddle tensors.
const FORMS: [MatrixShape; 5] = [form(6, 9), form(9, 6), form(5, 1), form(2, 12), form(1, 6)];

fn dim() -> usize {
    FORMS.iter().map(|form| form.rows * form.columns).sum()
}

fn settings(rank: usize, every: u32, scale: f32) -> LowRank {
    LowRank { rank: NonZeroUsize::new(rank).unwrap(), every: NonZeroU32::new(every).unwrap(), scale }
}

fn rule(name: &str, settings: Table) -> OptimizerRule {
    OptimizerRule::with(name, settings).unwrap()
}

fn rules() -> [OptimizerRule; 7] {
    [
        rule("sgd", Table::new()),
        rule("nesterov", toml! { weight_decay = 0.1 }),
        rule(
            "adam",
            toml! {
                betas = [0.9, 0.99]
                epsilon = 1e-6
            },
        ),
        rule(
            "adam",
            toml! {
                betas = [0.0, 0.99]
                epsilon = 1e-6
                weight_decay = 0.1
                second_moment = "filtered"
            },
        ),
        rule(
            "adam-bc",
            toml! {
                betas = [0.9, 0.99]
                floor = 1e-6
                weight_decay = 0.1
            },
        ),
        rule(
            "adagrad",
            toml! {
                epsilon = 1e-6
                weight_decay = 0.1
            },
        ),
        rule(
            "rmsprop",
            toml! {
                alpha = 0.9
                epsilon = 1e-6
                weight_decay = 0.1
            },
        ),
    ]
}

/// Records the inputs of the inner optimizer.
#[derive(Clone, Copy)]
struct Recorder<O>(O);

struct Record<S> {
    filtered: Vec<Vec<f32>>,
    released: Vec<Vec<f32>>,
    inner: S,
}

impl<S, O: Optimizer<S>> Optimizer<Record<S>> for Recorder<O> {
    type Step = O::Step;

    fn check(&self, state: &Record<S>, dim: usize) -> Result<(), CallError> {
        self.0.check(&state.inner, dim)
    }

    fn begin(&self, state: &mut Record<S>, begin: Begin) -> O::Step {
        state.filtered.push(Vec::new());
        state.released.push(Vec::new());
        self.0.begin(&mut state.inner, begin)
    }

    fn update(
        &self,
        step: O::Step,
        state: &mut Record<S>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.filtered.last_mut().unwrap().extend_from_slice(filtered.grad());
        state.released.last_mut().unwrap().extend_from_slice(released.grad());
        self.0.update(step, &mut state.inner, at, params, filtered, released);
    }

    fn end(&self, step: O::Step, state: &mut Record<S>, params: &mut [f32]) {
        self.0.end(step, &mut state.inner, params);
    }
}

/// A run of private steps on given gradients.
struct Steps<O, S> {
    step: PrivateStep<FilterSlot, Recorder<O>, ContinuousGaussian>,
    state: StepState<Vec<SumWord<f32>>, FilterState, Record<S>, ()>,
    ledger: Ledger<Volatile>,
    params: Vec<f32>,
}

impl<S, O: Optimizer<S>> Steps<O, S> {
    fn new((optimizer, state): (O, S), filter: &FilterChoice, multiplier: f64) -> Self {
        let (filter, filter_state) = filter.build(dim()).unwrap();
        let slots = Slots {
            mechanism: ContinuousGaussian::new(multiplier).unwrap(),
            clip: FlatL2,
            threshold: Fixed(CLIP),
            filter,
            optimizer: Recorder(optimizer),
            schedule: Constant(LR),
            expected_batch: 1,
        };
        let optimizer = Record { filtered: Vec::new(), released: Vec::new(), inner: state };
        Self {
            step: PrivateStep::new(slots).unwrap(),
            state: StepState::new(vec![SumWord::ZERO; dim()], filter_state, optimizer, ()),
            ledger: Ledger::volatile(100),
            params: (0..dim()).map(|i| wave(i, 7)).collect(),
        }
    }

    fn step(&mut self, grad: &[f32]) {
        let mut open = self.step.open(&mut self.state, &mut self.ledger).unwrap();
        open.add_combined(&[grad]).unwrap();
        open.finish(&mut self.params, &Xoshiro::simulation(3)).unwrap();
    }
}

/// Returns values in [-1, 1] without a pattern.
fn wave(i: usize, seed: usize) -> f32 {
    ((i * i + 3 * i + 1) as f64 * (seed as f64 + 0.37)).sin() as f32
}

fn galore(rule: OptimizerRule, settings: LowRank) -> (GaLore, GaLoreState) {
    let choice = OptimizerChoice { galore: Some(settings), ..rule.into() };
    choice.build_galore(settings, &FORMS).unwrap()
}

fn projection(state: &GaLoreState, tensor: usize) -> &Projection {
    state.tensors[tensor].projection.as_ref().unwrap()
}

/// Computes `Pᵀ·G` or `G·P`, in f64.
fn coordinates(projection: &Projection, whole: &[f64]) -> Vec<f64> {
    let (rank, MatrixShape { rows, columns }) = (projection.rank.get(), projection.form);
    let p = |i: usize, j: usize| f64::from(projection.entries[i * rank + j]);
    let mut out = vec![0.0; rank * rows.max(columns)];
    for i in 0..rows {
        for c in 0..columns {
            for j in 0..rank {
                match projection.side {
                    Side::Left => out[j * columns + c] += p(i, j) * whole[i * columns + c],
                    Side::Right => out[i * rank + j] += p(c, j) * whole[i * columns + c],
                }
            }
        }
    }
    out
}

/// Computes `P·R` or `R·Pᵀ`, in f64.
fn matrix(projection: &Projection, coordinates: &[f64]) -> Vec<f64> {
    let (rank, MatrixShape { rows, columns }) = (projection.rank.get(), projection.form);
    let p = |i: usize, j: usize| f64::from(projection.entries[i * rank + j]);
    let mut out = vec![0.0; rows * columns];
    for i in 0..rows {
        for c in 0..columns {
            for j in 0..rank {
                out[i * columns + c] += match projection.side {
                    Side::Left => p(i, j) * coordinates[j * columns + c],
                    Side::Right => p(c, j) * coordinates[i * rank + j],
                };
            }
        }
    }
    out
}

fn widen(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

fn iir() -> FilterChoice {
    FilterChoice::of_name("doppler").unwrap()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*got) - expected).abs() < tolerance, "{i}: {got} {expected}");
    }
}

// If no matrix exceeds the rank, the bits of every optimizer stay the same.
#[test]
fn full_rank_keeps_optimizer_bits() {
    for rule in rules() {
        let plain = OptimizerChoice::from(rule);
        let projected = OptimizerChoice { galore: Some(settings(6, 2, 0.25)), ..plain };
        let mut runs = [plain, projected].map(|choice| Steps::new(choice.build(&FORMS).unwrap(), &iir(), 0.01));
        for step in 0..7 {
            for run in &mut runs {
                run.step(&(0..dim()).map(|i| wave(i, step)).collect::<Vec<_>>());
            }
            let bits = |run: &Steps<_, _>| run.params.iter().map(|param| param.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&runs[0]), bits(&runs[1]), "{rule:?}");
        }
    }
}

// Bases recomputed from the released gradients equal those of the run.
#[test]
fn bases_follow_from_released_gradients() {
    let mut run = Steps::new(galore(rules()[2], settings(2, 3, 1.0)), &iir(), 0.01);
    for step in 0..8 {
        run.step(&(0..dim()).map(|i| wave(i, step)).collect::<Vec<_>>());
        let renewed = &run.state.optimizer.released[step / 3 * 3];
        for (tensor, at) in [(0, 0), (1, 54)] {
            let projection = projection(&run.state.optimizer.inner, tensor);
            let again = subspace::leading(&renewed[at..at + 54], projection.form.columns, projection.side, 2);
            assert_eq!(projection.entries, again, "step {step}");
        }
    }
}

/// Check E4 of DOPPLER.
#[test]
fn filter_commutes_with_fixed_basis() {
    let mut run = Steps::new(galore(rules()[3], settings(2, u32::MAX, 1.0)), &iir(), 0.01);
    let (mut averages, mut response) = ([vec![0f64; 18], vec![0f64; 18]], 0f64);
    for step in 0..20 {
        run.step(&(0..dim()).map(|i| wave(i, step)).collect::<Vec<_>>());
        let record = &run.state.optimizer;
        response = 0.9 * response + 0.1;
        for (tensor, average) in averages.iter_mut().enumerate() {
            let projection = projection(&record.inner, tensor);
            let piece = |whole: &[f32]| widen(&whole[54 * tensor..54 * (tensor + 1)]);
            let projected = coordinates(projection, &piece(&record.released[step]));
            for (average, x) in average.iter_mut().zip(&projected) {
                *average = 0.9 * *average + 0.1 * x;
            }
            let filtered: Vec<f32> =
                coordinates(projection, &piece(&record.filtered[step])).iter().map(|x| *x as f32).collect();
            let expected: Vec<f64> = average.iter().map(|x| x / response).collect();
            assert_close(&filtered, &expected, 1e-5);
        }
    }
}

/// Gradients of rank 2 in one subspace with a changing leading direction. Each new basis is another basis of that
/// subspace. SGD is equal in all bases, so its steps must not change. The same holds for rotated moments.
#[test]
fn low_rank_gradients_match_plain_sgd() {
    let grad = |step: usize| -> Vec<f32> {
        let (a, b) = (3.0 * wave(step, 1), 3.0 * wave(step, 2));
        let mut grad = Vec::new();
        for (tensor, MatrixShape { rows, columns }) in FORMS.into_iter().enumerate() {
            for i in 0..rows {
                for c in 0..columns {
                    let one = wave(i, 10 + tensor) * wave(c, 20 + tensor);
                    let other = wave(i, 30 + tensor) * wave(c, 40 + tensor);
                    grad.push(a * one + b * other);
                }
            }
        }
        grad
    };
    for name in ["sgd", "momentum", "nesterov"] {
        let rule = rule(name, Table::new());
        let mut projected = Steps::new(galore(rule, settings(2, 3, 1.0)), &FilterChoice::default(), 1e-10);
        let plain = OptimizerChoice::from(rule);
        let mut plain = Steps::new(plain.build(&FORMS).unwrap(), &FilterChoice::default(), 1e-10);
        let before = plain.params.clone();
        for step in 0..20 {
            projected.step(&grad(step));
            plain.step(&grad(step));
            assert_close(&projected.params, &widen(&plain.params), 2e-5);
        }
        let moved = before.iter().zip(&plain.params).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(moved > 0.1, "{moved}");
    }
}

/// Adam with decoupled decay, in f64. Moments are in coordinates, the second from the unfiltered gradient, and the step
/// is lifted and scaled.
#[test]
fn steps_follow_the_formula_in_f64() {
    let (beta1, beta2, epsilon, decay, scale) = (0.5f64, 0.9f64, 1e-3f64, 0.2f64, 0.25f64);
    let rule = rule(
        "adam",
        toml! {
            betas = [beta1, beta2]
            epsilon = epsilon
            weight_decay = decay
        },
    );
    let mut run = Steps::new(galore(rule, settings(2, u32::MAX, scale as f32)), &iir(), 0.01);
    let mut theta = widen(&run.params[..108]);
    let mut moments = [(vec![0f64; 18], vec![0f64; 18]), (vec![0f64; 18], vec![0f64; 18])];
    for step in 0..10 {
        run.step(&(0..dim()).map(|i| wave(i, step)).collect::<Vec<_>>());
        let record = &run.state.optimizer;
        let (correct1, correct2) = (1.0 - beta1.powi(step as i32 + 1), 1.0 - beta2.powi(step as i32 + 1));
        for (tensor, (m, v)) in moments.iter_mut().enumerate() {
            let projection = projection(&record.inner, tensor);
            let piece = |whole: &[f32]| widen(&whole[54 * tensor..54 * (tensor + 1)]);
            let filtered = coordinates(projection, &piece(&record.filtered[step]));
            let released = coordinates(projection, &piece(&record.released[step]));
            let mut direction = Vec::new();
            for (((m, v), filtered), released) in m.iter_mut().zip(v).zip(filtered).zip(released) {
                *m = beta1 * *m + (1.0 - beta1) * filtered;
                *v = beta2 * *v + (1.0 - beta2) * released * released;
                direction.push(-LR * *m / correct1 / ((*v / correct2).sqrt() + epsilon));
            }
            let whole = matrix(projection, &direction);
            for (theta, direction) in theta[54 * tensor..].iter_mut().zip(whole) {
                *theta = *theta * (1.0 - LR * decay) + scale * direction;
            }
        }
        assert_close(&run.params[..108], &theta, 1e-5);
    }
}

#[test]
fn an_l2_penalty_acts_within_the_directions() {
    let decay = 0.5f64;
    let rule = rule("sgd", toml! { weight_decay = decay });
    let mut run = Steps::new(galore(rule, settings(2, 2, 1.0)), &FilterChoice::default(), 0.01);
    let mut theta = widen(&run.params[..108]);
    for step in 0..6 {
        run.step(&(0..dim()).map(|i| wave(i, step)).collect::<Vec<_>>());
        let record = &run.state.optimizer;
        for tensor in 0..2 {
            let projection = projection(&record.inner, tensor);
            let theta = &mut theta[54 * tensor..54 * (tensor + 1)];
            let grad = widen(&record.released[step][54 * tensor..54 * (tensor + 1)]);
            let penalised: Vec<f64> = grad.iter().zip(&*theta).map(|(g, theta)| g + decay * theta).collect();
            let whole = matrix(projection, &coordinates(projection, &penalised));
            theta.iter_mut().zip(whole).for_each(|(theta, direction)| *theta -= LR * direction);
        }
        assert_close(&run.params[..108], &theta, 1e-5);
    }
}

// The state has rank times the longer side for a projected tensor, and full size for the others.
#[test]
fn optimizer_state_has_projected_size() {
    let settings = settings(2, 1, 1.0);
    assert_eq!(FORMS.map(|form| settings.projects(form)), [true, true, false, false, false]);
    let (_, mut state) = galore(rules()[2], settings);
    assert_eq!(state.inner.first_moments().len(), 18 + 18 + 5 + 24 + 6);
}

#[test]
fn a_zero_gradient_moves_nothing() {
    for rule in [rules()[0], rules()[2]] {
        // The gradients have only the minimum noise, 2e-36 per coordinate.
        let mut run = Steps::new(galore(rule, settings(2, 1, 1.0)), &FilterChoice::default(), 2e-38);
        let before = run.params.clone();
        for _ in 0..3 {
            run.step(&vec![0.0; dim()]);
        }
        assert_eq!(run.params, before, "{rule:?}");
    }
}

#[test]
fn invalid_scale_is_error() {
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-45] {
        let choice = OptimizerChoice { galore: Some(settings(2, 1, scale)), ..rules()[0].into() };
        assert!(choice.build(&FORMS).is_err());
    }
}
