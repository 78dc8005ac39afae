// The scale of each clipped segment of each row, and what follows if its integers exceed their bound.

// The state of a segment of a row.
struct Scale {
    // What is added next, and what was added before it and is taken out; NONE: nothing.
    float next;
    float before;
    float shrink;
    u32 unused;
    // The squares of the integers at `next`.
    u64 squares;
};

// A thread for each (clipped segment, row): the first scale. `measured` segments lie before the clipped ones if those are layers;
// the first segment is the whole in either case.
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

// A thread for each (clipped segment, row): the next scale if the squares exceed the bound. `failed` counts those.
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
