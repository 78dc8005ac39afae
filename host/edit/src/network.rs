//! Small networks by name, for users without an ONNX file: ordinary models with initial weights.
//!
//! A network depends on its name, the extents of a sample and the number of outputs, which are all public. Hidden
//! activations are tanh: they are bounded, which keeps gradients below the clip (Papernot et al., arXiv 2007.14191).
//! `docs/models.md` has a table of the layers.

mod layers;
mod sizes;

use crate::init::{InitError, Override, initialise};
use damper_onnx::graph::GraphOptions;
use damper_onnx::pb::ModelProto;
use layers::{Builder, MOST_PARAMS};
pub use sizes::NetworkSizes;
use std::fmt;
use std::str::FromStr;

/// Width of an embedding without a given width.
const EMBEDDING: usize = 64;
/// A picture is halved until its shorter side is at most this.
const SIDE: usize = 8;
/// Channels of the first convolution, and the most of any.
const CHANNELS: (usize, usize) = (16, 64);
/// Width of the layer between the convolutions and the classes.
const AFTER_CNN: usize = 32;
/// Widest layer that a name may ask for.
const WIDEST: usize = 1 << 16;

/// A network by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Network {
    /// `linear`: one linear layer, that is logistic or linear regression.
    Linear,
    /// `mlp:64,32`: hidden layers of these widths.
    Mlp(Vec<usize>),
    /// `cnn`: 3×3 convolutions with max pools, for pictures.
    Cnn,
    /// `bag:64`: the mean of a text's embeddings, and a linear layer.
    Bag(usize),
    /// `lstm:64`: an LSTM over the tokens of a text or the steps of a series, the mean of its outputs, and a linear
    /// layer.
    Lstm(usize),
}

/// Error of a network.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum NetworkError {
    /// Data of a shape that the network does not take.
    #[error("`model` {network}: takes {takes}, and a sample of these data is {given}; {instead}")]
    Shape { network: Network, takes: &'static str, given: String, instead: &'static str },
    /// A network with more parameters than fit.
    #[error(
        "`model` {network}: has {params} parameters, and {MOST_PARAMS} are the most; choose smaller widths, or export a model"
    )]
    TooLarge { network: Network, params: usize },
    #[error(transparent)]
    Init(#[from] InitError),
}

impl FromStr for Network {
    type Err = String;

    /// Parses `linear`, `mlp:W,W,...`, `cnn`, `bag`, `bag:W`, or `lstm:W`. `mlp` alone is `mlp:64`, `lstm` `lstm:64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, widths) = text.split_once(':').map_or((text, None), |(name, widths)| (name, Some(widths)));
        let width = |text: &str| match text.trim().parse() {
            Ok(width @ 1..=WIDEST) => Ok(width),
            _ => Err(format!("'{text}' is no width: give a whole number from 1 to {WIDEST}")),
        };
        let one = || widths.map_or(Ok(EMBEDDING), width);
        match (name, widths) {
            ("linear", None) => Ok(Self::Linear),
            ("cnn", None) => Ok(Self::Cnn),
            ("linear" | "cnn", Some(_)) => Err(format!("{name} has no widths: leave out what follows the colon")),
            ("mlp", None) => Ok(Self::Mlp(vec![EMBEDDING])),
            ("mlp", Some(widths)) => widths.split(',').map(width).collect::<Result<_, _>>().map(Self::Mlp),
            ("bag", _) => one().map(Self::Bag),
            ("lstm", _) => one().map(Self::Lstm),
            _ => Err("give linear, mlp:64,32, cnn, bag or lstm:64".into()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => f.write_str("linear"),
            Self::Mlp(widths) => {
                let widths: Vec<String> = widths.iter().map(usize::to_string).collect();
                write!(f, "mlp:{}", widths.join(","))
            }
            Self::Cnn => f.write_str("cnn"),
            Self::Bag(width) => write!(f, "bag:{width}"),
            Self::Lstm(width) => write!(f, "lstm:{width}"),
        }
    }
}

impl Network {
    /// Returns true if `text` begins with the name of a network, rather than that of a file.
    #[must_use]
    pub fn is_named(text: &str) -> bool {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        ["linear", "mlp", "cnn", "bag", "lstm"].contains(&name)
    }

    /// Returns the model, with initial weights that depend on the seed alone.
    ///
    /// # Errors
    ///
    /// Samples of these extents do not fit the network.
    pub fn model(&self, sizes: &NetworkSizes, seed: u64) -> Result<ModelProto, NetworkError> {
        let mut builder = Builder::new(sizes);
        match (self, sizes.tokens, &sizes.sample[..]) {
            (Self::Linear, None, [_, ..]) => builder.flatten(),
            (Self::Mlp(widths), None, [_, ..]) => {
                builder.flatten();
                widths.iter().for_each(|&width| builder.hidden(width));
            }
            (Self::Cnn, None, &[channels, height, width]) => cnn(&mut builder, [channels, height, width]),
            (Self::Bag(width), Some(_), [_]) => {
                builder.embed(*width);
                builder.mean_of_steps();
            }
            (Self::Lstm(width), Some(_), [_]) => {
                builder.embed(*width);
                builder.lstm(*width);
                builder.mean_of_steps();
            }
            (Self::Lstm(width), None, [_, _]) => {
                builder.lstm(*width);
                builder.mean_of_steps();
            }
            _ => return Err(self.misfit(sizes)),
        }
        let (model, specs) =
            builder.finish().map_err(|params| NetworkError::TooLarge { network: self.clone(), params })?;
        let overrides: Vec<Override> = specs
            .into_iter()
            .map(|(pattern, spec)| Override { pattern, initialiser: spec.parse().expect("a scheme of this file") })
            .collect();
        Ok(initialise(&model, &GraphOptions::default(), &overrides, seed)?.0)
    }

    fn misfit(&self, sizes: &NetworkSizes) -> NetworkError {
        let extents: Vec<String> = sizes.sample.iter().map(usize::to_string).collect();
        let given = match sizes.tokens {
            Some(_) => "a text".to_owned(),
            None => format!("[{}]", extents.join(", ")),
        };
        let (takes, instead) = match self {
            Self::Linear | Self::Mlp(_) => ("numbers", "use bag or lstm:64 for texts"),
            Self::Cnn => ("pictures [channels, height, width]", "use mlp:64, or bag for texts"),
            Self::Bag(_) => ("texts", "use linear, mlp:64 or cnn"),
            Self::Lstm(_) => ("texts or series [steps, features]", "use mlp:64 or cnn"),
        };
        NetworkError::Shape { network: self.clone(), takes, given, instead }
    }
}

/// Convolutions with max pools until a side is small, then a hidden layer.
fn cnn(builder: &mut Builder, [_, height, width]: [usize; 3]) {
    let (mut side, mut channels) = (height.min(width), CHANNELS.0);
    loop {
        builder.conv(channels);
        if side >= 4 {
            builder.pool();
            side /= 2;
        }
        channels = (2 * channels).min(CHANNELS.1);
        if side <= SIDE {
            break;
        }
    }
    builder.flatten();
    builder.hidden(AFTER_CNN);
}

#[cfg(test)]
mod tests;
