/* Runs and shards in uninitialised memory: memory of `malloc` that an earlier part of the program used, and uninitialised result
 * buffers. Under valgrind's memcheck each decision that depends on such memory is an error. */
#include "check.h"

enum { DIM = 70 };

static const uint8_t KEY[32] = {9, 8, 7};
static const float A[] = {-0.9f}, B[] = {0.15f, -0.05f};

/* Uninitialised memory, which may contain an earlier run. */
static void *fresh(size_t size) {
  void *memory = malloc(size);
  CHECK(memory != NULL);
  return memory;
}

static int persist(void *context, const damper_record *record) {
  *(uint32_t *)context = record->paid;
  return 0;
}

typedef damper_status chosen(damper_run *run);

static damper_status plain(damper_run *run) { return damper_choose_sgd(run, 0.9f, 0, 0.0f); }
static damper_status disk(damper_run *run) {
  damper_status status = damper_choose_disk_recursion(run, 0.5, 0.02, 0.03, 0.5);
  return status == DAMPER_STATUS_OK ? damper_choose_adam(run, 0.9, 0.99, 1e-8f, 0.01, 0) : status;
}
static damper_status pmlf(damper_run *run) {
  damper_status status = damper_choose_dp_pmlf(run, 3, 0.5, A, 1, B, 2);
  return status == DAMPER_STATUS_OK ? damper_choose_adam_bc(run, 0.9, 0.99, 1e-6f, 0.0, 1) : status;
}
static damper_status layered(damper_run *run) {
  const damper_layer layers[] = {{30, damper_equal_share(2)}, {DIM - 30, damper_equal_share(2)}};
  damper_status status = damper_choose_layers(run, layers, 2, 0.0f);
  if (status == DAMPER_STATUS_OK) status = damper_choose_expected_error(run, 0, 5.0, 1.0f, 20.0f, NULL, NULL);
  return status == DAMPER_STATUS_OK ? damper_choose_adagrad_norm(run, 1.0, 1e-5, 1, 0.9f, 0, 0.0f) : status;
}
static damper_status inner(damper_run *run) {
  damper_status status = damper_choose_inner_momentum(run, 4, 0.5);
  return status == DAMPER_STATUS_OK ? damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, NULL) : status;
}

static chosen *const METHODS[] = {plain, disk, pmlf, layered, inner};

static damper_run *started(size_t size, chosen *choose, uint32_t *paid, const damper_record *record) {
  const damper_config config = {sizeof config, 16, 4, 1.0, 0.5, 1.0f, 8, 12, DAMPER_SAMPLING_RATE_ONE / 2};
  damper_config wrong = config;
  damper_run *run;
  wrong.clip = -1.0f;
  OK(damper_run_init(fresh(size), size, DIM, &run));
  /* A rejected choice returns its memory for the next. */
  OK(damper_run_configure(run, &wrong));
  OK(damper_choose_layers(run, &(damper_layer){DIM, damper_equal_share(1)}, 1, 0.0f));
  OK(damper_reserve_combining(run));
  OK(damper_set_key(run, KEY));
  OK(damper_set_store(run, persist, paid));
  IS(RANGE, damper_run_start(run));
  OK(damper_run_configure(run, &config));
  OK(choose(run));
  OK(damper_reserve_combining(run));
  if (record) OK(damper_resume(run, record));
  OK(damper_run_start(run));
  return run;
}

static void step(damper_run *run, float *params) {
  size_t size = damper_shard_size(DIM), points;
  float *point = fresh(4 * DIM), *grad = fresh(4 * DIM), *weight = fresh(4);
  uint32_t *number = fresh(4), *index = fresh(4);
  void *memory = fresh(size);
  damper_shard *shard;
  OK(damper_step_open(run, number));
  OK(damper_batch_begin(run));
  OK(damper_shard_open(run, memory, size, &shard));
  OK(damper_eval_points(run, &points));
  for (int i = 0; i < DIM; i++) grad[i] = 0.01f * (float)(i % 7);
  while (damper_batch_next(run, index) == DAMPER_STATUS_OK) {
    grad[*index] += 0.25f;
    OK(damper_combine_begin(run));
    while (damper_combine_eval_point(run, params, DIM, point, DIM) == DAMPER_STATUS_OK) {
      grad[0] = 0.5f * point[0];
      OK(damper_combine_add(run, grad, DIM));
    }
    OK(damper_combine_end(run));
    OK(damper_eval_point(run, points - 1, params, DIM, point, DIM, weight));
    grad[1] = *weight * point[1];
    OK(damper_shard_add(shard, grad, DIM));
  }
  if (*number % 2) OK(damper_shard_merge(run, shard));
  else OK(damper_shard_close(shard));
  IS(NOT_A_SHARD, damper_shard_close(shard));
  OK(damper_step_finish(run, params, DIM));
  free(memory), free(number), free(index), free(point), free(grad), free(weight);
}

int main(void) {
  size_t size = damper_run_size(DIM, 8, 2);
  for (size_t method = 0; method < sizeof METHODS / sizeof *METHODS; method++) {
    float params[DIM] = {0}, *clip = fresh(4);
    damper_record *record = fresh(sizeof *record);
    double *multiplier = fresh(8), *epsilon = fresh(8);
    uint32_t paid = 0, *is_private = fresh(4), digest = 0;
    size_t *length = fresh(sizeof *length);
    damper_run *run = started(size, METHODS[method], &paid, NULL);
    for (int t = 0; t < 3; t++) {
      step(run, params);
      OK(damper_state_size(run, length));
      uint8_t *state = fresh(*length);
      OK(damper_state_save(run, state, *length));
      OK(damper_charged_steps(run, record));
      OK(damper_run_close(run));
      /* A closed run is detected as long as its memory exists. */
      IS(NOT_A_RUN, damper_run_close(run));
      free(run);
      run = started(size, METHODS[method], &paid, record);
      OK(damper_state_restore(run, state, *length));
      for (size_t i = 0; i < *length; i++) digest = 31 * digest + state[i];
      free(state);
    }
    OK(damper_multiplier(run, multiplier));
    OK(damper_clip(run, clip));
    OK(damper_is_private(run, is_private));
    OK(damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE / 2, 3, 1e-5, epsilon));
    CHECK(*is_private == 1 && *multiplier == 1.0 && *clip > 0.0f && *epsilon > 0.0 && paid == 3);
    /* All released values were initialised: print a value that depends on them. */
    for (int i = 0; i < DIM; i++) digest = 31 * digest + (params[i] > 0.0f);
    printf("method %u: %08x\n", (unsigned)method, (unsigned)digest);
    OK(damper_run_close(run));
    free(run), free(clip), free(record), free(multiplier), free(epsilon), free(is_private), free(length);
  }
  return 0;
}
