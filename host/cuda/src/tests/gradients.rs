//! Gradients of samples: ordinary gradients, and gradients that break a careless sum.

use damper_testing::Random;

/// Number of kinds of gradients.
pub(super) const KINDS: usize = 12;

/// Gradient of a kind.
pub(super) fn gradient(kind: usize, dim: usize, random: &mut Random) -> Vec<f32> {
    let scale = [1.0, 1e-3, 30.0][random.below(3)];
    let mut grad: Vec<f32> = (0..dim).map(|_| random.signed() * scale).collect();
    let place = random.below(dim.max(1));
    let mut put = |x: f32| grad.iter_mut().skip(place).take(1).for_each(|g| *g = x);
    match kind {
        0 => put(f32::NAN),
        1 => put(f32::NEG_INFINITY),
        // Its square exceeds f32.
        2 => put(1e30),
        // Its square is a finite f32.
        3 => put(-1e18),
        // Squares underflow, and the norm is 0 or nearly 0.
        4 => grad.iter_mut().for_each(|g| *g = *g / scale * 3e-23),
        5 => grad.iter_mut().for_each(|g| *g = f32::from_bits(g.to_bits() & 0x807f_ffff)),
        6 => grad.fill(scale),
        7 => grad.fill(0.0),
        // Equal magnitudes with rounded squares.
        8 => grad.iter_mut().for_each(|g| *g = scale.copysign(*g)),
        9 => grad.iter_mut().for_each(|g| *g *= 10f32.powi(random.below(8) as i32 - 6)),
        // A single non-zero coordinate far above a small threshold, while the norm underflows.
        10 => grad.iter_mut().enumerate().for_each(|(i, g)| *g = if i == place { 2e-23 } else { 0.0 }),
        _ => {}
    }
    grad
}
