//! What the boards run, on any system with a standard output: `console PROGRAM`, or `console train MODEL METHOD`, for a build chooses
//! one. Fails if something is not as it must be.

use damper_firmware_program::model::Model;
use damper_firmware_program::train::{self, method};
use damper_firmware_program::{federated, methods::METHODS, mlp, personalise, replay, softmax};
use std::process::ExitCode;

fn by<const D: usize>(model: &Model<D>, name: &str) -> bool {
    method::all()
        .find(|(method, _)| *method == name)
        .is_some_and(|method| train::by(model, method, &mut |line| println!("{line}")))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let success = match words[..] {
        ["replay"] => replay::base(|line| println!("{line}")),
        ["replay-wide"] => replay::wide(|line| println!("{line}")),
        ["train"] => train::run(|line| println!("{line}")),
        ["train", "softmax", method] => by(&softmax::MODEL, method),
        ["train", "mlp", method] => by(&mlp::MODEL, method),
        ["federated"] => federated::run(1, |line| println!("{line}")),
        ["personalise"] => personalise::run(|line| println!("{line}")),
        ["methods"] => METHODS.iter().all(|(_, run, digest)| run() == Some(*digest)),
        _ => {
            eprintln!("console replay|replay-wide|train [softmax|mlp METHOD]|federated|personalise|methods");
            false
        }
    };
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
