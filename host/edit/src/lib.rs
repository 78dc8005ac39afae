//! Rewrites of ONNX models: model in, model out. Nothing here reads data, derives gradients or trains.
//!
//! | rewrite | function |
//! | --- | --- |
//! | weights that the file leaves out, or all trained ones, from a public seed | [`init`] |
//! | low-rank adapters beside frozen weights | [`lora`], [`add_adapters`] |
//! | batch normalisation into what treats each sample alone | [`fix_batch_norm`] |
//! | standardised weights of convolutions | [`standardize_weights`] |
//! | a normalisation after each residual sum | [`add_scale_norms`] |
//! | weights in int8 | [`quantize_weights`] |
//! | float16 and bfloat16 to float32 | [`convert_to_float32`] |
//! | predictions in the labels' unit | [`scale_output`] |
//!
//! Reading, the typed graph and writing are [`damper_onnx`]'s.

mod adapters;
mod batch_norm;
mod float32;
pub mod init;
mod label_scale;
pub mod lora;
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
