// Adds the noise to the sum, wipes it and writes the released mean.

#define CHUNK 1024u
#define GRADIENT_NOISE 1u

INLINE float saturated(float x) {
    u32 bits = bits_of(x);
    // The next value toward zero from an infinity is the largest finite value.
    return float_of(bits - (bits << 1 == 0xff000000u));
}

// One thread per chunk of the noise. `step` and `key` are in memory, which the host wipes. Kernel arguments would also be stored elsewhere.
KERNEL release_chunks(u64 *sum, u64 dim, const u32 *key, const u32 *step, u32 sigma, float unit, float *released) {
    u64 chunk = thread_number(), first = chunk * CHUNK;
    if (first >= dim) {
        return;
    }
    u64 end = first + CHUNK < dim ? first + CHUNK : dim;
    Words words;
    open_words(&words, key, GRADIENT_NOISE, *step, (u32)chunk);
    for (u64 i = first; i < end; i++) {
        i64 noisy = (i64)(sum[i] + (u64)draw(sigma, &words));
        sum[i] = 0;
        released[i] = saturated(mul(to_float(noisy), unit));
    }
    close_words(&words);
}
