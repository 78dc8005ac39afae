/* Kernels of networks, for the C files that `damper compile --target c` writes. C99 and C++11.
 *
 * The contract of damper.h holds for each function. The shape of a kernel determines the lengths. All memory is initialised,
 * including that of outputs, and an output overlaps no other argument of the call. Shapes are those of `damper compile`. Another
 * shape gives wrong values or reads outside of its operands. Values are in row-major order. A boolean is a byte, 0 or 1.
 *
 * A kernel is linked if it is called. Each has the bits of `damper train --backend portable` on every target.
 */
#ifndef DAMPER_NN_H
#define DAMPER_NN_H

#include "damper.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strided reads of 1, 2 or 3 operands over one shape. */
#define DAMPER_NN_WALK(operands)                                                                        \
  struct {                                                                                              \
    size_t extents[6];                                                                                  \
    ptrdiff_t strides[operands][6];                                                                     \
    size_t starts[operands], needed[operands], len;                                                     \
  }
typedef DAMPER_NN_WALK(1) damper_nn_walk1;
typedef DAMPER_NN_WALK(2) damper_nn_walk2;
typedef DAMPER_NN_WALK(3) damper_nn_walk3;
#undef DAMPER_NN_WALK

/* Matrix products. */
typedef struct {
  size_t rows, columns, terms, a[2], b[2];
  damper_nn_walk2 stack;
  size_t needed[2], len;
} damper_nn_product_shape;

/* Reduction: the kept axes of a tensor, and the reduced axes. */
typedef struct {
  damper_nn_walk1 kept, reduced;
} damper_nn_reduction;

/* A tensor [outer, axis, inner], read or written at indices along the middle axis. */
typedef struct {
  size_t outer, axis, inner;
} damper_nn_along;

/* Windows over a plane of channels. */
typedef struct {
  size_t channels, outputs, groups;
  struct {
    size_t input, output, kernel, stride, dilation, before;
  } axes[2];
} damper_nn_window;

/* Strides of a kernel: per output channel, per image channel within its group, per tap. */
typedef struct {
  size_t output, channel, tap;
} damper_nn_strides;

/* A weight of `len` 8-bit integers: element i is (values[i] - zeros[c]) * scales[c] with c = i / inner % channels. */
typedef struct {
  const int8_t *values;
  const float *scales;
  const int8_t *zeros;
  size_t len, channels, inner;
} damper_nn_quantized;

/* Elementwise functions of `x`. */
#define DAMPER_NN_MAP(name, from, to) DAMPER_MUST_USE damper_status damper_nn_##name(const from *x, to *out, size_t len)
DAMPER_NN_MAP(abs, float, float);
DAMPER_NN_MAP(ceil, float, float);
DAMPER_NN_MAP(cos, float, float);
DAMPER_NN_MAP(erf, float, float);
DAMPER_NN_MAP(exp, float, float);
DAMPER_NN_MAP(floor, float, float);
DAMPER_NN_MAP(log, float, float);
DAMPER_NN_MAP(neg, float, float);
DAMPER_NN_MAP(reciprocal, float, float);
DAMPER_NN_MAP(relu, float, float);
DAMPER_NN_MAP(round, float, float);
DAMPER_NN_MAP(sigmoid, float, float);
DAMPER_NN_MAP(sign, float, float);
DAMPER_NN_MAP(sin, float, float);
DAMPER_NN_MAP(sqrt, float, float);
DAMPER_NN_MAP(tanh, float, float);
DAMPER_NN_MAP(not, uint8_t, uint8_t);
DAMPER_NN_MAP(is_nan, float, uint8_t);
DAMPER_NN_MAP(f32_as_bool, float, uint8_t);
DAMPER_NN_MAP(f32_as_i64, float, int64_t);
DAMPER_NN_MAP(i64_as_bool, int64_t, uint8_t);
DAMPER_NN_MAP(i64_as_f32, int64_t, float);
DAMPER_NN_MAP(bool_as_f32, uint8_t, float);
DAMPER_NN_MAP(bool_as_i64, uint8_t, int64_t);
/* Fills with the value `x`. */
DAMPER_NN_MAP(fill, float, float);
#undef DAMPER_NN_MAP
DAMPER_MUST_USE
damper_status damper_nn_clip(const float *x, float *out, size_t len, float low, float high);
DAMPER_MUST_USE
damper_status damper_nn_leaky_relu(const float *x, float *out, size_t len, float slope);

/* Functions that replace each entry of `x`, and a gate that replaces each entry of `grad` by 0 if that of `x` is not above 0. */
DAMPER_MUST_USE
damper_status damper_nn_relu_in_place(float *x, size_t len);
DAMPER_MUST_USE
damper_status damper_nn_sigmoid_in_place(float *x, size_t len);
DAMPER_MUST_USE
damper_status damper_nn_tanh_in_place(float *x, size_t len);
DAMPER_MUST_USE
damper_status damper_nn_gate_in_place(const float *x, float *grad, size_t len);
/* Adds entries of `x` to entries of `out`: the first operand of the walk is `out`, the second is `x`. */
DAMPER_MUST_USE
damper_status damper_nn_add_in_place(const damper_nn_walk2 *walk, const float *x, float *out);

/* Elementwise functions of two operands that the walk reads. */
#define DAMPER_NN_PAIR(name, from, to) \
  DAMPER_MUST_USE damper_status damper_nn_##name(const damper_nn_walk2 *walk, const from *a, const from *b, to *out)
DAMPER_NN_PAIR(add, float, float);
DAMPER_NN_PAIR(div, float, float);
DAMPER_NN_PAIR(gate, float, float);
DAMPER_NN_PAIR(max, float, float);
DAMPER_NN_PAIR(min, float, float);
DAMPER_NN_PAIR(mul, float, float);
DAMPER_NN_PAIR(pow, float, float);
DAMPER_NN_PAIR(sub, float, float);
DAMPER_NN_PAIR(whole_add, int64_t, int64_t);
DAMPER_NN_PAIR(whole_div, int64_t, int64_t);
DAMPER_NN_PAIR(whole_max, int64_t, int64_t);
DAMPER_NN_PAIR(whole_min, int64_t, int64_t);
DAMPER_NN_PAIR(whole_mul, int64_t, int64_t);
DAMPER_NN_PAIR(whole_sub, int64_t, int64_t);
DAMPER_NN_PAIR(equal_f32, float, uint8_t);
DAMPER_NN_PAIR(equal_i64, int64_t, uint8_t);
DAMPER_NN_PAIR(equal_bool, uint8_t, uint8_t);
DAMPER_NN_PAIR(greater_f32, float, uint8_t);
DAMPER_NN_PAIR(greater_i64, int64_t, uint8_t);
DAMPER_NN_PAIR(greater_or_equal_f32, float, uint8_t);
DAMPER_NN_PAIR(greater_or_equal_i64, int64_t, uint8_t);
DAMPER_NN_PAIR(less_f32, float, uint8_t);
DAMPER_NN_PAIR(less_i64, int64_t, uint8_t);
DAMPER_NN_PAIR(less_or_equal_f32, float, uint8_t);
DAMPER_NN_PAIR(less_or_equal_i64, int64_t, uint8_t);
DAMPER_NN_PAIR(and, uint8_t, uint8_t);
DAMPER_NN_PAIR(or, uint8_t, uint8_t);
DAMPER_NN_PAIR(xor, uint8_t, uint8_t);
#undef DAMPER_NN_PAIR

/* Select. Copy: a transpose, slice or expansion. Place: writes a block. Gather at `count` indices. An index out of range gives
 * DAMPER_STATUS_RANGE. */
#define DAMPER_NN_OF_TYPE(suffix, type)                                                                                                 \
  DAMPER_MUST_USE                                                                                                                       \
  damper_status damper_nn_select_##suffix(const damper_nn_walk3 *walk, const uint8_t *c, const type *a, const type *b, type *out);      \
  DAMPER_MUST_USE                                                                                                                       \
  damper_status damper_nn_copy_##suffix(const damper_nn_walk1 *walk, const type *x, type *out);                                         \
  DAMPER_MUST_USE                                                                                                                       \
  damper_status damper_nn_place_##suffix(const damper_nn_walk1 *walk, const type *x, type *out);                                        \
  DAMPER_MUST_USE                                                                                                                       \
  damper_status damper_nn_gather_##suffix(const damper_nn_along *along, const type *x, const int64_t *indices, type *out, size_t count); \
  DAMPER_MUST_USE                                                                                                                       \
  damper_status damper_nn_gather_elements_##suffix(const damper_nn_along *along, const type *x, const int64_t *indices, type *out,      \
                                                   size_t count)
DAMPER_NN_OF_TYPE(f32, float);
DAMPER_NN_OF_TYPE(i64, int64_t);
DAMPER_NN_OF_TYPE(bool, uint8_t);
#undef DAMPER_NN_OF_TYPE
DAMPER_MUST_USE
damper_status damper_nn_scatter_add(const damper_nn_along *along, const float *x, const int64_t *indices, const float *updates, float *out,
                                    size_t count);

#define DAMPER_NN_REDUCE(name) \
  DAMPER_MUST_USE damper_status damper_nn_reduce_##name(const damper_nn_reduction *reduction, const float *x, float *out)
DAMPER_NN_REDUCE(max);
DAMPER_NN_REDUCE(mean);
DAMPER_NN_REDUCE(min);
DAMPER_NN_REDUCE(product);
DAMPER_NN_REDUCE(sum);
#undef DAMPER_NN_REDUCE

DAMPER_MUST_USE
damper_status damper_nn_product(const damper_nn_product_shape *shape, const float *a, const float *b, float *out);

/* Convolution and its gradient with respect to the image. `bias` may be null. */
DAMPER_MUST_USE
damper_status damper_nn_forward(const damper_nn_window *window, const float *x, const float *kernel, const float *bias, float *out);
DAMPER_MUST_USE
damper_status damper_nn_transposed(const damper_nn_window *window, const damper_nn_strides *strides, const float *y, const float *kernel,
                                   const float *bias, float *out);

/* Pools. A mean excludes or includes the padding. */
DAMPER_MUST_USE
damper_status damper_nn_max_pool(const damper_nn_window *window, const float *x, float *out);
DAMPER_MUST_USE
damper_status damper_nn_max_pool_grad(const damper_nn_window *window, const float *dy, const float *x, const float *y, float *out);
DAMPER_MUST_USE
damper_status damper_nn_average_pool(const damper_nn_window *window, const float *x, float *out);
DAMPER_MUST_USE
damper_status damper_nn_average_pool_of_all(const damper_nn_window *window, const float *x, float *out);

/* As the functions of the same names, with the same bits, for a weight of 8-bit integers: the left or right operand of a product. */
DAMPER_MUST_USE
damper_status damper_nn_product_left(const damper_nn_product_shape *shape, const damper_nn_quantized *a, const float *b, float *out);
DAMPER_MUST_USE
damper_status damper_nn_product_right(const damper_nn_product_shape *shape, const damper_nn_quantized *b, const float *a, float *out);
DAMPER_MUST_USE
damper_status damper_nn_forward_quantized(const damper_nn_window *window, const damper_nn_quantized *kernel, const float *x,
                                          const float *bias, float *out);
DAMPER_MUST_USE
damper_status damper_nn_transposed_quantized(const damper_nn_window *window, const damper_nn_strides *strides,
                                             const damper_nn_quantized *kernel, const float *y, const float *bias, float *out);
DAMPER_MUST_USE
damper_status damper_nn_gather_quantized(const damper_nn_along *along, const damper_nn_quantized *table, const int64_t *indices, float *out,
                                         size_t count);

/* Gradients that are not in memory, for a producer: an outer product, and the gradient of a convolution's kernel, as many outputs at a time
 * as `part` holds, at least one. If the sink lacks values at the end, adding the sample fails. */
void damper_nn_outer(const float *left, size_t left_len, const float *right, size_t right_len, damper_sink *sink);
void damper_nn_kernel_grad(const damper_nn_window *window, const float *dy, const float *x, float *part, size_t part_len,
                           damper_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
