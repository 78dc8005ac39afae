//! The cost of a private step on a board.
//!
//! [`stack`] measures a call's stack, and [`memory`] a program's use of a board. [`kernels`] runs the parts of a step,
//! each between two functions that do nothing. An emulator counts the instructions between them (`../costs.py`). No
//! product contains them.
#![no_std]

pub mod erase;
pub mod kernels;
pub mod memory;
pub mod stack;
pub mod step;
