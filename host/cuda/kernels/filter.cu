// Filters on released gradients.

// Coefficients of one delay.
struct Tap {
    float a;
    float b;
};

// Recursive filter in transposed direct form II, with one thread per coordinate. `memory` has the states of `order` delays as
// consecutive vectors. `correction` is the reciprocal of the step response.
KERNEL filter_iir(const float *released, u64 dim, float direct, const Tap *taps, u32 order, float correction, float *memory,
                  float *filtered) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float grad = released[i], y = mul(direct, grad);
    y = saturated(order > 0 ? add(y, memory[i]) : y);
    for (u32 k = 0; k < order; k++) {
        Tap tap = taps[k];
        float state = saturated(sub(mul(tap.b, grad), mul(tap.a, y)));
        bool is_last = k + 1 == order;
        memory[k * dim + i] = is_last ? state : saturated(add(state, memory[(k + 1) * dim + i]));
    }
    filtered[i] = saturated(mul(y, correction));
}

// DiSK's filter. Without weights it returns the released gradient.
KERNEL filter_kalman(const float *released, u64 dim, u32 has_weights, float keep, float take, float *kept) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float grad = released[i];
    kept[i] = has_weights ? saturated(add(mul(keep, kept[i]), mul(take, grad))) : grad;
}

// Stores the parameters before an update, and their change after it.
KERNEL keep_move(const float *params, u64 dim, u32 is_after, float *moved) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    moved[i] = is_after ? saturated(sub(params[i], moved[i])) : params[i];
}

// Look-ahead point: the parameters plus a multiple of their last change.
KERNEL point_ahead(const float *params, const float *moved, u64 dim, float gamma, float *point) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    point[i] = saturated(add(params[i], mul(gamma, moved[i])));
}
