// ChaCha20 (RFC 8439): the words at an address, in the order of damper-core.

struct Words {
    const u32 *key;
    // The number of the next block, and the address.
    u32 place[4];
    u32 buffer[16];
    u32 next;
};

INLINE u32 turned(u32 x, int by) { return x << by | x >> (32 - by); }

#define QUARTER(a, b, c, d)                                                                                                               \
    a += b, d = turned(d ^ a, 16), c += d, b = turned(b ^ c, 12);                                                                          \
    a += b, d = turned(d ^ a, 8), c += d, b = turned(b ^ c, 7)

SELDOM void refill(Words *words) {
    u32 start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    for (int i = 0; i < 8; i++) {
        start[4 + i] = words->key[i];
    }
    for (int i = 0; i < 4; i++) {
        start[12 + i] = words->place[i];
    }
    u32 x0 = start[0], x1 = start[1], x2 = start[2], x3 = start[3], x4 = start[4], x5 = start[5], x6 = start[6], x7 = start[7];
    u32 x8 = start[8], x9 = start[9], xa = start[10], xb = start[11], xc = start[12], xd = start[13], xe = start[14], xf = start[15];
    for (int round = 0; round < 10; round++) {
        QUARTER(x0, x4, x8, xc);
        QUARTER(x1, x5, x9, xd);
        QUARTER(x2, x6, xa, xe);
        QUARTER(x3, x7, xb, xf);
        QUARTER(x0, x5, xa, xf);
        QUARTER(x1, x6, xb, xc);
        QUARTER(x2, x7, x8, xd);
        QUARTER(x3, x4, x9, xe);
    }
    u32 mixed[16] = {x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf};
    for (int i = 0; i < 16; i++) {
        words->buffer[i] = mixed[i] + start[i];
    }
    words->place[0]++;
    words->next = 0;
}

INLINE u32 next_word(Words *words) {
    if (words->next == 16) {
        refill(words);
    }
    return words->buffer[words->next++];
}

INLINE void open_words(Words *words, const u32 *key, u32 purpose, u32 step, u32 chunk) {
    words->key = key;
    words->place[0] = 0;
    words->place[1] = purpose;
    words->place[2] = step;
    words->place[3] = chunk;
    words->next = 16;
}

// Volatile, so that the compiler keeps the writes: the buffer may lie in memory.
INLINE void close_words(Words *words) {
    for (int i = 0; i < 16; i++) {
        ((volatile u32 *)words->buffer)[i] = 0;
    }
}
