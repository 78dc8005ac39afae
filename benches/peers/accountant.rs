//! The tight accountant as a candidate of `accounting.py`. It reads a question a line from standard input,
//! `RATE DELTA TIMES MULTIPLIER...`. It prints ε and the CPU seconds of the answer.

use cpu_time::ProcessTime;
use damper_accounting::{Accountant, Plan, sampling_rate};
use std::error::Error;
use std::io::BufRead;

fn main() -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [rate, delta, times, multipliers @ ..] = &fields[..] else {
            return Err("RATE DELTA TIMES MULTIPLIER...".into());
        };
        let start = ProcessTime::now();
        let rate = sampling_rate(*rate)?;
        let plan = match multipliers {
            [multiplier] => Plan::constant(rate, *multiplier, None, *times as u64)?,
            many => Plan::new(rate, many.iter().copied(), None)?,
        };
        let epsilon = plan.epsilon(Accountant::Pld, *delta)?.epsilon;
        println!("{epsilon} {}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
