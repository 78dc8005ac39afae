//! SIMD kernels of the networks: matrix [`product`]s, [`convolution`]s, the gradients of their weights ([`kernel_grad`],
//! [`position_grad`]), and [`pool`]s.
//!
//! Each is compiled for the vectors of several processors, and the widest that the processor has runs. A leaf: no crate of damper is
//! below this one.

pub mod convolution;
pub mod kernel_grad;
pub mod pool;
pub mod position_grad;
pub mod product;
pub mod simd;
