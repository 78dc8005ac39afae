//! Shape and batch-axis rules, one operator family a file.

pub(super) mod arg;
pub(super) mod constant;
pub(super) mod conv;
pub(super) mod cumulative;
pub(super) mod depth;
pub(super) mod einsum;
pub(super) mod elementwise;
pub(super) mod expand;
pub(super) mod gather_nd;
pub(super) mod join;
pub(super) mod matmul;
pub(super) mod norm;
pub(super) mod pad;
pub(super) mod pool;
pub(super) mod recurrent;
pub(super) mod reduce;
pub(super) mod reshape;
pub(super) mod resize;
mod rewrite;
pub(super) mod select;
pub(super) mod slices;
pub(super) mod softmax;
pub(super) mod tile;
pub(super) mod transpose;
pub(super) mod triangle;
mod window;
