#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damper_fuzz_targets::parquet(bytes));
