//! Benchmarks of damper: `cargo bench -p damper-benches`. This crate has no code. Results are in `record/`.
