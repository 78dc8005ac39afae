//! Reimplementation of the rules from released counts alone, by the Numerics sections of their documentation.

use super::*;
use damper_core::numerics::function::exp_f64;

fn clamp(x: f64) -> f32 {
    (x as f32).clamp(1e-8, 1e8)
}

fn sum(x: impl Iterator<Item = f64>) -> f64 {
    x.fold(0.0, |sum, x| sum + x)
}

fn middle(i: usize, range: f64) -> f64 {
    (i as f64 + 0.5) * range / 20.0
}

fn after_percentile(h: &[f64], (clip, range): (f32, f32), _: StepConstants) -> (f32, f32) {
    let all = sum(h.iter().copied());
    if all <= 0.0 {
        return (clip, range);
    }
    let goal = 0.3 * all;
    let bin = (0..20).find(|i| sum(h[..=*i].iter().copied()) >= goal).unwrap();
    let clip = clamp(middle(bin, f64::from(range)));
    (clip, 2.0 * clip)
}

fn next_range(h: &[f64], all: f64, range: f32) -> f32 {
    let right = sum(h[10..].iter().copied());
    let factor = match (h[19] >= 0.5 * all, right <= all / 20.0) {
        (true, _) => 2.0,
        (false, true) => 0.5,
        (false, false) => 1.0,
    };
    clamp(f64::from(range) * factor)
}

fn variance(constants: StepConstants) -> f64 {
    let batch = f64::from(constants.expected_batch);
    constants.multiplier * constants.multiplier * constants.dim as f64 / (batch * batch)
}

fn after_by_grid(h: &[f64], (clip, range): (f32, f32), constants: StepConstants) -> (f32, f32) {
    let all = sum(h.iter().copied());
    if all <= 0.0 {
        return (clip, range);
    }
    let m = |i| middle(i, f64::from(range));
    let error = |c: f64| {
        let bias = sum((0..20).filter(|i| m(*i) - c > 0.0).map(|i| h[i] * ((m(i) - c) * (m(i) - c))));
        variance(constants) * (c * c) + bias / all
    };
    let after = next_range(h, all, range);
    let mut c = f64::from(clip);
    if sum((0..20).map(|i| h[i] * m(i))) > 0.0 {
        for _ in 0..60 {
            let mut best = 1;
            for j in 2..=20 {
                if error(f64::from(j) * c / 10.0) < error(f64::from(best) * c / 10.0) {
                    best = j;
                }
            }
            c = f64::from(best) * c / 10.0;
            if best != 1 && best != 20 {
                return (clamp(c), after);
            }
        }
    }
    (clip, after)
}

fn after_exact(h: &[f64], (clip, range): (f32, f32), constants: StepConstants) -> (f32, f32) {
    let all = sum(h.iter().copied());
    if all <= 0.0 {
        return (clip, range);
    }
    let m = |i| middle(i, f64::from(range));
    let positive = sum(h.iter().map(|h| h.max(0.0)));
    let (mut w, mut s) = (0.0, 0.0);
    for k in (0..20).rev() {
        w += h[k].max(0.0);
        s += h[k].max(0.0) * m(k);
        let c = s / (variance(constants) * positive + w);
        if k == 0 || c >= m(k - 1) {
            return (clamp(c.min(m(k))), next_range(h, all, range));
        }
    }
    unreachable!()
}

fn after_quantile(s: &[f64], (clip, range): (f32, f32), constants: StepConstants) -> (f32, f32) {
    let unclipped = 0.5 - s[0] / (2.0 * f64::from(constants.expected_batch));
    (clamp(f64::from(clip) * exp_f64(0.2 * (0.5 - unclipped))), range)
}

// The sequence of clipping thresholds follows from the released counts alone.
#[test]
fn clips_follow_from_released_counts() {
    type Again = fn(&[f64], (f32, f32), StepConstants) -> (f32, f32);
    fn check<T: Threshold>(rule: T, start: T::State, mut at: (f32, f32), again: Again) {
        let mut source = normal(2);
        // A decreasing scale, with occasional empty batches.
        let data: Vec<_> = (0..300)
            .map(|t| if t % 50 == 7 { vec![] } else { lognormal(3.0 * 0.97f64.powi(t), 0.5, &mut source) })
            .collect();
        let (clips, state) = run(rule, start, &data);
        for ((clip, counts), constants) in clips.iter().zip(&state.threshold.counts).zip(&state.threshold.constants) {
            assert_eq!(clip.to_bits(), at.0.to_bits());
            assert_eq!(*constants, StepConstants { multiplier: 1.25, dim: 1, expected_batch: 256 });
            at = again(counts, at, *constants);
        }
        assert_eq!(state.threshold.counts.len(), 300);
        assert!(clips.iter().collect::<Vec<_>>().windows(2).any(|c| c[0] != c[1]));
    }
    let (rule, start) = percentile(0.3);
    check(rule, start, (1.0, 1.0), after_percentile);
    let (rule, start) = expected_error(Solver::PaperGrid);
    check(rule, start, (1.0, 20.0), after_by_grid);
    let (rule, start) = expected_error(Solver::Exact);
    check(rule, start, (1.0, 20.0), after_exact);
    let (rule, start) = quantile(0.5, 256);
    check(rule, start, (1.0, 0.0), after_quantile);
}
