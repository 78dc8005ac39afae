//! Laws that hold for every method, through whole private steps and the public door alone.
//!
//! Fixed seeds throughout; where a law is statistical its test says how likely a right implementation would be to fail it.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

mod budget;
mod erased;
mod harness;
mod laws;
mod noise;
mod reductions;
mod sensitivity;
mod table;
