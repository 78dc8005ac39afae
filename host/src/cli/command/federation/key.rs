//! `damper federation key`: generates the key that signs a device's updates.

use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_federation::MemberKey;
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Give the public key to whoever plans the federation, over a channel on which you
know each other, and compare it in damper federation approve. The file stays on
the device: whoever has it speaks for the device. It is PKCS #8 in PEM, as
openssl genpkey -algorithm ed25519 writes it.";

/// Makes a device's key (Ed25519), and prints its public key.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct KeyArgs {
    /// The new file, which only its owner can read
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Made {
    public: String,
    out: String,
}

pub(super) fn run(args: &KeyArgs) -> Result<(), Failure> {
    let made = Made { public: MemberKey::create(&args.out)?.public(), out: args.out.display().to_string() };
    if args.json { answer_json(&made) } else { answer(&format!("{}\nwrote {}", made.public, made.out)) }
}
