//! Marks of a counted region: pairs of functions without effect that an emulator finds by name (`costs.py`).

/// A region to count.
#[derive(Clone, Copy)]
pub struct CountedRegion {
    begin: fn(),
    end: fn(),
}

impl CountedRegion {
    /// Calls `work` between the marks.
    #[inline(always)]
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        self.begin();
        let done = work();
        self.end();
        done
    }

    /// Marks the start of the region. A start is not counted if the region starts again before it ends.
    #[inline(always)]
    pub fn begin(&self) {
        (self.begin)();
    }

    /// Marks the end of the region.
    #[inline(always)]
    pub fn end(&self) {
        (self.end)();
    }
}

/// Marks by name. Their bodies differ, because a linker would fold equal bodies into one function.
macro_rules! regions {
    ($($region:ident: $begin:ident $first:literal $end:ident $second:literal;)*) => {
        $(
            #[doc = concat!("From `", stringify!($begin), "` to `", stringify!($end), "`.")]
            pub const $region: CountedRegion = CountedRegion { begin: $begin, end: $end };

            #[inline(never)]
            fn $begin() {
                core::hint::black_box($first);
            }

            #[inline(never)]
            fn $end() {
                core::hint::black_box($second);
            }
        )*
    };
}

regions! {
    STEP: begin_step 1u32 end_step 2u32;
    JOURNAL: begin_journal 23u32 end_journal 24u32;
    ADD: begin_add 3u32 end_add 4u32;
    STILL: begin_still 5u32 end_still 6u32;
    SGD: begin_sgd 7u32 end_sgd 8u32;
    MOMENTUM: begin_momentum 9u32 end_momentum 10u32;
    ADAM: begin_adam 11u32 end_adam 12u32;
    ADAM_BC: begin_adam_bc 13u32 end_adam_bc 14u32;
    ADAGRAD: begin_adagrad 15u32 end_adagrad 16u32;
    RMSPROP: begin_rmsprop 17u32 end_rmsprop 18u32;
    DOPPLER: begin_doppler 19u32 end_doppler 20u32;
    DISK: begin_disk 21u32 end_disk 22u32;
    PMLF: begin_pmlf 25u32 end_pmlf 26u32;
    MIX: begin_mix 27u32 end_mix 28u32;
    PROGRAM: begin_program 29u32 end_program 30u32;
    GRADIENT: begin_gradient 31u32 end_gradient 32u32;
}
