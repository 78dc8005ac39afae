//! What every board of the firmware examples runs. Boards are thin: they say how a line leaves the device.
//!
//! The same program runs on the host as a test, and every target must print the lines of `../expected` byte for byte.
#![no_std]
#![forbid(unsafe_code)]

pub mod digits;
pub mod line;
pub mod methods;
pub mod replay;
pub mod softmax;
pub mod train;
