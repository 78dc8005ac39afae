//! Benchmarks of damper.
