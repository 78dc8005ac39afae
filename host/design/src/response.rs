//! Responses of a filter to an impulse, a constant gradient, each frequency, and noise.

use super::{Coefficients, FilterError, largest_stable_step, noise_power, poles, variance_ratio};
use num_complex::Complex64;
use serde::Serialize;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Number of listed responses.
const SHOWN: usize = 16;
/// Steps for which the noise is listed.
const STEPS: [usize; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500];
/// Frequencies for which the gain is listed, in units of the Nyquist frequency.
const FREQUENCIES: [f64; 12] = [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0];
/// Values of `learning rate × curvature` for which the noise of the iterates is listed.
const LOOP: [f64; 5] = [0.01, 0.1, 0.5, 1.0, 1.5];
/// Maximum length of a computed response.
const LONGEST: f64 = 1e6;

/// A pole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pole {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
    /// Distance from 0. Below 1 is stable.
    pub modulus: f64,
}

/// A standard deviation at a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Response {
    /// The step, counted from 0.
    pub step: usize,
    /// The value at that step.
    pub std: f64,
}

/// A gain at a frequency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrequencyGain {
    /// Frequency in units of the Nyquist frequency.
    pub frequency: f64,
    /// `|H|`.
    pub gain: f64,
}

/// The noise of SGD's iterates on a quadratic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Learning rate × curvature.
    pub lr_curvature: f64,
    /// Variance relative to SGD without a filter. `None` if the loop is unstable.
    pub variance_ratio: Option<f64>,
}

/// The analysis of a filter. Coefficients are rounded to f32, as at run time. All fields after `dc_gain` describe the
/// filter divided by it, as the bias correction does in the limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// The filter's name, if it has a name.
    pub name: Option<String>,
    /// The filter's source.
    pub source: String,
    /// `a_1, a_2, …`
    pub a: Vec<f32>,
    /// `b_0, b_1, …`
    pub b: Vec<f32>,
    /// The filter order, which is the number of parameter vectors in its state.
    pub order: usize,
    /// Roots of `z^na + a_1·z^(na−1) + …`
    pub poles: Vec<Pole>,
    /// True if all poles are inside the unit circle.
    pub stable: bool,
    /// `Σ b / (1 + Σ a)`.
    pub dc_gain: f64,
    /// `Σ κ_r²`, the variance of the filtered noise relative to the unfiltered noise.
    pub noise_gain: f64,
    /// `1 / noise_gain`.
    pub noise_reduction: f64,
    /// `Σ r·κ_r`, in steps.
    pub mean_delay: f64,
    /// `|H|` at the Nyquist frequency.
    pub nyquist_gain: f64,
    /// The frequency at which `|H|` first falls to `1/√2`, in units of the Nyquist frequency. `None` if it never does.
    pub cutoff_3db: Option<f64>,
    /// The largest `|H|`.
    pub max_gain: f64,
    /// The smallest `κ_r`.
    pub min_impulse_response: f64,
    /// The largest `c_t`, or its limit 1 if that is larger.
    pub max_step_response: f64,
    /// The largest stable `learning rate × curvature` of SGD. It is 2 without a filter.
    pub max_stable_lr_curvature: f64,
    /// The noise of SGD's iterates.
    pub iterate_noise: Vec<Loop>,
    /// `κ_0, κ_1, …`
    pub impulse_response: Vec<f64>,
    /// `c_0, c_1, …`
    pub step_response: Vec<f64>,
    /// Standard deviation of the bias-corrected noise relative to the unfiltered noise.
    pub noise_std: Vec<Response>,
    /// Gains by frequency.
    pub frequency_response: Vec<FrequencyGain>,
}

impl Coefficients {
    /// Returns `Σ b / (1 + Σ a)`.
    #[must_use]
    pub fn dc_gain(&self) -> f64 {
        self.b.iter().sum::<f64>() / (1.0 + self.a.iter().sum::<f64>())
    }

    /// Returns `κ_0, κ_1, …`, the response to 1, 0, 0, …
    #[must_use]
    pub fn impulse_response(&self, len: usize) -> Vec<f64> {
        let mut kappa: Vec<f64> = Vec::with_capacity(len);
        for t in 0..len {
            let back = self.a.iter().zip(kappa.iter().rev()).fold(0.0, |back, (a, before)| back + a * before);
            kappa.push(self.b.get(t).copied().unwrap_or(0.0) - back);
        }
        kappa
    }

    /// Returns `|H|` at a frequency in units of the Nyquist frequency.
    #[must_use]
    pub fn gain(&self, frequency: f64) -> f64 {
        let delay = Complex64::from_polar(1.0, -PI * frequency);
        let polynomial = |coefficients: &[f64]| {
            coefficients.iter().rev().fold(Complex64::default(), |sum, c| sum * delay + Complex64::from(*c))
        };
        let denominator = Complex64::from(1.0) + delay * polynomial(&self.a);
        (polynomial(&self.b) / denominator).norm()
    }

    /// Returns the analysis of the filter as it runs.
    ///
    /// # Errors
    ///
    /// The filter cannot run.
    pub fn analysis(&self, name: Option<String>, source: String) -> Result<Analysis, FilterError> {
        let order = self.checked()?.order();
        let run = self.as_run();
        let dc_gain = run.dc_gain();
        let unit = Self { a: run.a.clone(), b: run.b.iter().map(|b| b / dc_gain).collect() };
        let poles = poles(&run.a);
        let slowest = poles.first().map_or(0.0, |pole| pole.norm());
        let len = if slowest == 0.0 { 0.0 } else { (1e-12f64.ln() / slowest.ln()).clamp(0.0, LONGEST) };
        let kappa = unit.impulse_response(len as usize + unit.b.len() + STEPS[STEPS.len() - 1]);

        let sums = kappa.iter().scan((0.0, 0.0), |(sum, power), kappa| {
            *sum += kappa;
            *power += kappa * kappa;
            Some((*sum, *power))
        });
        let (steps, powers): (Vec<f64>, Vec<f64>) = sums.unzip();
        let with_one: Vec<f64> = [1.0].into_iter().chain(unit.a.iter().copied()).collect();
        let noise_gain = noise_power(&with_one, &unit.b).unwrap_or(f64::INFINITY);
        let moment = |of: &[f64], first: usize| (first..).zip(of).map(|(r, x)| r as f64 * x).sum::<f64>();
        let (cutoff_3db, max_gain) = unit.landmarks(&poles);
        Ok(Analysis {
            name,
            source,
            a: run.a.iter().map(|a| *a as f32).collect(),
            b: run.b.iter().map(|b| *b as f32).collect(),
            order,
            stable: true,
            dc_gain,
            noise_gain,
            noise_reduction: 1.0 / noise_gain,
            mean_delay: (moment(&unit.b, 0) - moment(&unit.a, 1)) / with_one.iter().sum::<f64>(),
            nyquist_gain: unit.gain(1.0),
            cutoff_3db,
            max_gain,
            min_impulse_response: kappa.iter().copied().fold(f64::INFINITY, f64::min),
            max_step_response: steps.iter().copied().fold(1.0, f64::max),
            max_stable_lr_curvature: largest_stable_step(&run),
            iterate_noise: LOOP
                .map(|u| Loop { lr_curvature: u, variance_ratio: variance_ratio(&run, u) })
                .into_iter()
                .collect(),
            noise_std: STEPS.map(|step| Response { step, std: powers[step].sqrt() / steps[step] }).into(),
            frequency_response: FREQUENCIES
                .map(|frequency| FrequencyGain { frequency, gain: unit.gain(frequency) })
                .into(),
            impulse_response: kappa[..SHOWN].to_vec(),
            step_response: steps[..SHOWN].to_vec(),
            poles: poles.iter().map(|z| Pole { re: z.re, im: z.im, modulus: z.norm() }).collect(),
        })
    }

    /// Returns the frequency at which `|H|` first falls to `1/√2`, and the maximum of `|H|`, for a DC gain of 1.
    fn landmarks(&self, poles: &[Complex64]) -> (Option<f64>, f64) {
        // Points at intervals of half a per cent from 1e-8 to 1, and at the frequencies of poles, which have peaks.
        let mut grid: Vec<f64> = (0..=4000).map(|i| 10f64.powf(f64::from(i) / 500.0 - 8.0)).collect();
        grid.extend(poles.iter().map(|pole| pole.arg().abs() / PI));
        grid.sort_by(f64::total_cmp);
        let mut cutoff = None;
        let (mut below, mut best) = (0.0, (1.0, 0));
        for (i, frequency) in grid.iter().enumerate() {
            let gain = self.gain(*frequency);
            if gain > best.0 {
                best = (gain, i);
            }
            if cutoff.is_none() && gain <= FRAC_1_SQRT_2 {
                let (mut low, mut high) = (below, *frequency);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    if self.gain(middle) > FRAC_1_SQRT_2 { low = middle } else { high = middle }
                }
                cutoff = Some(high);
            }
            below = *frequency;
        }
        // Ternary search between the neighbours of the best point.
        let (mut low, mut high) = (grid[best.1.saturating_sub(1)], grid[(best.1 + 1).min(grid.len() - 1)]);
        for _ in 0..100 {
            let (left, right) = ((2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0);
            if self.gain(left) < self.gain(right) { low = left } else { high = right }
        }
        (cutoff, best.0.max(self.gain(low)).max(1.0))
    }
}
