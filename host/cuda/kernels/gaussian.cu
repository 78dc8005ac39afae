// Discrete Gaussian on the grid, with the same words as damper-core (`core/src/noise/discrete_gaussian.rs`, which has the proofs).

#define CELLS 8u
#define COIN (2u * CELLS * CELLS)
#define LAST_CELL 151u
#define DIGITS 9

// x <- x·y, rounded down. Digits are base 2^32, most significant first.
INLINE void multiply(u32 *x, const u32 *y) {
    u32 sum[DIGITS + 1];
    for (int i = 0; i <= DIGITS; i++) {
        sum[i] = 0;
    }
    for (int i = DIGITS - 1; i >= 0; i--) {
        // sum[1..] has the digits so far. Each moves one place to the right, and the last is dropped.
        u64 carry = 0;
        for (int k = DIGITS - 1; k >= 0; k--) {
            carry += (u64)x[i] * y[k] + sum[k];
            sum[k + 1] = (u32)carry;
            carry >>= 32;
        }
        sum[0] = (u32)carry;
    }
    for (int i = 0; i < DIGITS; i++) {
        x[i] = sum[i];
    }
}

// x <- x + y, with a result below 1.
INLINE void add_digits(u32 *x, const u32 *y) {
    u64 carry = 0;
    for (int i = DIGITS - 1; i >= 0; i--) {
        carry += (u64)x[i] + y[i];
        x[i] = (u32)carry;
        carry >>= 32;
    }
}

INLINE bool is_at_most(const u32 *x, const u32 *y) {
    for (int i = 0; i < DIGITS; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i];
        }
    }
    return true;
}

SELDOM u32 cell_by_all_digits(u32 head, Words *words) {
    u32 number[DIGITS], weight[DIGITS], ratio[DIGITS], sum[DIGITS];
    for (int i = 0; i < DIGITS; i++) {
        number[i] = next_word(words);
        weight[i] = 0;
        ratio[i] = RATIO[i];
        sum[i] = 0;
    }
    number[0] = head << 8 | number[0] >> 24;
    multiply(number, TOTAL);
    weight[0] = 1u << 28;
    u32 cell = 0;
    for (u32 i = 0; i < LAST_CELL; i++) {
        add_digits(sum, weight);
        cell += is_at_most(sum, number);
        multiply(weight, ratio);
        multiply(ratio, RATIO);
        multiply(ratio, RATIO);
    }
    return cell;
}

INLINE u32 cell_of(u32 head, Words *words) {
    u32 i = 0;
    for (u32 half = 32; half > 0; half /= 2) {
        i += half * (HEAD[i + half] <= head);
    }
    return HEAD[i] == head ? cell_by_all_digits(head, words) : i;
}

// Uniform below n.
INLINE u32 below(u32 n, Words *words) {
    u64 product = (u64)next_word(words) * n;
    if ((u32)product < n) {
        u32 reject_below = (0u - n) % n;
        while ((u32)product < reject_below) {
            product = (u64)next_word(words) * n;
        }
    }
    return (u32)(product >> 32);
}

// True with probability numerator/denominator.
INLINE bool is_below_ratio(u32 numerator, u32 denominator, Words *words) {
    u64 rest = numerator;
    for (;;) {
        u64 shifted = rest << 32, low = (u64)next_word(words) * denominator;
        if (low >= shifted) {
            return false;
        }
        rest = shifted - low;
        if (rest >= denominator) {
            return true;
        }
    }
}

INLINE bool accepts(u32 i, u32 a, u32 sigma, u32 coin, Words *words) {
    u32 trials = 1 + i / (COIN / 2), range = COIN * trials;
    bool has_coin = trials == 1;
    for (u32 trial = 0; trial < trials; trial++) {
        u32 last = range;
        bool odd = true;
        for (;;) {
            u32 toss = has_coin ? coin : below(last, words);
            has_coin = false;
            bool heads = toss <= 2 * i;
            for (u32 ratios = toss == 2 * i ? 2 : 1; heads && ratios > 0; ratios--) {
                heads = is_below_ratio(a, sigma, words);
            }
            if (!heads) {
                break;
            }
            last += range;
            odd = !odd;
        }
        if (!odd) {
            return false;
        }
    }
    return true;
}

// One draw, in grid units. sigma is in 1..2^31.
INLINE i64 draw(u32 sigma, Words *words) {
    u32 slots = (sigma + CELLS - 1) / CELLS;
    for (;;) {
        u32 word = next_word(words);
        u32 i = cell_of(word << 1 >> 8, words);
        u32 a = CELLS * below(slots, words) + i * (0u - sigma) % CELLS;
        if (a < sigma && accepts(i, a, sigma, word % COIN, words)) {
            i64 z = (i64)(((u64)i * sigma + a) / CELLS), negative = word >> 31;
            if ((z | (1 - negative)) != 0) {
                return (z ^ -negative) + negative;
            }
        }
    }
}
