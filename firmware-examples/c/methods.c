/* Only the methods in C, as `cortex-m/src/bin/methods.rs`. The exit status shows which method did not end with the digest of every
 * target. It links without a single panic. */
#include "methods.h"

static _Alignas(8) uint8_t memory[DAMPER_RUN_BYTES(DIM, 4, 2)];
static float params[DIM], point[DIM], grad[DIM];

static damper_status add(damper_run *run, const digit *of) {
  damper_status status = damper_combine_begin(run);
  while (status == DAMPER_STATUS_OK && (status = damper_combine_eval_point(run, params, DIM, point, DIM)) == DAMPER_STATUS_OK) {
    gradient(point, of, grad);
    status = damper_combine_add(run, grad, DIM);
  }
  return status == DAMPER_STATUS_END ? damper_combine_end(run) : status;
}

static damper_status train(size_t index) {
  damper_run *run;
  uint32_t number, sample;
  for (int i = 0; i < DIM; i++) params[i] = 0.0f;
  damper_status status = start(index, memory, sizeof memory, 1, &run);
  while (status == DAMPER_STATUS_OK && (status = damper_step_open(run, &number)) == DAMPER_STATUS_OK) {
    status = damper_batch_begin(run);
    while (status == DAMPER_STATUS_OK && (status = damper_batch_next(run, &sample)) == DAMPER_STATUS_OK) {
      status = add(run, &digits[sample]);
    }
    if (status == DAMPER_STATUS_END) status = damper_step_finish(run, params, DIM);
  }
  return status == DAMPER_STATUS_BUDGET_SPENT ? damper_run_close(run) : status;
}

int main(void) {
  for (size_t i = 0; i < METHODS; i++) {
    if (train(i) != DAMPER_STATUS_OK || fnv1a64(params, DIM) != methods[i].digest) return (int)i + 1;
  }
  return 0;
}
