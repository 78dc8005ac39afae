//! `damper federation`: the plan of federated rounds, a device's update, the server's next model, and a simulation of
//! them in one process.

mod apply;
mod approve;
mod check;
mod common;
mod key;
mod plan;
mod release;
mod simulate;
mod update;

pub(in crate::cli) use common::{Cost, cost_text, read_params, read_plan};

use crate::cli::Failure;
use clap::{Args, Subcommand};

const AFTER_HELP: &str = "\
The rounds of a federation, counted from 0:
  damper federation plan model.onnx --unit user --local-steps 4 --local-lr 0.1 \\
    --local-batch 16 --devices 4 --rounds 5 --sampling-rate 0.5 --batch-size 8 \\
    --noise-multiplier 2 --clip 0.5 --delta 1e-5 --out federation.json
on each device:
  damper federation update federation.json model.onnx --data npz:own.npz \\
    --users users.txt --device 1 --round 0 --ledger state --out 1.upd
on the server:
  damper aggregate *.upd --federation federation.json --round 0 \\
    --ledger server --out 0.sum
  damper federation apply federation.json model.onnx --sum 0.sum --out-params 1.params
From round 1 on all three take --params: the parameters with which the round began.
integrations/flower carries the files between machines.";

/// Plans federated rounds, makes a device's update, applies a round's sum, or simulates all of it.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct FederationArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand, Debug)]
enum Kind {
    Key(key::KeyArgs),
    Plan(Box<plan::PlanArgs>),
    Approve(approve::ApproveArgs),
    Check(Box<check::CheckArgs>),
    Update(Box<update::UpdateArgs>),
    Apply(Box<apply::ApplyArgs>),
    Simulate(Box<simulate::SimulateArgs>),
}

pub(in crate::cli) fn run(args: &FederationArgs) -> Result<(), Failure> {
    match &args.kind {
        Kind::Key(args) => key::run(args),
        Kind::Plan(args) => plan::run(args),
        Kind::Approve(args) => approve::run(args),
        Kind::Check(args) => check::run(args),
        Kind::Update(args) => update::run(args),
        Kind::Apply(args) => apply::run(args),
        Kind::Simulate(args) => simulate::run(args),
    }
}
