//! `ctc`: connectionist temporal classification (Graves et al., 2006). The loss is the negative log-probability that
//! the outputs at T positions give the sample's labels. Repeats are merged first, and then blanks are removed. Class 0
//! is the blank.
//!
//! The states `s` are the labels `l` between blanks, `b l₁ b l₂ … b`. `E_t(s)` is the log-probability of state `s` at
//! position `t`. Then:
//!
//! - `α_t(s) = E_t(s) + ln Σ exp α_{t−1}(s′)` over `s′` in `s`, `s − 1` and, between different labels, `s − 2`.
//! - `β_t(s)` is the same from the end, without `E_t(s)`.
//! - `ln Z = ln Σ exp α_{T−1}(s)` over the last label and the last blank, and the loss is `−ln Z`.
//! - The gradient of the logits is `p − γ` with `γ_t(c) = Σ exp(α_t(s) + β_t(s) − ln Z)` over the states of class `c`.
//!
//! Values far below every logarithm represent ln 0, so that nothing is infinite. Labels that do not fit into T
//! positions have no loss and no gradient. The mean is over the labels, as in PyTorch. The graph has about twenty nodes
//! per position.

use super::head::Head;
use super::labels::labels;
use super::probabilities::Probabilities;
use super::sums::divisor;
use crate::custom::Exponentials;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::options::{DeriveOptions, LossReduction};
use damper_onnx::graph::{DType, Tensor, TensorData};

/// Logarithm of 0.
const NEVER: f64 = -1e30;
/// Upper bound of empty sums.
const NONE: f64 = -1e29;
/// Maximum number of output positions.
const MOST_PLACES: usize = 1024;

/// Emits the loss `[N]`, the labels int64 `[N, T]` padded with −100 or 0, and the gradient.
pub fn emit(
    em: &mut Emitter,
    z: &Head,
    name: &str,
    options: &DeriveOptions,
) -> Result<(Var, Option<Var>, Var), DeriveError> {
    let &[_, places, classes] = &z.var.shape[..] else {
        return Err(DeriveError::new(
            format!("output {name}"),
            "it is not `[N, T, K]`, the logits of K classes at T places",
            "name the output that has them with `output`",
        ));
    };
    if places > MOST_PLACES {
        return Err(DeriveError::new(
            format!("output {name}"),
            format!("it has {places} places, and at most {MOST_PLACES} are unrolled"),
            "cut the samples into shorter pieces",
        ));
    }
    let labels = labels(DType::I64, &[places]);
    let states = States::new(em, &labels, classes, z.var.dtype);
    let Probabilities { probability, log_probability } = Probabilities::new(em, &z.var, 2);
    let classes_first = em.transpose(&states.one_hot, &[0, 2, 1]);
    let of_states = em.matmul(&log_probability, &classes_first);
    let of_states = em.add(&of_states, &states.absent);
    let at: Vec<Var> = (0..places).map(|place| em.slice(&of_states, &[(1, place, 1, 1)])).collect();

    let (alphas, betas) = (states.forward(em, &at), states.backward(em, &at));
    let ends = em.add(&alphas[places - 1], &states.not_last);
    let log_total = log_sum_of(em, &ends);
    let of_places: Vec<Var> = alphas
        .iter()
        .zip(&betas)
        .map(|(alpha, beta)| {
            let both = em.add(alpha, beta);
            let share = em.sub(&both, &log_total);
            em.unary("Exp", &share)
        })
        .collect();
    let share = em.concat(&of_places.iter().collect::<Vec<_>>(), 1);
    let occupied = em.matmul(&share, &states.one_hot);
    let difference = em.sub(&probability, &occupied);

    let (zero, none) = (em.scalar(z.var.dtype, 0.0), em.scalar(z.var.dtype, NONE));
    let fits = em.compare("Greater", &log_total, &none);
    let minus = em.unary("Neg", &log_total);
    let loss = em.choose(&fits, &minus, &zero);
    let grad = em.choose(&fits, &difference, &zero);
    let (loss, grad) = match options.reduction {
        LossReduction::Sum => (loss, grad),
        LossReduction::Mean => {
            let count = divisor(em, &states.counted);
            (em.div(&loss, &count), em.div(&grad, &count))
        }
    };
    Ok((em.per_sample(&loss, &[]), Some(labels), grad))
}

/// States of each sample, S = 2T + 1.
struct States {
    /// One-hot class of each state, `[N, S, K]`. An absent state has zeros.
    one_hot: Var,
    /// [`NEVER`] for states that the labels do not have: `[N, 1, S]`.
    absent: Var,
    /// [`NEVER`] for states that cannot follow the state two positions before: `[N, 1, S]`.
    no_skip: Var,
    /// [`NEVER`] for states that are not the last label or blank: `[N, 1, S]`.
    not_last: Var,
    /// 1 for each label: `[N, T, 1]`.
    counted: Var,
    count: usize,
}

impl States {
    fn new(em: &mut Emitter, labels: &Var, classes: usize, dtype: DType) -> Self {
        let places = labels.shape[1];
        let count = 2 * places + 1;
        let (one, zero) = (em.scalar(dtype, 1.0), em.scalar(dtype, 0.0));
        let blank = em.constant(Tensor { shape: vec![], data: TensorData::I64(vec![0]) });
        let each = em.per_sample(labels, &[places, 1]);
        let is_label = em.compare("Greater", &each, &blank);
        let counted = em.choose(&is_label, &one, &zero);

        let numbers = em.ints(&(0..classes as i64).collect::<Vec<_>>());
        let is_class = em.compare("Equal", &each, &numbers);
        let class = em.choose(&is_class, &one, &zero);
        // Labels of 0 or below have no class here.
        let class = em.mul(&class, &counted);
        let nothing = em.scale(&class, 0.0);
        let first = em.floats(dtype, &[classes], (0..classes).map(|class| f64::from(u8::from(class == 0))));
        let blanks = em.add(&nothing, &first);
        let pairs = interleaved(em, &class, &blanks);
        let start = em.slice(&blanks, &[(1, 0, 1, 1)]);
        let one_hot = em.concat(&[&start, &pairs], 1);

        let present = interleaved(em, &counted, &counted);
        let always = em.slice(&counted, &[(1, 0, 1, 1)]);
        let never = em.scale(&always, 0.0);
        let always = em.add(&never, &one);
        let present = em.concat(&[&always, &present], 1);
        let later = em.slice(&present, &[(1, 2, 1, count - 2)]);
        let later = em.pad(&later, &[(0, 0), (0, 2), (0, 0)], 0.0);
        let last = em.sub(&present, &later);

        let differs = if places > 1 {
            let before = em.slice(&each, &[(1, 0, 1, places - 1)]);
            let after = em.slice(&each, &[(1, 1, 1, places - 1)]);
            let is_same = em.compare("Equal", &before, &after);
            let differs = em.choose(&is_same, &zero, &one);
            em.pad(&differs, &[(0, 0), (1, 0), (0, 0)], 0.0)
        } else {
            em.scale(&counted, 0.0)
        };
        let nothing = em.scale(&counted, 0.0);
        let skips = interleaved(em, &differs, &nothing);
        let skips = em.concat(&[&never, &skips], 1);
        let penalty = |em: &mut Emitter, allowed: &Var| {
            let row = em.per_sample(allowed, &[1, count]);
            let less = em.sub(&row, &one);
            em.scale(&less, -NEVER)
        };
        let (absent, no_skip, not_last) = (penalty(em, &present), penalty(em, &skips), penalty(em, &last));
        Self { one_hot, absent, no_skip, not_last, counted, count }
    }

    /// `α` at each position, `[N, 1, S]` each.
    fn forward(&self, em: &mut Emitter, at: &[Var]) -> Vec<Var> {
        // A text begins with a blank or its first label.
        let begins = (0..self.count).map(|state| if state < 2 { 0.0 } else { NEVER });
        let begins = em.floats(at[0].dtype, &[self.count], begins);
        let mut alphas = vec![em.add(&at[0], &begins)];
        for of_states in &at[1..] {
            let last = alphas[alphas.len() - 1].clone();
            let one = self.moved(em, &last, 1);
            let two = self.moved(em, &last, 2);
            let two = em.add(&two, &self.no_skip);
            let sum = log_sum_of_three(em, [&last, &one, &two]);
            alphas.push(em.add(&sum, of_states));
        }
        alphas
    }

    /// `β` at each position.
    fn backward(&self, em: &mut Emitter, at: &[Var]) -> Vec<Var> {
        let mut betas = vec![self.not_last.clone()];
        for of_states in at[1..].iter().rev() {
            let next = em.add(&betas[betas.len() - 1], of_states);
            let one = self.moved_back(em, &next, 1);
            let skipped = em.add(&next, &self.no_skip);
            let two = self.moved_back(em, &skipped, 2);
            betas.push(log_sum_of_three(em, [&next, &one, &two]));
        }
        betas.reverse();
        betas
    }

    /// Shifts each state's value by `by` states to later states.
    fn moved(&self, em: &mut Emitter, x: &Var, by: usize) -> Var {
        let kept = em.slice(x, &[(2, 0, 1, self.count - by)]);
        em.pad(&kept, &[(0, 0), (0, 0), (by, 0)], NEVER)
    }

    /// Shifts each state's value by `by` states to earlier states.
    fn moved_back(&self, em: &mut Emitter, x: &Var, by: usize) -> Var {
        let kept = em.slice(x, &[(2, by, 1, self.count - by)]);
        em.pad(&kept, &[(0, 0), (0, 0), (0, by)], NEVER)
    }
}

/// Interleaves `[N, T, K]` and `[N, T, K]` to `[N, 2T, K]`.
fn interleaved(em: &mut Emitter, odd: &Var, even: &Var) -> Var {
    let (places, width) = (odd.shape[1], odd.shape[2]);
    let rows = [odd, even].map(|x| em.per_sample(x, &[places, 1, width]));
    let pairs = em.concat(&[&rows[0], &rows[1]], 2);
    em.per_sample(&pairs, &[2 * places, width])
}

/// `ln (exp a + exp b + exp c)`.
fn log_sum_of_three(em: &mut Emitter, terms: [&Var; 3]) -> Var {
    let most = em.binary("Max", terms[0], terms[1]);
    let most = em.binary("Max", &most, terms[2]);
    let [a, b, c] = terms.map(|term| {
        let less = em.sub(term, &most);
        em.unary("Exp", &less)
    });
    let sum = em.add(&a, &b);
    let sum = em.add(&sum, &c);
    let log = em.log(&sum);
    em.add(&most, &log)
}

/// `ln Σ exp x` over the last axis, which keeps extent 1.
fn log_sum_of(em: &mut Emitter, x: &Var) -> Var {
    let last = x.rank() - 1;
    let exponentials = Exponentials::new(em, x, &[last]);
    let log = em.log(&exponentials.sum);
    em.add(&exponentials.top, &log)
}
