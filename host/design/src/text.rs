//! Formats the analysis of a filter as a few lines of text.

use super::poles::poles_text;
use super::{Analysis, Coefficients};
use num_complex::Complex64;
use std::fmt;

/// Width of the longest bar in characters.
const BAR: f64 = 40.0;

/// Formats four significant digits.
fn short(x: f64) -> String {
    if x == 0.0 || x.abs() < 1e-12 {
        return "0".into();
    }
    let scientific = format!("{x:.3e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    if (-4..=3).contains(&exponent) { format!("{x:.*}", (3 - exponent) as usize) } else { scientific }
}

/// Formats a bar of `cells` cells, in eighths.
fn bar(cells: f64) -> String {
    let eighths = (8.0 * cells).round() as usize;
    let rest = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8)).trim_end().to_owned()
}

/// Formats decibels to a tenth.
fn decibels(gain: f64) -> String {
    // Adding 0 removes the sign of a zero.
    if gain < 1e-12 { "-inf".into() } else { format!("{:.1}", (200.0 * gain.log10()).round() / 10.0 + 0.0) }
}

impl Analysis {
    fn coefficients(&self) -> Coefficients {
        let wide = |of: &[f32]| of.iter().map(|x| f64::from(*x)).collect();
        Coefficients { a: wide(&self.a), b: wide(&self.b) }
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vectors = match self.order {
            0 => "no memory".into(),
            1 => "1 vector of parameters of memory".into(),
            order => format!("{order} vectors of parameters of memory"),
        };
        match &self.name {
            Some(name) => writeln!(f, "filter         {name} ({}), {vectors}", self.source)?,
            None => writeln!(f, "filter         {}, {vectors}", self.source)?,
        }
        writeln!(f, "coefficients   {}", self.coefficients().flags())?;
        writeln!(f, "to train with  {}", self.coefficients().train_flag())?;
        let poles: Vec<Complex64> = self.poles.iter().map(|pole| Complex64::new(pole.re, pole.im)).collect();
        writeln!(f, "poles          {}: stable", poles_text(&poles))?;
        writeln!(f, "DC gain        {:.6}; the bias correction makes it 1, as in all that follows", self.dc_gain)?;
        writeln!(
            f,
            "noise gain     {:.5}, variance of filtered over unfiltered noise: 1 / {}",
            self.noise_gain,
            short(self.noise_reduction)
        )?;
        writeln!(f, "mean delay     {} steps", short(self.mean_delay))?;
        match self.cutoff_3db {
            Some(cutoff) => {
                writeln!(f, "-3 dB at       {} x Nyquist, periods of {} steps", short(cutoff), short(2.0 / cutoff))?;
            }
            None => writeln!(f, "-3 dB at       nowhere")?,
        }
        writeln!(f, "|H|            {} at Nyquist, {} at most", short(self.nyquist_gain), short(self.max_gain))?;
        writeln!(
            f,
            "responses      impulse at least {}, step at most {}",
            short(self.min_impulse_response),
            short(self.max_step_response)
        )?;
        writeln!(
            f,
            "SGD            stable up to learning rate x curvature u = {} (2 without a filter)",
            short(self.max_stable_lr_curvature)
        )?;
        let noise = self.iterate_noise.iter().filter_map(|at| {
            let ratio = at.variance_ratio?;
            Some(format!("{} at u = {}", short(ratio), at.lr_curvature))
        });
        let noise: Vec<String> = noise.collect();
        if !noise.is_empty() {
            writeln!(f, "its iterates   variance over that without a filter: {}", noise.join(", "))?;
        }

        writeln!(f, "\n  step  impulse     step response")?;
        for (r, (kappa, c)) in self.impulse_response.iter().zip(&self.step_response).enumerate().take(8) {
            writeln!(f, "  {r:>4}  {:<10}  {}", short(*kappa), short(*c))?;
        }
        writeln!(f, "\n  step  std of the noise, unfiltered 1")?;
        let line = |step: &str, std: f64| format!("  {step:>4}  {:<10}  {}", short(std), bar(BAR * std.min(1.0)));
        for at in &self.noise_std {
            writeln!(f, "{}", line(&at.step.to_string(), at.std).trim_end())?;
        }
        writeln!(f, "{}", line("then", self.noise_gain.sqrt()).trim_end())?;
        write!(f, "\n  x Nyquist  |H|            dB")?;
        for at in &self.frequency_response {
            let (gain, db) = (short(at.gain), decibels(at.gain));
            let line = format!("  {:<9}  {gain:<10}  {db:>5}  {}", at.frequency, bar(BAR * at.gain / self.max_gain));
            write!(f, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The columns of the table.
const LEGEND: &str = "
noise gain  variance of filtered over unfiltered noise; 1/gain its inverse
delay       mean delay of a gradient, in steps
|H| Nyq.    gain at the highest frequency; -3 dB: cut-off, as a part of that
            frequency; max |H|: largest gain
min k       least of the impulse response; max c: most of the step response
lr x h <    SGD is stable for a learning rate x curvature below (2: no filter)
flags       for damper filter; the filter of damper train takes the name";

/// Formats a table of filters, one per line.
#[must_use]
pub fn list(filters: &[Analysis]) -> String {
    let head = [
        "name",
        "noise gain",
        "1/gain",
        "delay",
        "|H| Nyq.",
        "-3 dB",
        "max |H|",
        "min k",
        "max c",
        "lr x h <",
        "flags",
    ];
    let rows = filters.iter().map(|filter| {
        [
            filter.name.clone().unwrap_or_default(),
            format!("{:.5}", filter.noise_gain),
            short(filter.noise_reduction),
            format!("{:.2}", filter.mean_delay),
            format!("{:.4}", filter.nyquist_gain),
            filter.cutoff_3db.map_or("-".into(), |cutoff| format!("{cutoff:.3}")),
            format!("{:.3}", filter.max_gain),
            format!("{:.4}", filter.min_impulse_response + 0.0),
            format!("{:.3}", filter.max_step_response),
            short(filter.max_stable_lr_curvature),
            filter.coefficients().flags(),
        ]
    });
    let rows: Vec<[String; 11]> = [head.map(String::from)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let lines = rows.iter().map(|row| {
        let cells = row.iter().enumerate().map(|(i, cell)| format!("{cell:<width$}", width = width(i)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.chain([LEGEND.to_owned()]).collect::<Vec<_>>().join("\n")
}
