//! Rewrites of ONNX models. They never read data, derive gradients or train.
//!
//! | rewrite | function |
//! | --- | --- |
//! | weights that the file omits, or all trained weights, from a public seed | [`init`] |
//! | low-rank adapters next to frozen weights | [`lora`], [`add_adapters`] |
//! | batch normalisation to operators on single samples | [`fix_batch_norm`] |
//! | standardised weights of convolutions | [`standardize_weights`] |
//! | a normalisation after each residual sum | [`add_scale_norms`] |
//! | weights in int8 | [`quantize_weights`] |
//! | float16 and bfloat16 to float32 | [`convert_to_float32`] |
//! | predictions in the labels' unit | [`scale_output`] |
//!
//! [`damper_onnx`] reads models, builds the typed graph and writes models.

mod adapters;
mod batch_norm;
mod float32;
pub mod init;
mod label_scale;
pub mod lora;
pub mod network;
mod quantize;
mod rewrite;
mod scale_norm;
mod standardize;

pub use adapters::{Adapter, Adapters, LoraOptions, add_adapters};
pub use batch_norm::{BatchNormChange, BatchNormFix, Replacement, fix_batch_norm};
pub use float32::convert_to_float32;
pub use label_scale::scale_output;
pub use quantize::{QuantizeChange, quantize_weights};
pub use scale_norm::{ScaleChange, add_scale_norms};
pub use standardize::{WeightChange, standardize_weights};
