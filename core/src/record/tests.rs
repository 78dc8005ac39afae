use super::*;
use crate::clip::{AnyRule, Automatic};
use crate::filter::{self, Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead};
use crate::filter::{PerSampleMomentum, PerSampleMomentumState};
use crate::numerics::digest::Digested;
use crate::optimizer::{
    self, AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Optimizer,
    RmsProp, RmsPropState, Sgd, SgdState,
};
use crate::schedule::{Decay, NoiseSchedule};
use crate::threshold::{
    self, Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState,
};
use crate::threshold::{Quantile, QuantileState, Solver, Threshold};
use std::vec;
use std::vec::Vec;

impl RecordSink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

const DIM: usize = 3;

/// Unread bytes of a recording.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let (next, rest) = self.0.split_first_chunk().expect("a number more than was written");
        self.0 = rest;
        *next
    }
}

#[derive(PartialEq, Debug)]
enum Error {
    Config(ConfigError),
    Wrong(&'static str),
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl RecordSource for Bytes<'_> {
    type Vector = Vec<f32>;
    type Error = Error;

    fn u8(&mut self) -> u8 {
        self.next::<1>()[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }

    fn f32(&mut self) -> f32 {
        f32::from_le_bytes(self.next())
    }

    fn f64(&mut self) -> f64 {
        f64::from_le_bytes(self.next())
    }

    fn f32s(&mut self, out: &mut [f32]) {
        out.fill_with(|| self.f32());
    }

    fn wrong(what: &'static str) -> Error {
        Error::Wrong(what)
    }

    fn dim(&self) -> usize {
        DIM
    }

    fn zeros(&mut self, len: usize) -> Result<Vec<f32>, Error> {
        Ok(vec![0.0; len])
    }
}

impl optimizer::Take<'static> for Bytes<'_> {
    type Taken = usize;

    fn take<M: Optimizer<S> + Digested<S>, S: SaveState>(self, method: M, state: S) -> Result<usize, Error> {
        assert_eq!(method.check(&state, DIM), Ok(()));
        Ok(self.0.len())
    }
}

impl filter::Take<'static> for Bytes<'_> {
    type Taken = usize;

    fn take<M: Filter<S> + Digested<S>, S: SaveState>(self, method: M, state: S) -> Result<usize, Error> {
        assert_eq!(method.check(&state, DIM), Ok(()));
        Ok(self.0.len())
    }
}

impl threshold::Take<'static> for Bytes<'_> {
    type Taken = usize;

    fn take<M: Threshold<State = S>, S: SaveState>(self, _method: M, _state: S) -> Result<usize, Error> {
        Ok(self.0.len())
    }
}

/// Writes a method and reads it back. Checks that its kind is equal and no byte is left.
fn back<M: FromRecord + ToRecord<M::State<Vec<f32>>>>(method: &M, state: &M::State<Vec<f32>>) -> M {
    let (mut bytes, kind) = (Vec::new(), method.kind(state).expect("recordings have it"));
    assert!(M::KINDS.contains(&kind));
    method.write(state, &mut bytes);
    let mut source = Bytes(&bytes);
    let (read, again) = M::read(kind, &mut source).expect("what was written is read");
    assert!(source.0.is_empty());
    assert_eq!(read.kind(&again), Some(kind));
    let mut twice = Vec::new();
    read.write(&again, &mut twice);
    assert_eq!(twice, bytes);
    read
}

#[test]
fn optimizers_are_read_as_written() {
    let zeros = || vec![0.0; DIM];
    for (momentum, nesterov) in [(0.0, false), (0.9, false), (0.9, true)] {
        let sgd = Sgd::new(momentum, nesterov, 0.01).unwrap();
        assert_eq!(back(&sgd, &SgdState { momentum: vec![0.0; sgd.momentum_len(DIM)] }), sgd);
    }
    let adam = Adam::new(0.9, 0.999, 1e-8, 0.01).unwrap();
    for adam in [adam, adam.with_filtered_second_moment()] {
        assert_eq!(back(&adam, &AdamState::new(zeros(), zeros())), adam);
    }
    let adam = AdamBc::new(0.9, 0.999, 1e-6, 0.01).unwrap();
    for adam in [adam, adam.with_floor_by_noise()] {
        assert_eq!(back(&adam, &AdamBcState::new(zeros(), zeros())), adam);
    }
    let adagrad = AdaGrad::new(1e-10, 0.01).unwrap();
    assert_eq!(back(&adagrad, &AdaGradState { sum: zeros() }), adagrad);
    let rmsprop = RmsProp::new(0.99, 1e-8, 0.01).unwrap();
    assert_eq!(back(&rmsprop, &RmsPropState { second: zeros() }), rmsprop);
    let floored = adam_floored();
    assert_eq!(floored.kind(&AdamState::new(zeros(), zeros())), None);
}

fn adam_floored() -> Adam<optimizer::Floored> {
    Adam::new(0.9, 0.999, 1e-8, 0.01).unwrap().with_floored_denominator()
}

#[test]
fn norm_step_precedes_its_inner_optimizer() {
    let sgd = Sgd::new(0.0, false, 0.5).unwrap();
    for subtract in [false, true] {
        let norm = AdaGradNorm::new(2.0, 0.25, subtract, sgd).unwrap();
        let state = AdaGradNormState::new(SgdState { momentum: Vec::<f32>::new() });
        let mut bytes = Vec::new();
        assert_eq!(norm.kind(&state), Some(8 + u8::from(subtract)));
        norm.write(&state, &mut bytes);
        let expected =
            [&2f64.to_le_bytes()[..], &0.25f64.to_le_bytes(), &[0], &0f32.to_le_bytes(), &0.5f32.to_le_bytes()];
        assert_eq!(bytes, expected.concat());
    }
    let over = AdaGradNorm::new(2.0, 0.25, false, adam_floored()).unwrap();
    assert_eq!(over.kind(&AdaGradNormState::new(AdamState::new([0.0; DIM], [0.0; DIM]))), None);
}

#[test]
fn filters_are_read_as_written() {
    back(&Identity, &());
    let iir = |a: &[f32], b: &[f32]| Iir::<8>::new(a, b).unwrap();
    let filters =
        [iir(&[-0.9], &[0.1]), iir(&[], &[0.5, 0.25, 0.25]), iir(&[-0.5, 0.1, 0.0], &[0.5, 0.0]), iir(&[], &[1.0])];
    for filter in filters {
        let state = || IirState::new(vec![0.0; filter.order() * DIM]);
        assert_eq!(back(&filter, &state()), filter);
        for momentum in [
            PerSampleMomentum::<_, 8>::new(3, 0.1, filter.clone()).unwrap(),
            PerSampleMomentum::unnormalised(1, -0.5, filter.clone()).unwrap(),
        ] {
            let past = vec![0.0; momentum.iterates_len(DIM)];
            assert_eq!(back(&momentum, &PerSampleMomentumState::new(past, state())), momentum);
        }
    }
    for gain in [Gain::Constant(0.7), Gain::Recursion { noise: 1.0, drift: 0.25, process: 0.5 }] {
        for look_ahead in [LookAhead::One, LookAhead::Two { gamma: -0.5 }] {
            let kalman = Kalman::new(gain, look_ahead).unwrap();
            assert_eq!(back(&kalman, &KalmanState::new(&kalman, vec![0.0; DIM], vec![0.0; DIM])), kalman);
        }
    }
}

#[test]
fn thresholds_are_read_as_written() {
    assert_eq!(back(&Fixed(0.5), &()), Fixed(0.5));
    let (noise, clips) = (CountNoise::new(5.3).unwrap(), Bounds::new(0.01, 10.0).unwrap());
    let rule = Percentile::<20>::new(0.4, noise).unwrap().within(clips);
    assert_eq!(back(&rule, &PercentileState::new(0.5, 3.0).unwrap()), rule);
    for solver in [Solver::PaperGrid, Solver::Exact] {
        let rule = ExpectedError::<20>::new(solver, noise).unwrap().within(clips, Bounds::new(0.1, 20.0).unwrap());
        assert_eq!(back(&rule, &ExpectedErrorState::new(0.5, 3.0).unwrap()), rule);
    }
    let rule = Quantile::new(0.5, 0.2, 6.4).unwrap().within(clips);
    assert_eq!(back(&rule, &QuantileState::new(0.5).unwrap()), rule);
}

/// Reads back the bytes from `write`.
fn again<T>(write: impl FnOnce(&mut Vec<u8>), read: impl FnOnce(&mut Bytes<'_>) -> Result<T, Error>) -> T {
    let mut bytes = Vec::new();
    write(&mut bytes);
    let mut source = Bytes(&bytes);
    let read = read(&mut source).unwrap();
    assert!(source.0.is_empty());
    read
}

#[test]
fn schedules_and_clips_are_read_as_written() {
    for decay in [
        Decay::Constant,
        Decay::Step { every: 7, factor: 0.5 },
        Decay::Cosine { steps: 100, floor: 0.1 },
        Decay::Polynomial { offset: 20.0, slope: 1.0 },
        Decay::RootLinear { steps: 50, floor: 0.0 },
    ] {
        assert_eq!(again(|bytes| decay.write(bytes), |source| Decay::read(source)), decay);
    }
    for noise in [
        NoiseSchedule::Constant,
        NoiseSchedule::Matched { exponent: 0.5 },
        NoiseSchedule::Polynomial { growth: 0.1, exponent: 0.5 },
    ] {
        assert_eq!(again(|bytes| noise.write(bytes), |source| NoiseSchedule::read(source)), noise);
    }
    for rule in [AnyRule::Flat, AnyRule::Automatic(Automatic::new(0.01).unwrap())] {
        assert_eq!(again(|bytes| rule.write(bytes), |source| AnyRule::read(source)), rule);
    }
    assert_eq!(Decay::read(&mut Bytes(&[5])), Err(Error::Wrong("kind of learning rate")));
    assert_eq!(NoiseSchedule::read(&mut Bytes(&[3])), Err(Error::Wrong("kind of noise schedule")));
    assert_eq!(AnyRule::read(&mut Bytes(&[2])), Err(Error::Wrong("kind of clipping")));
}

#[test]
fn wrong_fields_are_errors() {
    let no_gain = [2; 9];
    assert_eq!(Kalman::read(4, &mut Bytes(&no_gain)).unwrap_err(), Error::Wrong("kind of gain"));
    let no_points: Vec<u8> = [&[0][..], &0.7f64.to_le_bytes(), &[0]].concat();
    assert_eq!(Kalman::read(4, &mut Bytes(&no_points)).unwrap_err(), Error::Wrong("points of a filter"));
    for (na, nb) in [(9, 1), (0, 10), (255, 255)] {
        let read = Iir::<8>::read(1, &mut Bytes(&[na, nb]));
        assert_eq!(read.unwrap_err(), Error::Wrong("order of a filter"));
    }
}

/// Every slot has unique kinds. Each kind can be read, and no other.
#[test]
fn kinds_are_unique() {
    for (kinds, read) in [
        (optimizer::KINDS, (|kind| optimizer::read(kind, Bytes(&[0; 64]))) as fn(u8) -> Result<Option<usize>, Error>),
        (filter::KINDS, |kind| filter::read::<8, _>(kind, Bytes(&[0; 64]))),
        (threshold::KINDS, |kind| threshold::read(kind, Bytes(&[0; 64]))),
    ] {
        let mut all: Vec<u8> = kinds.concat();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        for kind in 0..=u8::MAX {
            assert_eq!(read(kind) == Ok(None), !all.contains(&kind), "{kind}");
        }
    }
}
