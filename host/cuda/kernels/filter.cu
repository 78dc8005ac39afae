// Filters on released gradients.

// The coefficients of one delay.
struct Tap {
    float a;
    float b;
};

// A recursive filter in the transposed direct form II: a thread for each coordinate. `memory` has the states of `order` delays, one
// vector after the other. `correction` is the reciprocal of the step response.
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
