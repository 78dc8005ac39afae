// Definitions for the kernels, for a C++ compiler. Each thread is a call, so the bits of the kernels can be tested without a card.
// Compile without contraction of products and sums (-ffp-contract=off).

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define KERNEL static void
#define INLINE static inline
#define SELDOM static
#define TABLE static const

struct Place {
    u32 x, y;
};
static thread_local Place threadIdx, blockIdx, blockDim, gridDim;

INLINE u64 thread_number() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

INLINE u32 bits_of(float x) {
    u32 bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE float float_of(u32 bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
INLINE float mul(float x, float y) { return x * y; }
INLINE float add(float x, float y) { return x + y; }
INLINE float sub(float x, float y) { return x - y; }
INLINE float div(float x, float y) { return x / y; }
INLINE float root(float x) { return std::sqrt(x); }
INLINE float to_float(u32 x) { return (float)x; }
INLINE float to_float(i64 x) { return (float)x; }
INLINE u32 truncate(float x) { return (u32)x; }

// Integers: the order of the threads does not matter.
// On a card the cap applies to a warp, so the number of warps bounds a counter. Here it applies to each thread, and the counter saturates.
INLINE void add_of_warp(u64 *counter, u64 x, u64 cap) {
    u64 added = *counter + (x < cap ? x : cap);
    *counter = added < *counter ? ~0ull : added;
}
INLINE void add_wrapping_of_warp(u64 *counter, u64 x) { *counter += x; }
INLINE void add_atomic(u64 *to, i64 x) { *to += (u64)x; }
INLINE void add_atomic(u32 *to, u32 x) { *to += x; }
