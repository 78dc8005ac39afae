//! The programs of the firmware examples. Boards are thin: they only define how a line leaves the device.
//!
//! The same program runs on the host as a test, and every target must print the lines of `../expected` byte for byte.
#![no_std]
#![forbid(unsafe_code)]

pub mod correlated;
pub mod digits;
pub mod dp_sgd;
pub mod extractor;
pub mod federated;
pub mod flash;
pub mod journal;
pub mod layer;
pub mod line;
pub mod mark;
pub mod methods;
pub mod mlp;
pub mod model;
pub mod personalise;
pub mod price;
pub mod replay;
pub mod sensor;
pub mod softmax;
pub mod step;
pub mod train;
