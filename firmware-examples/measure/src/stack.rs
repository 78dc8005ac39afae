//! Stack of a call, painted below the stack pointer just before, and scanned just after.

/// Bytes painted if no end of the stack is given.
pub const PAINTED: usize = 4096;

#[cfg(any(target_arch = "arm", target_arch = "riscv32"))]
const PAINT: u32 = 0x5741_5445;

/// Returns the bytes of stack below this function's own frame that `call` touched, or `PAINTED` if it touched that many
/// or more. Returns `None` on a system whose stack must not be painted. It works only in optimised code, because the
/// paint is below a frame that must call nothing meanwhile.
#[inline(never)]
pub fn of(call: impl FnOnce()) -> Option<usize> {
    touched(|top| top.saturating_sub(PAINTED), call).map(|(lowest, top)| top - lowest)
}

/// Returns the lowest address that `call` touched of a stack that may grow down to `end`, a multiple of 4. Returns
/// `None` on a system whose stack must not be painted. It works only in optimised code, as above.
#[inline(never)]
pub fn lowest(end: usize, call: impl FnOnce()) -> Option<usize> {
    touched(|_| end, call).map(|(lowest, _)| lowest)
}

/// Returns the lowest address that `call` touched, at or above `bottom` of the stack pointer, and the stack pointer.
#[inline(always)]
fn touched(bottom: impl FnOnce(usize) -> usize, call: impl FnOnce()) -> Option<(usize, usize)> {
    #[cfg(any(target_arch = "arm", target_arch = "riscv32"))]
    {
        let top: usize;
        // SAFETY: only reads the stack pointer.
        unsafe {
            #[cfg(target_arch = "arm")]
            core::arch::asm!("mov {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "riscv32")]
            core::arch::asm!("mv {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
        }
        let bottom = bottom(top);
        let mut at = bottom;
        while at < top {
            // SAFETY: words below the stack pointer, inside the boards' stacks. The smallest has 15 KB, and `main` uses
            // less than half of it if no end is given. No live value is there, and no interrupt is enabled.
            unsafe { core::ptr::write_volatile(at as *mut u32, PAINT) };
            at += 4;
        }
        apart(call);
        at = bottom;
        // SAFETY: as above.
        while at < top && unsafe { core::ptr::read_volatile(at as *const u32) } == PAINT {
            at += 4;
        }
        Some((at, top))
    }
    #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
    {
        let _ = bottom;
        call();
        None
    }
}

/// A separate frame for the measured call. Inlined, its variables would be above the paint.
#[cfg(any(target_arch = "arm", target_arch = "riscv32"))]
#[inline(never)]
fn apart(call: impl FnOnce()) {
    call();
}
