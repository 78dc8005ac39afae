/* Softmax regression on one digit at a time: the same operations in the same order as `program/src/softmax.rs`, with the same
 * bits. Compile with -ffp-contract=off. */
#ifndef SOFTMAX_H
#define SOFTMAX_H

#include "damper.h"

enum { PIXELS = 64, CLASSES = 10, DIM = CLASSES * PIXELS + CLASSES };

/* Brightness from 0 to 16, row by row, and the digit, 0 to 9. */
typedef struct {
  uint8_t pixels[PIXELS];
  uint8_t label;
} digit;

/* Pixels as model inputs: 0 to 1, exactly. */
static inline float input(uint8_t pixel) { return (float)pixel * 0.0625f; }

/* The score of each class. */
static inline void score(const float params[DIM], const digit *of, float scores[CLASSES]) {
  const float *biases = params + CLASSES * PIXELS;
  for (int class_ = 0; class_ < CLASSES; class_++) {
    const float *row = params + class_ * PIXELS;
    scores[class_] = biases[class_];
    for (int i = 0; i < PIXELS; i++) scores[class_] += row[i] * input(of->pixels[i]);
  }
}

/* Writes the gradient of the cross-entropy of one digit to `grad`. */
static inline void gradient(const float params[DIM], const digit *of, float grad[DIM]) {
  float errors[CLASSES];
  score(params, of, errors);
  float largest = errors[0];
  for (int i = 1; i < CLASSES; i++) {
    if (errors[i] > largest) largest = errors[i];
  }
  float total = 0.0f;
  for (int i = 0; i < CLASSES; i++) {
    errors[i] = damper_exp(errors[i] - largest);
    total += errors[i];
  }
  for (int class_ = 0; class_ < CLASSES; class_++) {
    float error = errors[class_] / total;
    if (class_ == of->label) error -= 1.0f;
    float *row = grad + class_ * PIXELS;
    for (int i = 0; i < PIXELS; i++) row[i] = error * input(of->pixels[i]);
    grad[CLASSES * PIXELS + class_] = error;
  }
}

/* Returns true if the model classifies the digit correctly. */
static inline int is_right(const float params[DIM], const digit *of) {
  float scores[CLASSES];
  score(params, of, scores);
  int best = 0;
  for (int i = 1; i < CLASSES; i++) {
    if (scores[i] > scores[best]) best = i;
  }
  return best == of->label;
}

/* FNV-1a, 64 bits, over the little-endian bytes of each float in order. It finds differences and authenticates nothing. */
static inline uint64_t fnv1a64(const float *params, size_t len) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (size_t i = 0; i < len; i++) {
    union {
      float value;
      uint32_t bits;
    } word = {params[i]};
    for (int byte = 0; byte < 4; byte++) digest = (digest ^ (word.bits >> (8 * byte) & 0xff)) * 0x00000100000001b3u;
  }
  return digest;
}

#endif
