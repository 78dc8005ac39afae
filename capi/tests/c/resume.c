/* Shards, Renyi filters and saved states: misuse is an error, and a divided or stopped run ends with the same bits. */
#include "check.h"
#include <math.h>
#include <pthread.h>

enum { DIM = 70, SAMPLES = 12 };

static const uint8_t KEY[32] = {4, 5, 6};

static damper_config config(uint32_t budget) {
  return (damper_config){.size = sizeof(damper_config), .grid_bits = 16, .expected_batch = 8, .noise_multiplier = 1.0, .learning_rate = 0.5, .clip = 1.0f,
                         .budget = budget, .samples = 1};
}

static damper_run *configured(size_t vectors, size_t layers, uint32_t budget) {
  const damper_config chosen = config(budget);
  size_t size = rounded(damper_run_size(DIM, vectors, layers) + (budget ? 0 : DAMPER_RENYI_FILTER_BYTES));
  damper_run *run;
  OK(damper_run_init(walled(size), size, DIM, &run));
  OK(damper_run_configure(run, &chosen));
  OK(damper_set_key(run, KEY));
  OK(damper_set_volatile_store(run));
  return run;
}

/* The gradient of sample `s` of step `t` at `x`. */
static void gradient(uint32_t t, uint32_t s, const float *x, float *grad) {
  for (uint32_t i = 0; i < DIM; i++) grad[i] = x[i] / 4 + (float)((t * 31 + s * 17 + i * 7) % 23) / 23.0f - 0.5f;
}

/* Shards ------------------------------------------------------------------------------------------------------------------- */
static damper_shard *shard_of(damper_run *run) {
  size_t size = rounded(damper_shard_size(DIM));
  damper_shard *shard;
  OK(damper_shard_open(run, walled(size), size, &shard));
  return shard;
}

struct work {
  damper_shard *shard;
  const float *params;
  uint32_t step, first;
};

static void *work(void *of) {
  struct work *mine = of;
  float grad[DIM];
  for (uint32_t s = mine->first; s < SAMPLES; s += 3) {
    gradient(mine->step, s, mine->params, grad);
    damper_segment segments[] = {{grad, 3}, {NULL, 0}, {grad + 3, DIM - 3}};
    OK(damper_shard_add_segments(mine->shard, segments, 3));
  }
  return NULL;
}

static damper_run *layered(void) {
  const damper_layer layers[] = {{30, damper_equal_share(2)}, {DIM - 30, damper_equal_share(2)}};
  damper_run *run = configured(0, 2, 6);
  OK(damper_choose_layers(run, layers, 2, 0.0f));
  OK(damper_choose_percentile(run, 0.5, 5.0, 1.0f, 2.0f, NULL));
  OK(damper_run_start(run));
  return run;
}

static void threads_end_with_the_bits_of_one(void) {
  damper_run *alone = layered(), *divided = layered();
  float x[DIM] = {0}, y[DIM] = {0}, grad[DIM];
  for (uint32_t t = 0; t < 6; t++) {
    uint32_t number;
    OK(damper_step_open(alone, &number));
    for (uint32_t s = 0; s < SAMPLES; s++) {
      gradient(t, s, x, grad);
      OK(damper_add(alone, grad, DIM));
    }
    OK(damper_step_finish(alone, x, DIM));

    OK(damper_step_open(divided, &number));
    pthread_t threads[2];
    struct work parts[2];
    for (uint32_t i = 0; i < 2; i++) {
      parts[i] = (struct work){shard_of(divided), y, t, i + 1};
      CHECK(pthread_create(&threads[i], NULL, work, &parts[i]) == 0);
    }
    for (uint32_t s = 0; s < SAMPLES; s += 3) {
      gradient(t, s, y, grad);
      OK(damper_add(divided, grad, DIM));
    }
    for (uint32_t i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(damper_shard_merge(divided, parts[1].shard));
    OK(damper_shard_merge(divided, parts[0].shard));
    OK(damper_step_finish(divided, y, DIM));
    CHECK(memcmp(x, y, sizeof x) == 0 && x[0] != 0.0f);
  }
  OK(damper_run_close(alone));
  OK(damper_run_close(divided));
}

static void shards_are_misused(void) {
  damper_run *run = layered(), *other = layered();
  size_t size = rounded(damper_shard_size(DIM));
  unsigned char *memory = walled(size), *elsewhere = walled(size);
  float x[DIM] = {0}, y[DIM] = {0}, grad[DIM];
  damper_shard *shard = NULL, *late;
  uint32_t number;
  for (int i = 0; i < DIM; i++) grad[i] = 0.25f;
  CHECK(damper_shard_size(DIM + 1) == damper_shard_size(DIM) + 4 && damper_shard_size(SIZE_MAX) == 0);
  CHECK(damper_shard_size(SIZE_MAX / 4) == 0 && DAMPER_SHARD_BYTES(DIM) >= damper_shard_size(DIM));
  memset(memory, 0xa5, size);
  IS(ORDER, damper_shard_open(run, memory, size, &shard));
  OK(damper_step_open(run, &number));
  OK(damper_step_open(other, &number));
  IS(NULL, damper_shard_open(NULL, memory, size, &shard));
  IS(NULL, damper_shard_open(run, NULL, size, &shard));
  IS(NULL, damper_shard_open(run, memory, size, NULL));
  IS(MISALIGNED, damper_shard_open(run, memory + 1, size - 1, &shard));
  IS(LENGTH, damper_shard_open(run, memory, SIZE_MAX, &shard));
  IS(TOO_SMALL, damper_shard_open(run, memory, size - 8, &shard));
  IS(TOO_SMALL, damper_shard_open(run, memory, 0, &shard));
  IS(OVERLAP, damper_shard_open(run, memory, size, (damper_shard **)(memory + 8)));
  IS(OVERLAP, damper_shard_open(run, run, size, &shard));
  IS(OVERLAP, damper_shard_open(run, memory, size, (damper_shard **)run));
  CHECK(shard == NULL);
  for (size_t i = 0; i < size; i++) CHECK(memory[i] == 0xa5);
  OK(damper_shard_open(run, memory, size, &shard));
  IS(NULL, damper_shard_add(NULL, grad, DIM));
  IS(NULL, damper_shard_add(shard, NULL, DIM));
  IS(MISALIGNED, damper_shard_add(shard, (const float *)((const char *)grad + 1), DIM));
  IS(LENGTH, damper_shard_add(shard, grad, DIM - 1));
  IS(LENGTH, damper_shard_add(shard, grad, SIZE_MAX));
  IS(OVERLAP, damper_shard_add(shard, (const float *)memory, DIM));
  IS(NULL, damper_shard_add_segments(shard, NULL, 1));
  IS(OVERLAP, damper_shard_add_segments(shard, (const damper_segment *)memory, 1));
  damper_segment many[DAMPER_MAX_SEGMENTS + 1] = {{grad, DIM}};
  IS(LENGTH, damper_shard_add_segments(shard, many, DAMPER_MAX_SEGMENTS + 1));
  grad[3] = NAN;
  OK(damper_shard_add(shard, grad, DIM)); /* Adds nothing. */
  grad[3] = 0.25f;
  OK(damper_shard_add(shard, grad, DIM));
  /* A copy is not a shard, and another run rejects it. */
  memcpy(elsewhere, memory, size);
  IS(NOT_A_SHARD, damper_shard_merge(run, (damper_shard *)elsewhere));
  IS(NOT_A_SHARD, damper_shard_close((damper_shard *)elsewhere));
  IS(ORDER, damper_shard_merge(other, shard));
  IS(NULL, damper_shard_merge(run, NULL));
  IS(NULL, damper_shard_merge(NULL, shard));
  IS(NOT_A_RUN, damper_shard_merge((damper_run *)elsewhere, shard));
  /* None of this changed the shard: it counts once. */
  OK(damper_shard_merge(run, shard));
  for (size_t i = 0; i < size; i++) CHECK(memory[i] == 0);
  IS(NOT_A_SHARD, damper_shard_merge(run, shard));
  IS(NOT_A_SHARD, damper_shard_add(shard, grad, DIM));
  late = shard_of(run);
  OK(damper_shard_add(late, grad, DIM));
  OK(damper_add(other, grad, DIM));
  OK(damper_step_finish(run, x, DIM));
  OK(damper_step_finish(other, y, DIM));
  CHECK(memcmp(x, y, sizeof x) == 0);
  /* A leftover shard adds to no later step. */
  IS(ORDER, damper_shard_merge(run, late));
  OK(damper_step_open(run, &number));
  OK(damper_step_open(other, &number));
  IS(ORDER, damper_shard_merge(run, late));
  OK(damper_shard_close(late));
  IS(NOT_A_SHARD, damper_shard_close(late));
  OK(damper_step_finish(run, x, DIM));
  OK(damper_step_finish(other, y, DIM));
  CHECK(memcmp(x, y, sizeof x) == 0);
  OK(damper_run_close(run));
  OK(damper_run_close(other));
}

/* Renyi filters ---------------------------------------------------------------------------------------------------------------- */
static damper_record last;
static int writes, fail;

static int persist(void *context, const damper_record *record) {
  (void)context;
  writes++;
  if (fail) return 1;
  last = *record;
  return 0;
}

static damper_run *filtered(const damper_record *record) {
  damper_run *run = configured(0, 0, 0);
  OK(damper_set_store(run, persist, NULL));
  OK(damper_choose_renyi_filter(run, 8, 3.0, 1e-5, record));
  OK(damper_run_start(run));
  return run;
}

static void filters_are_misused(void) {
  const damper_record ledger = {8, 3, 0.0, 0, 0}, other = {0, 3, 0.1, 9, 0}, mine = {0, 3, 0.1, 8, 0}, spent = {0, 3, NAN, 8, 0};
  uint32_t number = 7, admits = 7;
  uint64_t rate;
  damper_run *run = configured(0, 0, 8);
  OK(damper_sampling_rate(1, 50, &rate));
  REFUSED("budget", damper_choose_renyi_filter(run, 8, 3.0, 1e-5, NULL));
  /* The run's memory has no space for it. */
  OK(damper_run_close(run));
  {
    const damper_config none = config(0);
    size_t size = rounded(damper_run_size(DIM, 0, 0));
    OK(damper_run_init(walled(size), size, DIM, &run));
    OK(damper_run_configure(run, &none));
    IS(TOO_SMALL, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, NULL));
    OK(damper_run_close(run));
  }
  run = configured(0, 0, 8);
  IS(RECORD, damper_resume(run, &mine));
  OK(damper_run_start(run));
  IS(ORDER, damper_step_open_adaptive(run, 1.0, rate, &number));
  IS(ORDER, damper_fits_budget(run, 1.0, rate, &admits));
  OK(damper_run_close(run));

  run = configured(0, 0, 0);
  REFUSED("order", damper_choose_renyi_filter(run, 1, 3.0, 1e-5, NULL));
  REFUSED("order", damper_choose_renyi_filter(run, 2, 0.5, 1e-5, NULL));
  REFUSED("epsilon", damper_choose_renyi_filter(run, 8, NAN, 1e-5, NULL));
  REFUSED("delta", damper_choose_renyi_filter(run, 8, 3.0, 1.0, NULL));
  IS(RECORD, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, &ledger));
  IS(RECORD, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, &other));
  IS(MISALIGNED, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, (const damper_record *)((const char *)&mine + 1)));
  IS(OVERLAP, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, (const damper_record *)run));
  IS(ORDER, damper_step_open_adaptive(run, 1.0, rate, &number));
  /* A NaN counts as the whole budget. */
  OK(damper_choose_renyi_filter(run, 8, 3.0, 1e-5, &spent));
  IS(ORDER, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, NULL));
  IS(RECORD, damper_resume(run, &mine));
  OK(damper_run_start(run));
  IS(BUDGET_SPENT, damper_step_open_adaptive(run, 1000.0, rate, &number));
  OK(damper_run_close(run));

  run = filtered(NULL);
  IS(ORDER, damper_choose_renyi_filter(run, 8, 3.0, 1e-5, NULL));
  IS(ORDER, damper_step_open(run, &number));
  REFUSED("factor of the noise", damper_step_open_adaptive(run, 0.0, rate, &number));
  REFUSED("factor of the noise", damper_step_open_adaptive(run, NAN, rate, &number));
  REFUSED("factor of the noise", damper_fits_budget(run, INFINITY, rate, &admits));
  REFUSED("factor of the noise", damper_step_open_adaptive(run, 1e6, rate, &number));
  REFUSED("sigma in grid units", damper_step_open_adaptive(run, 1.0 / 65, rate, &number));
  REFUSED("sigma in grid units", damper_fits_budget(run, 1.0 / 65, rate, &admits));
  REFUSED("sampling rate", damper_step_open_adaptive(run, 1.0, DAMPER_SAMPLING_RATE_ONE + 1, &number));
  IS(NULL, damper_step_open_adaptive(run, 1.0, rate, NULL));
  IS(OVERLAP, damper_step_open_adaptive(run, 1.0, rate, (uint32_t *)run));
  IS(NULL, damper_fits_budget(run, 1.0, rate, NULL));
  IS(OVERLAP, damper_fits_budget(run, 1.0, rate, (uint32_t *)run));
  CHECK(number == 7 && admits == 7 && writes == 0);
  OK(damper_run_close(run));
}

/* Runs until the budget of the filter is used up. With `restart`, a new run takes the record after each step. */
static uint32_t spend(int restart, float *x) {
  damper_run *run = filtered(NULL);
  damper_record paid;
  uint32_t number = 0, steps = 0, admits;
  uint64_t rate;
  damper_status status;
  OK(damper_sampling_rate(1, 50, &rate));
  while (1) {
    double factor = x[0] > 0.0f ? 1.0 : 1.25; /* Of what was released. */
    float grad[DIM];
    OK(damper_fits_budget(run, factor, rate, &admits));
    status = damper_step_open_adaptive(run, factor, rate, &number);
    CHECK(admits == (status == DAMPER_STATUS_OK));
    if (status == DAMPER_STATUS_BUDGET_SPENT) break;
    OK(status);
    CHECK(number == 0x80000000u + steps);
    gradient(steps, 0, x, grad);
    OK(damper_batch_begin(run));
    OK(damper_add(run, grad, DIM));
    OK(damper_step_finish(run, x, DIM));
    steps++;
    OK(damper_charged_steps(run, &paid));
    CHECK(paid.paid == steps && paid.order == 8 && paid.budget == 0 && paid.divergence > 0.0);
    CHECK(memcmp(&paid.divergence, &last.divergence, sizeof(double)) == 0 && last.paid == steps && last.order == 8);
    if (restart) {
      OK(damper_run_close(run));
      run = filtered(&last);
    }
  }
  /* A step with more noise may still fit. */
  IS(BUDGET_SPENT, damper_step_open_adaptive(run, 1.0, rate, &number));
  OK(damper_run_close(run));
  printf("filter %u steps, spent %.17g\n", steps, last.divergence);
  return steps;
}

static void a_filter_pays_over_restarts(void) {
  float x[DIM] = {0}, y[DIM] = {0};
  uint32_t whole = spend(0, x), restarted = spend(1, y), number;
  uint64_t rate;
  damper_record paid;
  CHECK(whole == restarted && whole > 20 && memcmp(x, y, sizeof x) == 0);
  /* If the store fails, the step is lost. */
  damper_run *run = filtered(NULL);
  OK(damper_sampling_rate(1, 50, &rate));
  fail = 1;
  IS(NOT_PERSISTED, damper_step_open_adaptive(run, 1.0, rate, &number));
  fail = 0;
  OK(damper_step_open_adaptive(run, 1.0, rate, &number));
  CHECK(number == 0x80000001u);
  OK(damper_charged_steps(run, &paid));
  CHECK(paid.paid == 2);
  OK(damper_run_close(run));
}

/* Saved states --------------------------------------------------------------------------------------------------------------------- */
static const float A[] = {-0.9f}, B[] = {0.15f, -0.05f};

static damper_status iir_adam(damper_run *run) {
  damper_status status = damper_choose_iir(run, A, 1, B, 2);
  return status == DAMPER_STATUS_OK ? damper_choose_adam(run, 0.9, 0.99, 1e-8f, 0.01, 0) : status;
}
static damper_status pmlf_bc(damper_run *run) {
  damper_status status = damper_choose_dp_pmlf(run, 3, 0.5, A, 1, B, 2);
  return status == DAMPER_STATUS_OK ? damper_choose_adam_bc(run, 0.9, 0.99, 1e-6f, 0.0, 1) : status;
}
static damper_status inner_momentum(damper_run *run) {
  damper_status status = damper_choose_inner_momentum(run, 4, 0.5);
  return status == DAMPER_STATUS_OK ? damper_choose_sgd(run, 0.9f, 1, 0.0f) : status;
}
static damper_status disk_norm(damper_run *run) {
  damper_status status = damper_choose_disk_recursion(run, 0.5, 0.02, 0.03, 0.5);
  return status == DAMPER_STATUS_OK ? damper_choose_adagrad_norm(run, 1.0, 1e-5, 1, 0.9f, 0, 0.0f) : status;
}
static damper_status error_adagrad(damper_run *run) {
  damper_status status = damper_choose_expected_error(run, 0, 5.0, 1.0f, 20.0f, NULL, NULL);
  return status == DAMPER_STATUS_OK ? damper_choose_adagrad(run, 1e-10f, 0.0f) : status;
}
static damper_status percentile_rmsprop(damper_run *run) {
  damper_status status = damper_choose_percentile(run, 0.5, 5.0, 1.0f, 2.0f, NULL);
  return status == DAMPER_STATUS_OK ? damper_choose_rmsprop(run, 0.9, 1e-8f, 0.0f) : status;
}
static damper_status quantile_plain(damper_run *run) { return damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, NULL); }

static damper_status (*const METHODS[])(damper_run *) = {iir_adam,      pmlf_bc,            inner_momentum, disk_norm,
                                                          error_adagrad, percentile_rmsprop, quantile_plain};

enum { KINDS = sizeof METHODS / sizeof *METHODS, STEPS = 9, VECTORS = 6 };

static damper_run *started(size_t method, const damper_record *record) {
  damper_run *run = configured(VECTORS, 0, STEPS);
  OK(METHODS[method](run));
  OK(damper_reserve_combining(run));
  if (record) OK(damper_resume(run, record));
  OK(damper_run_start(run));
  return run;
}

static void step(damper_run *run, float *x) {
  float point[DIM], grad[DIM];
  uint32_t number;
  OK(damper_step_open(run, &number));
  for (uint32_t s = 0; s < 5; s++) {
    OK(damper_combine_begin(run));
    while (damper_combine_eval_point(run, x, DIM, point, DIM) == DAMPER_STATUS_OK) {
      gradient(number, s, point, grad);
      OK(damper_combine_add(run, grad, DIM));
    }
    OK(damper_combine_end(run));
  }
  OK(damper_step_finish(run, x, DIM));
}

static void a_run_that_was_stopped_ends_with_the_same_bits(void) {
  for (size_t method = 0; method < KINDS; method++) {
    float whole[DIM] = {0}, parts[DIM] = {0}, forgetful[DIM] = {0};
    damper_run *run = started(method, NULL);
    for (int t = 0; t < STEPS; t++) step(run, whole);
    OK(damper_run_close(run));

    run = started(method, NULL);
    damper_run *other = started(method, NULL);
    for (int t = 0; t < STEPS; t++) {
      size_t size, again;
      damper_record paid;
      step(run, parts);
      step(other, forgetful);
      OK(damper_state_size(run, &size));
      unsigned char *bytes = malloc(size);
      OK(damper_state_save(run, bytes, size));
      OK(damper_charged_steps(run, &paid));
      OK(damper_run_close(run));
      OK(damper_run_close(other));
      run = started(method, &paid);
      other = started(method, &paid);
      OK(damper_state_size(run, &again));
      CHECK(size == again);
      OK(damper_state_restore(run, bytes, size));
      free(bytes);
    }
    OK(damper_run_close(run));
    OK(damper_run_close(other));
    CHECK(memcmp(whole, parts, sizeof whole) == 0);
    /* Without the state it ends with other parameters. */
    CHECK(memcmp(whole, forgetful, sizeof whole) != 0);
  }
}

static void states_are_misused(void) {
  damper_run *run = started(0, NULL), *other = started(1, NULL), *fresh = started(0, NULL), *choosing = configured(VECTORS, 0, STEPS);
  float x[DIM] = {0}, y[DIM] = {0};
  size_t size = 0, others = 0;
  uint32_t number;
  step(run, x);
  step(run, x);
  memcpy(y, x, sizeof x);
  IS(NULL, damper_state_size(run, NULL));
  IS(OVERLAP, damper_state_size(run, (size_t *)run));
  IS(ORDER, damper_state_size(choosing, &size));
  OK(damper_state_size(run, &size));
  OK(damper_state_size(other, &others));
  unsigned char *bytes = walled(rounded(size)), *copy = walled(rounded(size));
  IS(ORDER, damper_state_save(choosing, bytes, size));
  IS(NULL, damper_state_save(run, NULL, size));
  IS(LENGTH, damper_state_save(run, bytes, size - 1));
  IS(LENGTH, damper_state_save(run, bytes, SIZE_MAX));
  IS(OVERLAP, damper_state_save(run, (uint8_t *)run, size));
  OK(damper_state_save(run, bytes, size));
  memcpy(copy, bytes, size);
  IS(NULL, damper_state_restore(run, NULL, size));
  IS(OVERLAP, damper_state_restore(run, (const uint8_t *)run, size));
  IS(ORDER, damper_state_restore(choosing, bytes, size));
  IS(CONFIGURATION, damper_state_restore(other, bytes, size));
  /* Newer than the ledger, which was restored from a copy. */
  IS(RECORD, damper_state_restore(fresh, bytes, size));
  for (size_t cut = 0; cut < size; cut += cut < 40 ? 1 : 37) IS(DAMAGED, damper_state_restore(run, bytes, cut));
  for (size_t at = 0; at < size; at += at < 40 ? 1 : 37) {
    copy[at] ^= 0x10;
    IS(DAMAGED, damper_state_restore(run, copy, size));
    copy[at] ^= 0x10;
  }
  OK(damper_step_open(run, &number));
  IS(ORDER, damper_state_size(run, &size));
  IS(ORDER, damper_state_save(run, bytes, size));
  IS(ORDER, damper_state_restore(run, bytes, size));
  OK(damper_step_abandon(run));
  /* A failed call changed nothing. Restoring the same state changes nothing either. */
  CHECK(memcmp(bytes, copy, size) == 0);
  OK(damper_state_save(run, bytes, size));
  CHECK(memcmp(bytes + 16, copy + 16, size - 24) == 0);
  OK(damper_state_restore(run, copy, size));
  step(run, x);
  step(fresh, y), step(fresh, y), step(fresh, y);
  OK(damper_run_close(run));
  OK(damper_run_close(other));
  OK(damper_run_close(fresh));
  OK(damper_run_close(choosing));
}

int main(void) {
  threads_end_with_the_bits_of_one();
  shards_are_misused();
  filters_are_misused();
  a_filter_pays_over_restarts();
  a_run_that_was_stopped_ends_with_the_same_bits();
  states_are_misused();
  return 0;
}
