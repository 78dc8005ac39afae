// Fingerprints of the rows of gradients: of synthetic samples, whose gradients must have the same bits in every row.

// A bijection of 64-bit words (the finaliser of SplitMix64).
INLINE u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// A block of threads for each (tile, row): adds a word for each coordinate, made of its bits and its place, modulo 2^64.
KERNEL fingerprint(const float *const *parts, const u64 *lens, const Piece *tiles, u32 rows, u64 *prints) {
    Piece tile = tiles[blockIdx.x];
    u32 row = blockIdx.y;
    const float *grad = row_of(parts, lens, row, tile);
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < tile.len; i += blockDim.x) {
        sum += mixed((u64)(tile.at + i) << 32 | bits_of(grad[i]));
    }
    add_wrapping_of_warp(prints + row, sum);
}
