//! The boards' programs on any system with a standard output: `console PROGRAM`. `console train MODEL METHOD` chooses
//! model and method, which a build for a board chooses by features. `console replay-recorded FILE` plays a recording.
//! Fails if a result is wrong.

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;
use damper_firmware_program::model::DeviceModel;
use damper_firmware_program::train::{self, method};
use damper_firmware_program::{correlated, federated, methods::METHODS, mlp, personalise, replay, softmax};
use damper_replay::Memory;
use std::process::ExitCode;

fn by<const D: usize>(model: &DeviceModel<D>, name: &str) -> bool {
    method::all()
        .find(|(method, _)| *method == name)
        .is_some_and(|method| train::by(model, method, &mut |line| println!("{line}")))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let success = match words[..] {
        ["replay"] => replay::base(|line| println!("{line}")),
        ["replay-further"] => replay::further(|line| println!("{line}")),
        ["replay-wide"] => replay::wide(|line| println!("{line}")),
        ["replay-recorded", file] => recorded(file),
        ["train"] => train::run(|line| println!("{line}")),
        ["train", "softmax", method] => by(&softmax::MODEL, method),
        ["train", "mlp", method] => by(&mlp::MODEL, method),
        ["federated"] => federated::run(1, |line| println!("{line}")),
        ["correlated"] => correlated::run(|line| println!("{line}")),
        ["personalise"] => personalise::run(|line| println!("{line}")),
        ["erase"] => erase(),
        ["nn-vectors"] => damper_firmware_vectors::run(),
        ["methods"] => METHODS.iter().all(|method| method.run() == Some(method.digest)),
        _ => {
            eprintln!(
                "console replay|replay-further|replay-wide|replay-recorded FILE|train [softmax|mlp METHOD]|federated|correlated|personalise\
                 |methods|nn-vectors|erase"
            );
            false
        }
    };
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Scans the memory after a run with a key.
fn erase() -> bool {
    let Some(left) = damper_firmware_measure::erase::left() else {
        println!("skipped: nothing says how to read this processor's stack pointer");
        return true;
    };
    println!("{left:?}");
    left.is_erased()
}

/// Plays the recording in a file, of up to 100,000 parameters.
fn recorded(file: &str) -> bool {
    match std::fs::read(file) {
        Ok(bytes) => {
            let (mut floats, mut narrow) = (vec![0.0; 2_000_000], vec![SumWord::ZERO; 100_000]);
            let (mut wide, mut float_sums) = (vec![SumWord::ZERO; 100_000], vec![SumWord::ZERO; 100_000]);
            let mut noise: Vec<_> = (0..400_000).map(|_| NoiseWord::ZERO).collect();
            let (float_sums, noise) = (&mut float_sums[..], &mut noise[..]);
            let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
            replay::recorded(&mut &bytes[..], memory, |line| println!("{line}"))
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            false
        }
    }
}
