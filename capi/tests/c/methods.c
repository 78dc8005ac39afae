/* Every method of `firmware-examples/c/methods.h` on this machine: prints each name with the digest that its
 * run ends with. Every buffer is between guard pages. */
#include "check.h"
#include "methods.h"

typedef struct {
  float *params, *point, *grad, *mixed;
} buffers;

/* Methods of adding the samples of a step: all must end with the same bits. */
typedef enum { BY_POINTS, BY_POINTS_IN_PIECES, MIXED_OUTSIDE } handing;

static void add(damper_run *run, handing how, const digit *of, buffers b) {
  const damper_segment segments[] = {{b.grad, 640}, {NULL, 0}, {b.grad + 640, 3}, {b.grad + 643, 7}};
  damper_status status;
  if (how == MIXED_OUTSIDE) {
    size_t points;
    OK(damper_eval_points(run, &points));
    for (size_t index = 0; index < points; index++) {
      float weight;
      OK(damper_eval_point(run, index, b.params, DIM, b.point, DIM, &weight));
      gradient(b.point, of, b.grad);
      for (int i = 0; i < DIM; i++) {
        float product = weight * b.grad[i];
        b.mixed[i] = index == 0 ? product : b.mixed[i] + product;
      }
    }
    OK(damper_add(run, b.mixed, DIM));
    return;
  }
  OK(damper_combine_begin(run));
  while ((status = damper_combine_eval_point(run, b.params, DIM, b.point, DIM)) == DAMPER_STATUS_OK) {
    gradient(b.point, of, b.grad);
    if (how == BY_POINTS) OK(damper_combine_add(run, b.grad, DIM));
    else OK(damper_combine_add_segments(run, segments, 4));
  }
  CHECK(status == DAMPER_STATUS_END);
  OK(damper_combine_end(run));
}

static uint64_t train(size_t method, handing how) {
  size_t vectors = methods[method].vectors + (how != MIXED_OUTSIDE), layers = methods[method].layers;
  size_t size = rounded(damper_run_size(DIM, vectors, layers));
  CHECK(size <= DAMPER_RUN_BYTES(DIM, vectors, layers));
  buffers b = {walled(4 * DIM), walled(4 * DIM), walled(4 * DIM), walled(4 * DIM)};
  damper_run *run;
  uint32_t number, index;
  damper_status status;
  OK(start(method, walled(size), size, how != MIXED_OUTSIDE, &run));
  while ((status = damper_step_open(run, &number)) == DAMPER_STATUS_OK) {
    OK(damper_batch_begin(run));
    while ((status = damper_batch_next(run, &index)) == DAMPER_STATUS_OK) add(run, how, &digits[index], b);
    CHECK(status == DAMPER_STATUS_END);
    OK(damper_step_finish(run, b.params, DIM));
  }
  CHECK(status == DAMPER_STATUS_BUDGET_SPENT && number == STEPS - 1);
  OK(damper_run_close(run));
  return fnv1a64(b.params, DIM);
}

int main(void) {
  for (size_t method = 0; method < METHODS; method++) {
    uint64_t digest = train(method, BY_POINTS);
    CHECK(train(method, BY_POINTS_IN_PIECES) == digest);
    CHECK(train(method, MIXED_OUTSIDE) == digest);
    printf("%s %016llx\n", methods[method].name, (unsigned long long)digest);
  }
  return 0;
}
