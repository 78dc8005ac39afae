//! Searches memory for traces of a run's key: the generator's own memory, and the stack below.

use core::hint::black_box;
use core::ops::{Range, RangeInclusive};
use core::ptr;
use damper_core::accounting::{Ledger, Rate};
use damper_core::noise::{ChaCha20, Key};
use damper_core::optimizer::SgdState;
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::step::StepState;
use damper_firmware_program::step::{self, DIM};

/// Bytes of stack that are scanned: more than a step takes.
const BELOW: usize = if cfg!(target_pointer_width = "64") { 1 << 15 } else { 1 << 12 };
/// What the stack holds before.
const PAINT: u8 = 0x5a;

/// A byte of the key.
#[inline(always)]
fn byte(index: u8) -> u8 {
    black_box(index).wrapping_mul(37).wrapping_add(11)
}

/// A word of the key, each bit turned: the scan must not find what it looks for in its own frame.
#[inline(always)]
fn inverse(index: u8) -> u32 {
    black_box(u32::from_le_bytes([0, 1, 2, 3].map(|at| !byte(4 * index + at))))
}

/// Words of the key that were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRemains {
    /// Where the generator was.
    pub in_place: u32,
    /// Below the caller's frame: where the key came from, what was moved, what registers did not hold.
    pub on_stack: u32,
    /// Words found while the generator lived: the scan sees them, 8 and more.
    pub before: u32,
}

/// Words that may lie on the stack: on a Cortex-M the last word of a copied key is still in a register (r6) when the next function
/// pushes it. 32 of 256 bits; on x86-64 there is none.
const PUSHED: RangeInclusive<u32> = if cfg!(target_arch = "x86_64") { 0..=0 } else { 0..=1 };

impl KeyRemains {
    /// Returns true if the scan works and found no more than registers that were pushed.
    #[must_use]
    pub fn is_erased(self) -> bool {
        self.in_place == 0 && PUSHED.contains(&self.on_stack) && self.before >= 8
    }
}

/// Trains with a key and scans. `None` where a step was refused, or the stack pointer cannot be read.
#[inline(never)]
#[must_use]
pub fn left() -> Option<KeyRemains> {
    let top = stack_pointer()?;
    let below = top - BELOW..top;
    // SAFETY: below the stack pointer of a stack that has room for it; nothing lives there.
    below.clone().for_each(|at| unsafe { ptr::write_volatile(at as *mut u8, PAINT) });
    let (mut before, mut here) = (0, 0..0);
    let done = train_with_key(&mut before, &mut here);
    // The place is within the stack that was scanned; it is told apart, for that is what `Drop` is for.
    let (on_stack, in_place) = (found(below), found(here));
    done.map(|()| KeyRemains { in_place, on_stack, before })
}

/// As a product does: bytes from somewhere, the key, the generator, training, the end.
#[inline(never)]
fn train_with_key(before: &mut u32, here: &mut Range<usize>) -> Option<()> {
    let mut bytes = [0; 32];
    for (index, place) in (0..).zip(&mut bytes) {
        *place = byte(index);
    }
    let generator = ChaCha20::<1>::from_key(Key::from_bytes(black_box(&mut bytes)));
    let start = ptr::from_ref(&generator).addr();
    *here = start..start + size_of_val(&generator);
    *before = found(here.clone());
    train(black_box(&generator))
}

/// Two steps, with draws.
#[inline(never)]
fn train(generator: &ChaCha20) -> Option<()> {
    let step = step::with_momentum()?;
    let (mut sum, mut momentum, mut params) = ([SumWord::ZERO; DIM], [0f32; DIM], [0f32; DIM]);
    let mut ledger = Ledger::volatile(black_box(2));
    let mut state =
        StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: black_box(&mut momentum[..]) }, ());
    while let Ok(mut open) = step.open(&mut state, &mut ledger) {
        // By reference: a loop that takes the draw moves it, words and all.
        for _ in poisson(generator, open.number(), Rate::of(1, 2).ok()?, black_box(20)).by_ref() {
            open.add_combined(&[&[0.25; DIM]]).ok()?;
        }
        open.finish(black_box(&mut params[..]), generator).ok()?;
    }
    (black_box(&params)[0] != 0.0).then_some(())
}

/// How many words of the key lie in this memory, at whatever alignment.
#[inline(never)]
fn found(memory: Range<usize>) -> u32 {
    let (mut last, mut count) = (0u32, 0);
    for at in memory {
        // SAFETY: memory of this program: a variable of the caller's, or stack that was painted.
        let byte = unsafe { ptr::read_volatile(at as *const u8) };
        last = last >> 8 | u32::from(byte) << 24;
        count += u32::from((0..8).any(|index| !last == inverse(index)));
    }
    count
}

/// The stack pointer; `None` on a processor for which this does not say how to read it.
#[inline(always)]
fn stack_pointer() -> Option<usize> {
    #[cfg(any(target_arch = "x86_64", target_arch = "arm", target_arch = "riscv32"))]
    {
        let top: usize;
        // SAFETY: reads the stack pointer and nothing else.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("mov {}, rsp", out(reg) top, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "arm")]
            core::arch::asm!("mov {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "riscv32")]
            core::arch::asm!("mv {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
        }
        Some(top)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "arm", target_arch = "riscv32")))]
    None
}
