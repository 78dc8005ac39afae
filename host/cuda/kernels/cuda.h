// Definitions for the kernels, for NVRTC. `emulated.h` has the same names for a C++ compiler.
//
// Every float operation of a kernel goes through one of these intrinsics, which round to nearest even and are never fused or reordered.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define KERNEL extern "C" __global__ void
#define INLINE static __device__ __forceinline__
#define SELDOM static __device__ __noinline__
#define TABLE static __device__ const

// Number of this thread along the first axis of the grid.
INLINE u64 thread_number() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

INLINE u32 bits_of(float x) { return __float_as_uint(x); }
INLINE float float_of(u32 bits) { return __uint_as_float(bits); }
INLINE float mul(float x, float y) { return __fmul_rn(x, y); }
INLINE float add(float x, float y) { return __fadd_rn(x, y); }
INLINE float sub(float x, float y) { return __fsub_rn(x, y); }
INLINE float div(float x, float y) { return __fdiv_rn(x, y); }
INLINE float root(float x) { return __fsqrt_rn(x); }
INLINE float to_float(u32 x) { return __uint2float_rn(x); }
INLINE float to_float(i64 x) { return __ll2float_rn(x); }
// Argument: 0 <= x < 2^32.
INLINE u32 truncate(float x) { return __float2uint_rz(x); }

// Adds the sum of `x` over a warp to `counter`, capped at `cap`. All threads of the warp must call it.
INLINE void add_of_warp(u64 *counter, u64 x, u64 cap) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_down_sync(0xffffffffu, x, distance);
    }
    if (threadIdx.x % 32 == 0 && x != 0) {
        atomicAdd(counter, x < cap ? x : cap);
    }
}
// The same modulo 2^64.
INLINE void add_wrapping_of_warp(u64 *counter, u64 x) { add_of_warp(counter, x, ~0ull); }
INLINE void add_atomic(u64 *to, i64 x) { atomicAdd(to, (u64)x); }
INLINE void add_atomic(u32 *to, u32 x) { atomicAdd(to, x); }
