//! Every decision about bits.

pub mod up;
