//! Class weights, label smoothing and the focal loss: factors for a label's loss and its gradient.
//!
//! Softmax cross-entropy with log-probabilities `ln p` and the target `t`, `t_c = w_c·((1 − α)·[c = label] + α/K)`:
//! `ℓ = −Σ t_c·ln p_c` ⇒ `dz = p·Σt − t`. Focal loss with p and w of the label: `ℓ = −w·(1 − p)^γ·ln p` ⇒
//! `dz = a·([c = label] − p_c)`, `a = w·(γ·p·(1 − p)^(γ−1)·ln p − (1 − p)^γ)`.
//!
//! Binary cross-entropy with labels `t` from 0 to 1 weights its two parts, like PyTorch's `pos_weight`:
//! `ℓ = w₁·t·l₁ + w₀·(1 − t)·l₀` with `l₁ = −ln σ(z)`, `l₀ = −ln(1 − σ(z))` ⇒ `dz = w₁·t·(σ − 1) + w₀·(1 − t)·σ`. Its
//! focal form is torchvision's `sigmoid_focal_loss`, in which the weight `w₀ + t·(w₁ − w₀)` multiplies the whole loss.

use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::options::{DeriveOptions, LabelWeights, Loss};

/// Fails for settings that the loss does not support.
pub fn check(options: &DeriveOptions) -> Result<(), DeriveError> {
    let LabelWeights { class_weights, label_smoothing, focal_gamma } = &options.label_weights;
    let refuse = |setting: &str, reason: &str, remedy: &str| Err(DeriveError::of_setting(setting, reason, remedy));
    let of_classes = options.loss.is_of_classes();
    let of_labels = of_classes || options.loss == Loss::BceWithLogits;
    let (weights, smoothing, focal) = ("class_weights", "label_smoothing", "focal_gamma");
    if !class_weights.is_empty() && !of_labels {
        return refuse(weights, "the loss has no classes", "use it with softmax-cross-entropy or bce-with-logits");
    }
    if !class_weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) {
        return refuse(weights, "a weight is negative or not finite", "give weights of 0 or above");
    }
    if !(0.0..1.0).contains(label_smoothing) {
        return refuse(smoothing, "a share of each label", "give a number from 0 to below 1");
    }
    if *label_smoothing > 0.0 && !of_classes {
        return refuse(
            smoothing,
            "the loss has no classes to share a label among",
            "use it with softmax-cross-entropy",
        );
    }
    if *focal_gamma != 0.0 && !of_labels {
        return refuse(
            focal,
            "the loss has no probability of a label",
            "use it with softmax-cross-entropy or bce-with-logits",
        );
    }
    if *focal_gamma != 0.0 && !(1.0..=64.0).contains(focal_gamma) {
        return refuse(focal, "the gradient needs an exponent from 1 to 64", "give one such as 2, or 0 for none");
    }
    if *focal_gamma != 0.0 && *label_smoothing > 0.0 {
        return refuse(focal, "it weighs one label, and smoothing shares it among all", "leave one of them out");
    }
    Ok(())
}

/// Row of logits with the classes last: `[N, K]` or `[N, T, K]`.
pub struct LogitRows<'a> {
    /// `ln p`.
    pub log_probability: &'a Var,
    /// `p`.
    pub probability: &'a Var,
    /// True if the class is the label.
    pub is_label: &'a Var,
    /// True if the token is not counted.
    pub is_ignored: &'a Var,
}

/// Emits `−ℓ` in terms to be summed over a sample, and `dz`. Ignored tokens are not yet masked in `dz`.
pub fn emit(
    em: &mut Emitter,
    rows: &LogitRows<'_>,
    weights: &LabelWeights,
    classes: usize,
) -> Result<(Var, Var), DeriveError> {
    let given = &weights.class_weights;
    if !given.is_empty() && given.len() != classes {
        let reason = format!("it has {} weights, and the output {classes} classes", given.len());
        return Err(DeriveError::of_setting("class_weights", reason, "give one weight for each class"));
    }
    let weight = |class: usize| given.get(class).map_or(1.0, |weight| f64::from(*weight));
    let dtype = rows.probability.dtype;
    let last = rows.probability.rank() - 1;
    let zero = em.scalar(dtype, 0.0);
    if weights.focal_gamma == 0.0 {
        let share = f64::from(weights.label_smoothing);
        let off = |class: usize| weight(class) * share / classes as f64;
        let on = em.floats(dtype, &[classes], (0..classes).map(|class| weight(class) * (1.0 - share) + off(class)));
        let off = em.floats(dtype, &[classes], (0..classes).map(off));
        let target = em.choose(rows.is_label, &on, &off);
        let sum = em.reduce_sum(&target, &[last], true);
        let each = em.mul(&target, rows.log_probability);
        // Non-finite values in other classes, or in tokens that are not counted, do not spread.
        let each = if share == 0.0 {
            em.choose(rows.is_label, &each, &zero)
        } else {
            em.choose(rows.is_ignored, &zero, &each)
        };
        let expected = em.mul(rows.probability, &sum);
        let difference = em.sub(&expected, &target);
        return Ok((each, difference));
    }
    let of_label = |em: &mut Emitter, x: &Var| {
        let picked = em.choose(rows.is_label, x, &zero);
        em.reduce_sum(&picked, &[last], true)
    };
    let p = of_label(em, rows.probability);
    let log = of_label(em, rows.log_probability);
    let all = em.floats(dtype, &[classes], (0..classes).map(weight));
    let w = of_label(em, &all);
    let (less, more) = powers(em, &p, weights.focal_gamma);
    let weighted = em.mul(&w, &more);
    let each = em.mul(&weighted, &log);
    let slope = em.mul(&p, &less);
    let slope = em.mul(&slope, &log);
    let slope = em.scale(&slope, f64::from(weights.focal_gamma));
    let slope = em.sub(&slope, &more);
    let slope = em.mul(&w, &slope);
    let one = em.scalar(dtype, 1.0);
    let hot = em.choose(rows.is_label, &one, &zero);
    let rest = em.sub(&hot, rows.probability);
    let difference = em.mul(&slope, &rest);
    Ok((each, difference))
}

/// `(1 − p)^(γ−1)` and `(1 − p)^γ`.
fn powers(em: &mut Emitter, p: &Var, gamma: f32) -> (Var, Var) {
    let one = em.scalar(p.dtype, 1.0);
    let rest = em.sub(&one, p);
    // Rounding may leave p above 1.
    let rest = em.unary("Relu", &rest);
    let exponent = em.scalar(p.dtype, f64::from(gamma) - 1.0);
    let less = em.binary("Pow", &rest, &exponent);
    let more = em.mul(&less, &rest);
    (less, more)
}

/// Intermediate values of binary cross-entropy with logits `z`.
pub struct Signs<'a> {
    /// Logits.
    pub z: &'a Var,
    /// `max(z, 0)`.
    pub hinge: &'a Var,
    /// `ln(1 + exp(−|z|))`.
    pub soft: &'a Var,
    /// `σ(z)`.
    pub probability: &'a Var,
    /// `t`, from 0 to 1.
    pub labels: &'a Var,
}

/// Emits the weighted loss of each element and its gradient `dz`.
pub fn of_signs(em: &mut Emitter, of: &Signs<'_>, weights: &LabelWeights) -> Result<(Var, Var), DeriveError> {
    let pair = match weights.class_weights[..] {
        [] => None,
        [of_zero, of_one] => Some((f64::from(of_zero), f64::from(of_one))),
        _ => {
            return Err(DeriveError::of_setting(
                "class_weights",
                "bce-with-logits has labels of 0 and 1",
                "give two weights, of the label 0 and of the label 1",
            ));
        }
    };
    match pair {
        Some(pair) if weights.focal_gamma == 0.0 => Ok(halves(em, of, pair)),
        _ => {
            let plain = plain(em, of);
            if weights.focal_gamma == 0.0 {
                return Ok(plain);
            }
            let (each, difference) = focal(em, plain, of, weights.focal_gamma);
            let Some((of_zero, of_one)) = pair else { return Ok((each, difference)) };
            let base = em.scalar(each.dtype, of_zero);
            let change = em.scale(of.labels, of_one - of_zero);
            let weight = em.add(&base, &change);
            Ok((em.mul(&each, &weight), em.mul(&difference, &weight)))
        }
    }
}

/// `max(z, 0) − z·t + ln(1 + exp(−|z|))` and `σ − t`.
fn plain(em: &mut Emitter, of: &Signs<'_>) -> (Var, Var) {
    let product = em.mul(of.z, of.labels);
    let linear = em.sub(of.hinge, &product);
    (em.add(&linear, of.soft), em.sub(of.probability, of.labels))
}

/// `w₁·t·l₁ + w₀·(1 − t)·l₀` and `w₁·t·(σ − 1) + w₀·(1 − t)·σ`.
fn halves(em: &mut Emitter, of: &Signs<'_>, (of_zero, of_one): (f64, f64)) -> (Var, Var) {
    let one = em.scalar(of.z.dtype, 1.0);
    let rest = em.sub(&one, of.labels);
    let (share_one, share_zero) = (em.scale(of.labels, of_one), em.scale(&rest, of_zero));
    // In this order nothing cancels: one of `max(z, 0) − z` and `max(z, 0)` is exactly 0.
    let linear = em.sub(of.hinge, of.z);
    let (one_loss, zero_loss) = (em.add(&linear, of.soft), em.add(of.hinge, of.soft));
    let less = em.sub(of.probability, &one);
    let mut mixed = |one: &Var, zero: &Var| {
        let (one, zero) = (em.mul(&share_one, one), em.mul(&share_zero, zero));
        em.add(&one, &zero)
    };
    (mixed(&one_loss, &zero_loss), mixed(&less, of.probability))
}

/// Multiplies the loss `each` and its gradient by the focal factor. With the label's probability
/// `p = t·σ + (1 − t)·(1 − σ)`: `ℓ·(1 − p)^γ ⇒ dz·(1 − p)^γ − γ·ℓ·(1 − p)^(γ−1)·σ·(1 − σ)·(2t − 1)`.
fn focal(em: &mut Emitter, (each, difference): (Var, Var), of: &Signs<'_>, gamma: f32) -> (Var, Var) {
    let (probability, labels) = (of.probability, of.labels);
    let one = em.scalar(each.dtype, 1.0);
    let other = em.sub(&one, probability);
    let twice = em.scale(labels, 2.0);
    let sign = em.sub(&twice, &one);
    // t·σ + (1 − t)·(1 − σ) = (1 − σ) + t·(2σ − 1)
    let slope = em.sub(probability, &other);
    let toward = em.mul(labels, &slope);
    let p = em.add(&other, &toward);
    let (less, more) = powers(em, &p, gamma);
    let variance = em.mul(probability, &other);
    let moved = em.mul(&variance, &sign);
    let moved = em.mul(&moved, &less);
    let moved = em.mul(&moved, &each);
    let moved = em.scale(&moved, f64::from(gamma));
    let held = em.mul(&difference, &more);
    (em.mul(&each, &more), em.sub(&held, &moved))
}
