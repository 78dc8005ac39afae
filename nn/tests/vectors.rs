//! Vectors recorded by an independent generator (`vectors/generate.py`). Every kernel matches them bit for bit, with
//! narrow and wide lanes.

#[path = "../vectors/player.rs"]
mod player;

use player::{FUNCTIONS, KernelVector, LONGEST, PART, functions, play, play_in_parts};

/// Number of forms of each kernel.
fn forms(name: &str) -> usize {
    match name {
        "product" | "forward" | "transposed" | "kernel_grad" | "product_quantized" => 2,
        _ => 1,
    }
}

#[test]
fn kernels_have_recorded_bits() {
    let mut played = 0;
    for line in include_str!("../vectors/vectors.txt").lines() {
        let mut fields = line.split(" | ");
        let mut head = fields.next().unwrap().split(' ');
        let name = head.next().unwrap();
        let sizes: Vec<usize> = head.map(|size| size.parse().unwrap()).collect();
        let floats = |field: &str| -> Vec<f32> {
            field.split_whitespace().map(|bits| f32::from_bits(u32::from_str_radix(bits, 16).unwrap())).collect()
        };
        let mut operands: Vec<Vec<f32>> = fields.map(floats).collect();
        let output = operands.pop().unwrap();
        let operands: Vec<&[f32]> = operands.iter().map(Vec::as_slice).collect();
        let vector = KernelVector { name, sizes: &sizes, operands: &operands, output: &output };
        match play(&vector, &mut [0.0; LONGEST], usize::MAX) {
            Ok(count) => assert_eq!(count, forms(name), "{name} {sizes:?}"),
            Err((form, at, got)) => panic!("{name} {sizes:?}, form {form}, entry {at}: {got:e}, not {:e}", output[at]),
        }
        if name == "kernel_grad" {
            let mut part = [0.0; PART];
            assert!(matches!(play_in_parts(&vector, &mut part), Ok(entries) if entries == output.len()), "{sizes:?}");
        }
        played += 1;
    }
    assert!(played > 35, "{played} vectors");
}

#[test]
fn functions_have_recorded_bits() {
    assert_eq!(functions(), Some(FUNCTIONS));
}
