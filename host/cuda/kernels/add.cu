// Rounds the samples of a chunk onto the grid and adds them to the sum.

// Coordinates per thread, at a stride of one block.
#define EACH 8
// Maximum rows of a group, which a thread adds in 32 bits: 255 differences of at most 2^23.
#define GROUP 255

// Integer of a coordinate at a scale.
INLINE i32 rounded(float grad, float scale, float units) {
    float x = mul(grad, scale);
    float size = float_of(bits_of(x) & 0x7fffffffu);
    i32 magnitude = (i32)truncate(size > units ? units : size);
    return bits_of(x) >> 31 ? -magnitude : magnitude;
}

// One block of threads per (tile, group of rows). Adds q = trunc(g·next), subtracts q = trunc(g·before), and adds up the squares of the
// first q.
//
// `tiles` have at most EACH coordinates per thread, all of one segment and one tensor. So conditions on scales are the same for all
// threads of a warp.
KERNEL add_rows(const float *const *parts, const u64 *lens, const Piece *tiles, const Segment *segments, u32 measured, u32 rows,
                u32 rows_of_group, Scale *scales, u64 *sum) {
    Piece tile = tiles[blockIdx.x];
    u32 clipped = tile.segment, bound = segments[measured + clipped].units;
    float units = to_float(bound);
    // Squares above the bound fail in any case. They are capped, so that a row's counter cannot overflow from all warps.
    u64 cap = (u64)bound * bound + 1;
    u32 first = blockIdx.y * rows_of_group;
    u32 end = first + rows_of_group < rows ? first + rows_of_group : rows;
    i32 sums[EACH];
    for (u32 e = 0; e < EACH; e++) {
        sums[e] = 0;
    }
    bool any = false;
    for (u32 row = first; row < end; row++) {
        Scale *state = scales + (u64)clipped * rows + row;
        float next = state->next, before = state->before;
        bool adds = is_finite(next), takes_out = is_finite(before);
        // Does not read a row that adds nothing.
        if (!adds && !takes_out) {
            continue;
        }
        any = true;
        const float *grad = row_of(parts, lens, row, tile);
        // Issues all loads before the first use, so that their latencies overlap. A zero adds nothing.
        float grads[EACH];
        for (u32 e = 0; e < EACH; e++) {
            u32 i = threadIdx.x + e * blockDim.x;
            grads[e] = i < tile.len ? grad[i] : 0.0f;
        }
        u64 squares = 0;
        for (u32 e = 0; e < EACH; e++) {
            i32 q = adds ? rounded(grads[e], next, units) : 0;
            squares += (u64)((i64)q * q);
            sums[e] += q - (takes_out ? rounded(grads[e], before, units) : 0);
        }
        add_of_warp(&state->squares, squares, cap);
    }
    if (!any) {
        return;
    }
    for (u32 e = 0; e < EACH; e++) {
        u32 i = threadIdx.x + e * blockDim.x;
        if (i < tile.len && sums[e] != 0) {
            add_atomic(sum + tile.at + i, (i64)sums[e]);
        }
    }
}
