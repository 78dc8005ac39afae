//! Whole private steps with streamed gradients release the bits of stored gradients.

use damper_core::accounting::Ledger;
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::error::CallError;
use damper_core::filter::{Identity, mix};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Segments, Slots, StepState};
use damper_core::threshold::{Quantile, QuantileState};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const DIM: usize = 12;

type Step<C> = PrivateStep<Identity, Sgd, DiscreteGaussian<i32>, Quantile, C>;
type State = StepState<[SumWord<i32>; DIM], (), SgdState<[f32; DIM]>, QuantileState>;

fn step<C: Clip>(clip: C) -> Step<C> {
    PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
        clip,
        threshold: Quantile::new(0.5, 0.2, 1.0).unwrap(),
        filter: Identity,
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch: 4,
    })
    .unwrap()
}

fn state() -> State {
    StepState::new([SumWord::ZERO; DIM], (), SgdState { momentum: [0.0; DIM] }, QuantileState::new(1.0).unwrap())
}

/// The way in which samples reach a step.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Stored,
    Streamed,
    Shards,
}

/// The bits of the parameters after two steps, and of the clip that follows from their counts.
fn trained<C: Clip>(clip: C, samples: &[Vec<f32>], cut: usize, way: Way) -> (Vec<u32>, u32) {
    let (step, mut state, mut ledger) = (step(clip), state(), Ledger::volatile(2));
    let (mut params, generator) = ([0.5f32; DIM], ChaCha20::<1>::simulation(3));
    while let Some(mut open) = step.begin(&mut state, &mut ledger).unwrap() {
        let produce = |sample: &[f32], segments: &mut Segments<'_>| {
            sample.chunks(cut).for_each(|segment| segments.push(segment));
        };
        match way {
            Way::Stored => samples.iter().for_each(|sample| open.add(sample).unwrap()),
            Way::Streamed => {
                samples.iter().for_each(|sample| open.add_streamed(|to| produce(sample, to)).unwrap());
            }
            Way::Shards => {
                for sample in samples {
                    let mut words = [SumWord::ZERO; DIM];
                    let mut shard = open.shard(&mut words).unwrap();
                    shard.add_combined_streamed(|to| produce(sample, to)).unwrap();
                    open.merge(shard).unwrap();
                }
            }
        }
        open.finish(&mut params, &generator).unwrap();
    }
    (params.iter().map(|x| x.to_bits()).collect(), state.threshold.clip().to_bits())
}

proptest! {
    // Parameters and learned clips agree for every clip rule, also with non-finite samples.
    #[test]
    fn streamed_steps_release_stored_bits(
        samples in prop::collection::vec(prop::collection::vec(
            prop_oneof![50 => -3f32..3.0, 1 => Just(f32::NAN), 1 => Just(f32::INFINITY)], DIM), 0..8),
        cut in 1usize..=DIM + 1,
    ) {
        let layers = [Layer::equal(5, 2), Layer::equal(DIM - 5, 2)];
        let layered = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
        let automatic = Automatic::new(0.01).unwrap();
        for way in [Way::Streamed, Way::Shards] {
            prop_assert_eq!(trained(FlatL2, &samples, cut, way), trained(FlatL2, &samples, cut, Way::Stored));
            prop_assert_eq!(trained(automatic, &samples, cut, way), trained(automatic, &samples, cut, Way::Stored));
            prop_assert_eq!(trained(layered, &samples, cut, way), trained(layered, &samples, cut, Way::Stored));
        }
    }

    // Gradients that are combined in segments have the same bits as gradients that are combined whole.
    #[test]
    fn mixed_segments_release_stored_bits(grad in prop::collection::vec(-3f32..3.0, 2 * DIM), cut in 1usize..=DIM) {
        let points = [(0.75f32, &grad[..DIM]), (0.25, &grad[DIM..])];
        let mut whole = [0.0; DIM];
        points.iter().enumerate().for_each(|(index, (weight, grad))| mix(index, *weight, &[*grad], &mut whole));
        let released = [true, false].map(|streamed| {
            let (step, mut state, mut ledger, mut params) = (step(FlatL2), state(), Ledger::volatile(1), [0.0; DIM]);
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            if streamed {
                open.add_combined_streamed(|segments| {
                    for at in (0..DIM).step_by(cut) {
                        let mut segment = vec![0.0; cut.min(DIM - at)];
                        for (index, (weight, grad)) in points.iter().enumerate() {
                            mix(index, *weight, &[&grad[at..][..segment.len()]], &mut segment);
                        }
                        segments.push(&segment);
                    }
                }).unwrap();
            } else {
                open.add_combined(&[&whole]).unwrap();
            }
            open.finish(&mut params, &ChaCha20::<1>::simulation(3)).unwrap();
            params.map(f32::to_bits)
        });
        prop_assert_eq!(released[0], released[1]);
    }
}

// A wrong length at the start adds nothing, and the step continues.
#[test]
fn wrong_length_adds_nothing() {
    let (step, generator) = (step(FlatL2), ChaCha20::<1>::simulation(3));
    let released = [true, false].map(|wrong| {
        let (mut state, mut ledger, mut params) = (state(), Ledger::volatile(1), [0.0; DIM]);
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        for len in [0, DIM - 1, DIM + 1] {
            if wrong {
                let error = open.add_streamed(|segments| segments.push(&vec![1.0; len])).unwrap_err();
                assert_eq!(error, CallError::Length { what: "the streamed gradient", expected: DIM, got: len });
            }
        }
        open.add(&[1.0; DIM]).unwrap();
        open.finish(&mut params, &generator).unwrap();
        params.map(f32::to_bits)
    });
    assert_eq!(released[0], released[1]);
}

// If a producer changes its mind, the step releases nothing, and the charge stays.
#[test]
fn broken_step_releases_nothing() {
    let step = step(FlatL2);
    for panics in [false, true] {
        let (mut state, mut ledger, mut params) = (state(), Ledger::volatile(1), [7.0; DIM]);
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        open.add(&[0.1; DIM]).unwrap();
        let mut pass = 0;
        let added = catch_unwind(AssertUnwindSafe(|| {
            open.add_streamed(|segments| {
                pass += 1;
                assert!(pass < 3 || !panics, "on purpose");
                segments.push(&[if pass < 3 { 0.25 } else { 9.0 }; DIM]);
            })
        }));
        assert!(if panics { added.is_err() } else { added.unwrap() == Err(CallError::Broken) });
        assert_eq!(open.add_streamed(|segments| segments.push(&[0.1; DIM])), Err(CallError::Broken));
        assert_eq!(open.finish(&mut params, &ChaCha20::<1>::simulation(3)), Err(CallError::Broken));
        assert_eq!((params, ledger.charged_steps()), ([7.0; DIM], 1));
    }
}

#[test]
fn broken_shard_is_not_merged() {
    let (step, mut state, mut ledger) = (step(FlatL2), state(), Ledger::volatile(1));
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    let (mut words, mut pass) = ([SumWord::ZERO; DIM], 0);
    let mut shard = open.shard(&mut words).unwrap();
    let added = shard.add_combined_streamed(|segments| {
        pass += 1;
        segments.push(&[if pass < 3 { 0.25 } else { 9.0 }; DIM]);
    });
    assert_eq!(added, Err(CallError::Broken));
    assert_eq!(open.takes(&shard), Err(CallError::Broken));
    assert_eq!(open.merge(shard), Err(CallError::Broken));
}
