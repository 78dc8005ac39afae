//! Flags of the execution: backend, physical batch, memory, threads.

use crate::cli::Failure;
use crate::cli::args::flags::number::whole;
use crate::cli::args::model::{MEMORY, Size};
use crate::cli::args::text::Text;
use clap::Args;
use damper_runtime::{Choice, Operators};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Machine")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct MachineArgs {
    /// Backend of the networks: auto (onnxruntime if it is found, else tract. A build without both: portable), tract,
    /// portable (the same bits on every machine), ort, cuda [default: auto]
    #[arg(long, value_name = "NAME")]
    backend: Option<Text<Choice>>,
    /// Operators of the gradient graph, with onnxruntime: own (damper's kernels) or standard (ONNX alone, with
    /// parameters and sums kept on the device). With standard, the processor runs what cuda runs [default: own, with
    /// cuda standard]
    #[arg(long, value_name = "NAME")]
    operators: Option<Text<Operators>>,
    /// Rows of a physical batch. A draw takes as many batches as it needs [default: as many as --memory holds, up to
    /// 16]
    #[arg(long, value_name = "ROWS")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) physical_batch: Option<NonZeroUsize>,
    /// Memory limit for the tensors of one worker, such as 512MiB. `damper inspect` shows their size [default: 2GiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Text<Size>>,
    /// Threads, each with its own session. Single gradients, and runs with discrete noise, do not depend on it
    /// [default: processors]
    #[arg(long, value_name = "N")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    pub(in crate::cli) workers: Option<NonZeroUsize>,
}

impl MachineArgs {
    /// Returns the memory limit for the tensors of one worker, in bytes.
    pub(in crate::cli) fn memory(&self) -> u64 {
        self.memory.as_deref().map_or(MEMORY, |size| size.0)
    }

    /// Returns the chosen backend.
    pub(in crate::cli) fn backend(&self) -> Result<Choice, Failure> {
        match (self.operators.as_deref().copied(), self.backend.as_deref().copied().unwrap_or(Choice::Auto)) {
            (None, backend) | (Some(Operators::Own), backend @ Choice::Ort) => Ok(backend),
            (Some(Operators::Standard), Choice::Ort) => Ok(Choice::OrtStandard),
            (Some(Operators::Standard), Choice::Cuda) => Ok(Choice::Cuda),
            (Some(Operators::Own), Choice::Cuda) => Err(Failure::usage(
                "`operators` own: damper's kernels are the processor's; with `backend` cuda leave it out",
            )),
            (Some(operators), _) => Err(Failure::usage(format!(
                "`operators` {}: only onnxruntime has both; add `backend` ort, or leave it out",
                operators.name()
            ))),
        }
    }
}
