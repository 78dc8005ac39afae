// Tables that the host writes (`src/layout.rs` has the same fields).

// Consecutive coordinates in one tensor.
struct Piece {
    // First coordinate within a row of the tensor.
    u64 offset;
    u32 part;
    // First coordinate within the block of a norm, or within the whole gradient.
    u32 at;
    u32 len;
    u32 segment;
};

// Coordinates that are clipped together.
struct Segment {
    // First block of 1024 coordinates, and first block of the next segment.
    u32 first_block;
    u32 end_block;
    // Bound of the norm on the grid, or 0 if the segment is only measured and not clipped.
    u32 units;
    float threshold;
};

// Tensor p has a row of `lens[p]` floats for each sample.
INLINE const float *row_of(const float *const *parts, const u64 *lens, u32 row, Piece piece) {
    return parts[piece.part] + (u64)row * lens[piece.part] + piece.offset;
}

INLINE bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

// Represents a missing value: a row without a norm, or a segment that adds nothing.
#define NONE 0x7fc00000u

#define LANES 8
