//! SIMD kernels for networks: matrix [`product`]s, [`convolution`]s, the gradients of their weights ([`kernel_grad`],
//! [`position_grad`]), and [`pool`]s.
//!
//! Each kernel is compiled for several SIMD widths, and the widest that the processor supports runs. This crate depends
//! on no other crate of damper.

pub mod convolution;
pub mod kernel_grad;
pub mod pool;
pub mod position_grad;
pub mod product;
pub mod simd;
