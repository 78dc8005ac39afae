//! Float sums of samples that are already clipped.

use super::*;

// A float sum releases the same as its clipped samples.
#[test]
fn float_sum_equals_clipped_samples() {
    let step = plain(ContinuousGaussian::new(1e-3).unwrap(), 1.0, 2);
    let generator = ChaCha20::<1>::simulation(7);
    let samples = vec![vec![3.0f32, 0.0, 4.0], vec![0.5, 0.0, 0.0]];
    let apart = release(&step, &samples, 3, &generator, 1);
    let (mut state, mut ledger) = (state::<SumWord<f32>>(3), Ledger::volatile(1));
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    let mut memory = [SumWord::ZERO; 3];
    let mut shard = open.shard(&mut memory).unwrap();
    // A non-finite sample has its norm in the list, and is not in the sum.
    let norms = [5.0, f32::NAN, 0.5];
    shard.add_float_sum(FloatSum { parts: &[&[1.1], &[0.0, 0.8]], bound: 1.0, norms: &norms }).unwrap();
    open.merge(shard).unwrap();
    let mut params = [0.0; 3];
    open.finish(&mut params, &generator).unwrap();
    for (param, apart) in params.iter().zip(apart) {
        assert!((-param - apart).abs() < 1e-6, "{params:?} {apart}");
    }
}

// A float sum may exceed its bound by rounding errors, up to a relative 1e-3.
#[test]
fn float_sum_has_rounding_tolerance() {
    let step = plain(ContinuousGaussian::new(1e-3).unwrap(), 2.0, 2);
    for (longer, accepted) in [(-1e-4, true), (0.0, true), (9e-4, true), (1.1e-3, false), (3e-3, false)] {
        let (mut state, mut ledger) = (state::<SumWord<f32>>(2), Ledger::volatile(1));
        let open = step.open(&mut state, &mut ledger).unwrap();
        let mut memory = [SumWord::ZERO; 2];
        let mut shard = open.shard(&mut memory).unwrap();
        let sum = FloatSum { parts: &[&[0.0], &[6.0 * (1.0 + longer)]], bound: 2.0, norms: &[9.0, 2.0, 3.0] };
        assert_eq!(shard.add_float_sum(sum).is_ok(), accepted, "{longer}");
    }
}

// An unclipped float sum is an error and adds nothing.
#[test]
fn unclipped_float_sum_is_error() {
    let step = plain(ContinuousGaussian::new(1e-3).unwrap(), 1.0, 2);
    let generator = ChaCha20::<1>::simulation(7);
    let empty = release(&step, &[], 2, &generator, 1);
    let (mut state, mut ledger) = (state::<SumWord<f32>>(2), Ledger::volatile(1));
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    let mut memory = [SumWord::ZERO; 2];
    let mut shard = open.shard(&mut memory).unwrap();
    let two = [1.0f32, 1.0];
    let bad: [FloatSum<'_>; 6] = [
        FloatSum { parts: &[&[2.1, 0.0]], bound: 1.0, norms: &two },
        FloatSum { parts: &[&[1.5, 0.0]], bound: 1.0, norms: &[1.0, f32::INFINITY] },
        FloatSum { parts: &[&[f32::NAN, 0.0]], bound: 1.0, norms: &two },
        FloatSum { parts: &[&[f32::INFINITY, 0.0]], bound: 1.0, norms: &two },
        FloatSum { parts: &[&[0.5, 0.0]], bound: 0.5, norms: &two },
        FloatSum { parts: &[&[0.5]], bound: 1.0, norms: &two },
    ];
    assert!(bad.into_iter().all(|sum| shard.add_float_sum(sum).is_err()));
    // The same if the bound is so large that no finite sum exceeds it.
    let step_of_a_huge_clip = plain(ContinuousGaussian::new(1e-3).unwrap(), 1e25, 2);
    let (mut other_state, mut other_ledger) = (self::state::<SumWord<f32>>(2), Ledger::volatile(1));
    let other = step_of_a_huge_clip.open(&mut other_state, &mut other_ledger).unwrap();
    let mut other_memory = [SumWord::ZERO; 2];
    let mut other_shard = other.shard(&mut other_memory).unwrap();
    for wrong in [f32::INFINITY, f32::NAN] {
        let sum = FloatSum { parts: &[&[wrong, 0.0]], bound: 1e25, norms: &two };
        assert!(other_shard.add_float_sum(sum).is_err());
    }
    drop(other_shard);
    open.merge(shard).unwrap();
    let mut params = [0.0; 2];
    open.finish(&mut params, &generator).unwrap();
    assert_eq!(bits(&params.map(|p| -p)), bits(&empty));
}
