// Norms of the samples of a chunk: sums of squares in an order that depends only on the position in the sample.
//
// A segment is split into blocks of 1024 coordinates from its first. Inside a block, coordinate i goes to lane i mod 8. Each lane is a sum
// in f32, in index order. The fold of the lanes is the block's total. The totals are added in order, in f32, with the rounding error in a
// second f32 (Knuth's two-sum).

// One thread per (lane of a block, row) computes the lane's sum.
KERNEL norm_lanes(const float *const *parts, const u64 *lens, const Piece *pieces, const u32 *first_piece, u32 blocks, u32 rows,
                  float *lanes) {
    u64 number = thread_number();
    u32 block = (u32)(number / LANES), lane = (u32)(number % LANES), row = blockIdx.y;
    if (block >= blocks) {
        return;
    }
    float sum = 0.0f;
    for (u32 p = first_piece[block]; p < first_piece[block + 1]; p++) {
        Piece piece = pieces[p];
        const float *grad = row_of(parts, lens, row, piece);
        // First coordinate of the piece in this lane.
        for (u32 i = (lane - piece.at) % LANES; i < piece.len; i += LANES) {
            sum = add(sum, mul(grad[i], grad[i]));
        }
    }
    lanes[((u64)block * rows + row) * LANES + lane] = sum;
}

// One thread per (block, row) computes the block's total. Rows are adjacent.
KERNEL norm_totals(const float *lanes, u64 count, float *totals) {
    u64 number = thread_number();
    if (number >= count) {
        return;
    }
    const float *l = lanes + number * LANES;
    totals[number] = add(add(add(l[0], l[4]), add(l[2], l[6])), add(add(l[1], l[5]), add(l[3], l[7])));
}

// One thread per (segment, row) computes the norm. A row without a norm, or that is not a sample, gets a non-finite value.
KERNEL norm_sums(const float *totals, const Segment *segments, u32 segment_count, u32 rows, const u8 *present, float *norms) {
    u64 number = thread_number();
    if (number >= (u64)segment_count * rows) {
        return;
    }
    u32 row = (u32)(number % rows);
    Segment segment = segments[number / rows];
    float high = 0.0f, low = 0.0f;
    for (u32 block = segment.first_block; block < segment.end_block; block++) {
        float total = totals[(u64)block * rows + row], sum = add(high, total), back = sub(sum, high);
        low = add(low, add(sub(high, sub(sum, back)), sub(total, back)));
        high = sum;
    }
    float norm = root(add(high, low));
    norms[number] = present[row] ? norm : float_of(NONE);
}
