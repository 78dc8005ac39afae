//! Runs the compiled `truncate` on every f32 from 0 to 2^22: `rustc -O proofs/compiled.rs -o target/compiled`.

#![allow(dead_code)]

#[path = "../core/src/numerics/order.rs"]
mod order;
#[path = "../core/src/numerics/round.rs"]
mod round;

fn main() {
    for bits in 0..=4_194_304f32.to_bits() {
        let x = f32::from_bits(bits);
        let found = round::truncate(x);
        assert_eq!(f64::from(found), f64::from(x).floor(), "{x}");
    }
    println!("truncate: {} floats", 4_194_304f32.to_bits() + 1);
}
