//! The cost of a private step on a board.
//!
//! [`stack`] measures a call's stack, [`memory`] what a program takes of a board. [`kernels`] runs the parts of a step, each between
//! two functions that do nothing: an emulator counts the instructions between them (`../costs.py`). None is part of any product.
#![no_std]

pub mod erase;
pub mod kernels;
pub mod memory;
pub mod stack;
pub mod step;
