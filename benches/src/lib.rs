//! Benchmarks of damper: `cargo bench -p damper-benches`. They hold no code of their own; results are kept in `record/`.
