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

/// Bytes of stack that are scanned. A step takes fewer.
const BELOW: usize = if cfg!(target_pointer_width = "64") { 1 << 15 } else { 1 << 12 };
/// Content of the stack before the run.
const PAINT: u8 = 0x5a;

/// A byte of the key.
#[inline(always)]
fn byte(index: u8) -> u8 {
    black_box(index).wrapping_mul(37).wrapping_add(11)
}

/// A word of the key with inverted bits, so that the scan does not find its own frame.
#[inline(always)]
fn inverse(index: u8) -> u32 {
    black_box(u32::from_le_bytes([0, 1, 2, 3].map(|at| !byte(4 * index + at))))
}

/// Words of the key that were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRemains {
    /// In the generator's memory.
    pub in_place: u32,
    /// Below the caller's frame: the source of the key, moved values, and values that did not fit in registers.
    pub on_stack: u32,
    /// Words found while the generator lived, at least 8. They show that the scan works.
    pub before: u32,
}

/// Words that may be on the stack. On a Cortex-M the last word of a copied key is still in a register (r6) when the
/// next function pushes it. That is 32 of 256 bits. On x86-64 there is none.
const PUSHED: RangeInclusive<u32> = if cfg!(target_arch = "x86_64") { 0..=0 } else { 0..=1 };

impl KeyRemains {
    /// Returns true if the scan works and found no more than registers that were pushed.
    #[must_use]
    pub fn is_erased(self) -> bool {
        self.in_place == 0 && PUSHED.contains(&self.on_stack) && self.before >= 8
    }
}

/// Trains with a key and scans. Returns `None` if a step was refused, or the stack pointer cannot be read.
#[inline(never)]
#[must_use]
pub fn left() -> Option<KeyRemains> {
    let top = stack_pointer()?;
    let below = top - BELOW..top;
    // SAFETY: below the stack pointer of a stack with enough room. No live value is there.
    below.clone().for_each(|at| unsafe { ptr::write_volatile(at as *mut u8, PAINT) });
    let (mut before, mut here) = (0, 0..0);
    let done = train_with_key(&mut before, &mut here);
    // The generator's memory is within the scanned stack. It is counted separately, because `Drop` must erase it.
    let (on_stack, in_place) = (found(below), found(here));
    done.map(|()| KeyRemains { in_place, on_stack, before })
}

/// Runs the sequence of a product: bytes from a source, the key, the generator, training, the end.
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
        // By reference, because a loop that takes the draw moves it with its random words.
        for _ in poisson(generator, open.number(), Rate::of(1, 2).ok()?, black_box(20)).by_ref() {
            open.add_combined(&[&[0.25; DIM]]).ok()?;
        }
        open.finish(black_box(&mut params[..]), generator).ok()?;
    }
    (black_box(&params)[0] != 0.0).then_some(())
}

/// Returns the number of words of the key in this memory, at any alignment.
#[inline(never)]
fn found(memory: Range<usize>) -> u32 {
    let (mut last, mut count) = (0u32, 0);
    for at in memory {
        // SAFETY: memory of this program: a variable of the caller's, or painted stack.
        let byte = unsafe { ptr::read_volatile(at as *const u8) };
        last = last >> 8 | u32::from(byte) << 24;
        count += u32::from((0..8).any(|index| !last == inverse(index)));
    }
    count
}

/// Returns the stack pointer, or `None` on a processor for which this function cannot read it.
#[inline(always)]
fn stack_pointer() -> Option<usize> {
    #[cfg(any(target_arch = "x86_64", target_arch = "arm", target_arch = "riscv32"))]
    {
        let top: usize;
        // SAFETY: only reads the stack pointer.
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
