//! Plants faults in the kernels. The comparisons of the other tests must detect each of them.

use super::sums::cases;
use super::{NEED, noise, updates, wiping};
use crate::{CudaDevice, DeviceError, EmulatedDevice, emulated_source};
use damper_core::noise::ChaCha20;
use std::sync::Arc;

/// Device whose kernels have `after` instead of `before`. `None` without a C++ compiler.
fn faulty(before: &str, after: &str) -> Option<Arc<dyn CudaDevice>> {
    let source = emulated_source();
    assert_eq!(source.matches(before).count(), 1, "{before}");
    match EmulatedDevice::of_source(&source.replace(before, after)) {
        Ok(device) => Some(Arc::new(device)),
        Err(DeviceError::NoDevice(why)) => {
            damper_testing::skip(NEED, why);
            None
        }
        Err(error) => panic!("{before}: {error}"),
    }
}

#[test]
fn faults_of_the_sum_are_seen() {
    let cases = cases(150, 1500);
    for (before, after) in [
        // Wrong lane, fold, block and precision.
        ("(lane - piece.at) % LANES", "lane"),
        ("add(l[0], l[4]), add(l[2], l[6])", "add(l[0], l[2]), add(l[4], l[6])"),
        ("low = add(low, add(", "low = add(0.0f, add("),
        // Rounding, the limit of a coordinate, and the sign.
        ("(i32)truncate(size", "(i32)std::nearbyint(size"),
        ("size > units ? units : size", "size"),
        ("bits_of(x) >> 31 ? -magnitude", "grad < 0.0f ? magnitude"),
        // Samples that are absent or have no norm.
        ("present[row] ? norm", "true ? norm"),
        ("is_finite(whole) && is_finite(scale)", "is_finite(scale)"),
        // The bound, and the correction of rows above it.
        ("state.squares > units * units", "state.squares >= units * units"),
        ("squares += (u64)((i64)q * q)", "squares += (u64)((i64)q * (q - 1))"),
        ("takes_out ? rounded(grads[e], before, units) : 0", "0"),
        ("sub(1.0f, state.shrink)", "sub(1.0f, mul(state.shrink, 2.0f))"),
        ("state.shrink = mul(state.shrink, 2.0f)", "state.shrink = mul(state.shrink, 1.5f)"),
        // Automatic clipping, and the threshold.
        ("add(norm, gamma)", "norm"),
        ("norm > segment.threshold ? norm", "norm < segment.threshold ? norm"),
    ] {
        let Some(device) = faulty(before, after) else { return };
        assert!(cases.iter().any(|case| case.check(&device).is_err()), "not seen: {after} for {before}");
    }
}

#[test]
fn faults_of_the_noise_are_seen() {
    let generator = ChaCha20::simulation(17);
    let sigma = (1 << 20) + 3;
    let opposite: Vec<i64> = noise::draws(sigma, 1 << 21, &generator).iter().map(|z| -z).collect();
    // Rare branches need all draws: some occur once in 350,000 draws.
    let [few, all] = [&opposite[..1 << 14], &opposite[..]];
    for (before, after, opposite) in [
        ("d = turned(d ^ a, 16)", "d = turned(d ^ a, 15)", few),
        ("words->place[0]++;", "words->place[0] += 16;", few),
        ("HEAD[i + half] <= head", "HEAD[i + half] < head", all),
        ("HEAD[i] == head ? cell_by_all_digits(head, words) : i", "i", all),
        ("multiply(number, TOTAL);", "", all),
        ("(u32)product < reject_below", "false", all),
        ("toss == 2 * i ? 2 : 1", "1", few),
        ("low >= shifted", "low < shifted", few),
        ("*step, (u32)chunk", "*step, 0", few),
        ("GRADIENT_NOISE, *step", "GRADIENT_NOISE, *step + 1", few),
    ] {
        let Some(device) = faulty(before, after) else { return };
        let released = noise::release(&device, opposite, sigma, &generator);
        assert!(released.iter().any(|x| *x != 0.0), "not seen: {after} for {before}");
    }
}

#[test]
fn a_sum_that_is_not_wiped_is_seen() {
    let Some(device) = faulty("sum[i] = 0;\n        released", "released") else { return };
    assert_eq!(wiping::check_drawn(&device), Err("sum"));
    // The host also wipes it.
    assert_eq!(wiping::check(&device), Ok(()));
}

#[test]
fn faults_of_updates_are_seen() {
    for (before, after) in [
        // Order of operations, and stored state.
        ("sub(mul(tap.b, grad), mul(tap.a, y))", "add(mul(tap.b, grad), mul(tap.a, y))"),
        ("memory[(k + 1) * dim + i]", "memory[k * dim + i]"),
        ("filtered[i] = saturated(mul(y, correction))", "filtered[i] = y"),
        ("add(mul(keep, x), mul(take, y))", "(float)((double)keep * x + (double)take * y)"),
        ("saturated(mul(x, x))", "mul(x, x)"),
        ("saturated(add(filtered[i], mul(decay, param)))", "add(filtered[i], mul(decay, param))"),
        ("nesterov ? saturated(add(grad, mul(momentum, m))) : m", "m"),
        ("add(mul(keep, kept[i]), mul(take, grad))", "add(mul(take, kept[i]), mul(keep, grad))"),
        ("is_after ? saturated(sub(params[i], moved[i]))", "is_after ? saturated(sub(moved[i], params[i]))"),
        ("add(params[i], mul(gamma, moved[i]))", "add(params[i], moved[i])"),
        ("left > epsilon ? left : epsilon", "left"),
        ("size > epsilon ? size : epsilon", "size"),
        ("second[i] = v;\n    float moment", "float moment"),
        ("div(mul(rate, direction), add(root(v), epsilon))", "mul(rate, div(direction, add(root(v), epsilon)))"),
        ("mul(share, apart)", "div(apart, div(1.0f, share))"),
    ] {
        let Some(device) = faulty(before, after) else { return };
        let check = std::panic::AssertUnwindSafe(|| updates::check(&device));
        assert!(std::panic::catch_unwind(check).is_err(), "not seen: {after} for {before}");
    }
}
