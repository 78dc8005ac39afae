#![no_main]
// The reader catches panics of the parquet crate. libFuzzer's own hook would end the process before.
libfuzzer_sys::fuzz_target!(
    init: { std::panic::set_hook(Box::new(|_| ())) },
    |bytes: &[u8]| damper_fuzz_targets::parquet(bytes)
);
