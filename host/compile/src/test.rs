//! The crate's own test: on any machine its gradient has the bits that the portable backend had when it was written.

use crate::network::Network;
use crate::source::{arguments, is_float};

/// Element `at` of the sample's floats. Its integers are 0.
pub(crate) fn value(at: usize) -> f32 {
    (at * 37 % 101) as f32 / 101.0
}

/// The source of `tests/same_bits.rs`.
pub(crate) fn source(network: &Network, name: &str) -> String {
    let (arguments, module) = (arguments(network), name.replace('-', "_"));
    let mut sample = String::new();
    for (name, port) in arguments.iter().zip(&network.inputs) {
        let value = if is_float(port) { "(at * 37 % 101) as f32 / 101.0" } else { "0i64" };
        let unused = if is_float(port) { "at" } else { "_" };
        sample += &format!("    let {name} = boxed::<_, {}>(|{unused}| {value});\n", port.len);
    }
    let given: String = arguments.iter().map(|name| format!("&{name}, ")).collect();
    format!(
        r#"//! Gradients have the bits of damper's portable backend, and a step takes the same sum from segments as from memory.

use {module}::damper_core::prelude::*;
use {module}::damper_core::noise::ChaCha20;
use {module}::damper_core::optimizer::SgdState;
use {module}::damper_core::private::SumWord;
use {module}::{{INITIAL, Memory, PARAMS, add_sample, gradient, loss}};

fn boxed<T: std::fmt::Debug, const N: usize>(value: impl FnMut(usize) -> T) -> Box<[T; N]> {{
    (0..N).map(value).collect::<Vec<T>>().try_into().unwrap()
}}

fn same(a: f32, b: f32) -> bool {{
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}}

#[test]
fn gradient_has_recorded_bits() {{
{sample}    let (mut memory, mut grad) = (Box::new(Memory::new()), boxed(|_| 0.0));
    // Nothing is left of a sample for the next.
    for _ in 0..2 {{
        gradient(&INITIAL, {given}&mut memory, &mut grad).unwrap();
        let recorded = include_bytes!("gradient.f32").chunks_exact(4);
        assert_eq!(recorded.len(), PARAMS);
        for (at, (grad, bytes)) in grad.iter().zip(recorded).enumerate() {{
            let want = f32::from_le_bytes(bytes.try_into().unwrap());
            assert!(same(*grad, want), "parameter {{at}}: {{grad:?}}, not {{want:?}}");
        }}
    }}
    assert!(!loss(&INITIAL, {given}&mut memory).unwrap().is_infinite());
}}

#[test]
fn streamed_step_has_stored_bits() {{
{sample}    let (mut memory, mut grad) = (Box::new(Memory::new()), boxed(|_| 0.0));
    let config = DpSgd::new().clip(0.5).noise_multiplier(1.0).learning_rate(0.1).expected_batch(2).build().unwrap();
    let mut params = [INITIAL.to_vec(), INITIAL.to_vec()];
    for (is_streamed, params) in [false, true].into_iter().zip(&mut params) {{
        let mut sum = vec![SumWord::<i32>::ZERO; PARAMS];
        let mut state = StepState::new(&mut sum[..], (), SgdState {{ momentum: [] }}, ());
        let mut ledger = Ledger::volatile(1);
        let mut step = config.open(&mut state, &mut ledger).unwrap();
        for _ in 0..2 {{
            if is_streamed {{
                add_sample(&mut step, &INITIAL, {given}&mut memory).unwrap();
            }} else {{
                gradient(&INITIAL, {given}&mut memory, &mut grad).unwrap();
                step.add(&grad[..]).unwrap();
            }}
        }}
        step.finish(params, &ChaCha20::<1>::simulation(1)).unwrap();
    }}
    let [stored, streamed] = &params;
    assert!(stored.iter().zip(streamed).all(|(a, b)| same(*a, *b)) && stored[..] != INITIAL[..]);
}}
"#
    )
}
