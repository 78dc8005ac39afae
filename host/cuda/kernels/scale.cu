// Scale of each clipped segment of each row, and the next scale if its integers exceed their bound.

// State of a segment of a row.
struct Scale {
    // Scale that is added next, and the previous scale that is subtracted. NONE for nothing.
    float next;
    float before;
    float shrink;
    u32 unused;
    // Sum of the squares of the integers at `next`.
    u64 squares;
};

// One thread per (clipped segment, row) computes the first scale. The `measured` segments come before clipped segments if those are
// layers. The first segment is always the whole gradient.
KERNEL scale_first(const float *norms, const Segment *segments, u32 measured, u32 clipped, u32 rows, u32 is_automatic, float gamma,
                   Scale *scales) {
    u64 number = thread_number();
    if (number >= (u64)clipped * rows) {
        return;
    }
    Segment segment = segments[measured + number / rows];
    float whole = norms[number % rows], norm = norms[(u64)measured * rows + number];
    float larger = norm > segment.threshold ? norm : segment.threshold;
    float divisor = is_automatic ? add(norm, gamma) : larger;
    float scale = div(to_float(segment.units), divisor);
    bool adds = is_finite(whole) && is_finite(scale);
    Scale state;
    state.next = adds ? scale : float_of(NONE);
    state.before = float_of(NONE);
    state.shrink = float_of(0x35800000u); // 2^-20
    state.unused = 0;
    state.squares = 0;
    scales[number] = state;
}

// One thread per (clipped segment, row) computes the next scale if the squares exceed the bound. `failed` counts these segments.
KERNEL scale_next(const Segment *segments, u32 measured, u32 clipped, u32 rows, Scale *scales, u32 *failed) {
    u64 number = thread_number();
    if (number >= (u64)clipped * rows) {
        return;
    }
    Scale state = scales[number];
    u64 units = segments[measured + number / rows].units;
    bool exceeds = is_finite(state.next) && state.squares > units * units;
    state.before = exceeds ? state.next : float_of(NONE);
    state.next = exceeds ? mul(state.next, sub(1.0f, state.shrink)) : float_of(NONE);
    state.shrink = mul(state.shrink, 2.0f);
    state.squares = 0;
    scales[number] = state;
    if (exceeds) {
        add_atomic(failed, 1u);
    }
}
