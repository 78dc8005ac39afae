//! Networks by name: `--model linear` instead of a file. The network is built from public sizes of the data before
//! anything is charged, and its initial weights become an output of the run.

use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use damper_data::{DataOptions, LabelKind, SampleSizes, sample_sizes};
use damper_edit::network::{Network, NetworkSizes};
use damper_grad::Loss;
use damper_onnx::pb::ModelProto;
use damper_train::files::Access;
use damper_train::write_model;
use std::path::PathBuf;
use tempfile::{Builder, TempDir};

/// File of the initial model among the outputs.
pub(in crate::cli) const INITIAL: &str = "initial.onnx";

/// A network that was built for a run, in a temporary file.
#[derive(Debug)]
pub(in crate::cli) struct Built {
    network: String,
    /// The network's name and its sizes, for the user.
    said: String,
    pub(in crate::cli) model: ModelProto,
    file: PathBuf,
    _folder: TempDir,
}

impl Built {
    /// Builds the network that the model's setting names. Returns `None` if it is a file.
    pub(in crate::cli) fn new(args: &TrainArgs) -> Result<Option<Self>, Failure> {
        let Some(network) = args.network()? else { return Ok(None) };
        let options = DataOptions { labels: label_kind(&args.options.loss()), ..args.data.options() };
        let read = sample_sizes(args.data.source(), &options)?;
        let outputs = outputs(args, &network, &read)?;
        let SampleSizes { sample, tokens, .. } = read;
        let sizes = NetworkSizes { sample, tokens, outputs };
        let model = network.model(&sizes, args.options.init_seed.unwrap_or(0)).map_err(Failure::usage_of)?;
        let folder = private_folder()?;
        let file = folder.path().join(INITIAL);
        write_model(&file, &model, Access::Private)?;
        let input = match sizes.tokens {
            Some(tokens) => format!("{} of {tokens} tokens", sizes.sample[0]),
            None => format!("{:?}", sizes.sample),
        };
        let said =
            format!("model: {network}, from {input} to {}; {INITIAL} is the network before training", counted(outputs));
        Ok(Some(Self { network: network.to_string(), said, model, file, _folder: folder }))
    }

    /// Returns the name of the network.
    pub(in crate::cli) fn network(&self) -> &str {
        &self.network
    }

    /// Names the network in an error, instead of its temporary file.
    pub(in crate::cli) fn named(&self, failure: Failure) -> Failure {
        let message = failure.message.replace(&self.file.display().to_string(), &self.network);
        Failure { message, ..failure }
    }

    /// Makes the run read the built file.
    pub(in crate::cli) fn use_in(&self, args: &mut TrainArgs) {
        args.model = Some(self.file.clone());
        // The file has all its weights.
        args.options.init_seed = None;
        args.found.push(self.said.clone());
    }
}

/// Creates a folder that only this user can read.
fn private_folder() -> std::io::Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix("damper-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

fn counted(outputs: usize) -> String {
    if outputs == 1 { "1 output".into() } else { format!("{outputs} outputs") }
}

/// Returns the labels that the loss takes.
fn label_kind(loss: &Loss) -> LabelKind {
    match loss {
        Loss::Mse | Loss::L1 | Loss::Huber => LabelKind::Values { shape: None },
        Loss::BceWithLogits => LabelKind::Chances { shape: None },
        _ => LabelKind::default(),
    }
}

/// Returns the number of outputs that the loss needs.
fn outputs(args: &TrainArgs, network: &Network, sizes: &SampleSizes) -> Result<usize, Failure> {
    match args.options.loss() {
        Loss::SoftmaxCrossEntropy => args.data.class_count().or(sizes.classes).ok_or_else(|| {
            Failure::usage(format!(
                "`model` {network}: the number of classes is public, and must be declared: give `classes` 10 for the labels 0 to 9, or \
                 `classes` NAME,NAME,..., or `loss` mse for a number"
            ))
        }),
        Loss::Mse | Loss::L1 | Loss::Huber | Loss::BceWithLogits => Ok(1),
        Loss::CausalLm | Loss::Ctc | Loss::Output(_) => Err(Failure::usage(format!(
            "`model` {network}: has one output for a sample, which this loss does not take; export a model for it"
        ))),
    }
}
