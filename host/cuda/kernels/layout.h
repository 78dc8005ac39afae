// The tables that the host writes (`src/layout.rs` has the same fields).

// Consecutive coordinates that lie in one tensor.
struct Piece {
    // The first of them in a row of the tensor.
    u64 offset;
    u32 part;
    // The first of them in the block of a norm, or in the whole gradient.
    u32 at;
    u32 len;
    u32 segment;
};

// Coordinates that are clipped together.
struct Segment {
    // Their first block of 1024 coordinates, and the first of the next.
    u32 first_block;
    u32 end_block;
    // The bound of their norm on the grid; 0 if they are not clipped together, but only measured.
    u32 units;
    float threshold;
};

// Tensor p has a row of `lens[p]` floats for each sample.
INLINE const float *row_of(const float *const *parts, const u64 *lens, u32 row, Piece piece) {
    return parts[piece.part] + (u64)row * lens[piece.part] + piece.offset;
}

INLINE bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

// Stands for no number: a row without a norm, a segment that adds nothing.
#define NONE 0x7fc00000u

#define LANES 8
