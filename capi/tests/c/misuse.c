/* Misuse of every function: a status each time, no other change, and the run continues unaffected. */
#include "run.h"
#include <math.h>

enum { SIZE = sizeof(damper_config) };

static void sizes_are_exact_and_those_that_do_not_fit_are_none(void) {
  size_t align = damper_run_align(), size = damper_run_size(DIM, 0, 0);
  CHECK(align > 0 && (align & (align - 1)) == 0);
  CHECK(damper_run_size(DIM, 3, 0) == size + 3 * 4 * DIM && damper_run_size(DIM + 1, 0, 0) == size + 4);
  CHECK(damper_run_size(DIM, 0, 5) > size);
  CHECK(damper_run_size(SIZE_MAX, 0, 0) == 0 && damper_run_size(DIM, SIZE_MAX, 0) == 0);
  CHECK(damper_run_size(DIM, 0, SIZE_MAX) == 0 && damper_run_size(SIZE_MAX / 4, 0, 0) == 0);
}

static void memory_that_does_not_fit_is_refused(void) {
  size_t size = rounded(damper_run_size(DIM, 0, 0)), least = damper_run_size(0, 0, 0);
  unsigned char *memory = walled(size);
  damper_run *run = NULL;
  memset(memory, 0xa5, size);
  IS(NULL, damper_run_init(NULL, size, DIM, &run));
  IS(NULL, damper_run_init(memory, size, DIM, NULL));
  IS(MISALIGNED, damper_run_init(memory + 1, size - 1, DIM, &run));
  IS(MISALIGNED, damper_run_init(memory, size, DIM, (damper_run **)((char *)&run + 1)));
  IS(LENGTH, damper_run_init(memory, SIZE_MAX, DIM, &run));
  IS(LENGTH, damper_run_init(memory, size, 0, &run));
  IS(TOO_SMALL, damper_run_init(memory, 0, DIM, &run));
  IS(TOO_SMALL, damper_run_init(memory, least / 2, DIM, &run));
  IS(TOO_SMALL, damper_run_init(memory, size, DIM + 64, &run));
  IS(TOO_SMALL, damper_run_init(memory, size, SIZE_MAX, &run));
  IS(OVERLAP, damper_run_init(memory, size, DIM, (damper_run **)(memory + 64)));
  CHECK(run == NULL);
  for (size_t i = 0; i < size; i++) CHECK(memory[i] == 0xa5);
  /* A vector without space in the run's memory. */
  OK(damper_run_init(memory, size, DIM, &run));
  OK(damper_run_configure(run, &CONFIG));
  IS(TOO_SMALL, damper_choose_sgd(run, 0.9f, 0, 0.0f));
  IS(TOO_SMALL, damper_choose_adam(run, 0.9, 0.99, 1e-8f, 0.0, 0));
  IS(TOO_SMALL, damper_choose_disk(run, 0.7, 0.0));
  IS(TOO_SMALL, damper_choose_inner_momentum(run, 8, 0.5));
  IS(TOO_SMALL, damper_reserve_combining(run));
  /* The rejected choice took no memory: without momentum it still fits. */
  OK(damper_choose_sgd(run, 0.0f, 0, 0.0f));
  OK(damper_run_close(run));
}

static void a_run_is_known_by_its_address(void) {
  size_t size = rounded(damper_run_size(DIM, 0, 0));
  unsigned char *memory = walled(size), *elsewhere = walled(size);
  damper_run *run, *copy = (damper_run *)elsewhere;
  damper_record record;
  uint32_t number;
  OK(damper_run_init(memory, size, DIM, &run));
  OK(damper_run_configure(run, &CONFIG));
  OK(damper_set_key(run, KEY));
  OK(damper_set_volatile_store(run));
  OK(damper_run_start(run));
  OK(damper_step_open(run, &number));
  /* A budget cannot be spent twice by copying the run. */
  memcpy(elsewhere, memory, size);
  IS(NOT_A_RUN, damper_step_abandon(copy));
  IS(NOT_A_RUN, damper_step_open(copy, &number));
  IS(NOT_A_RUN, damper_charged_steps(copy, &record));
  IS(NOT_A_RUN, damper_run_close(copy));
  IS(NULL, damper_run_close(NULL));
  IS(MISALIGNED, damper_run_close((damper_run *)(memory + 4)));
  OK(damper_run_close(run));
  for (size_t i = 0; i < size; i++) CHECK(memory[i] == 0);
  IS(NOT_A_RUN, damper_run_close(run));
  IS(NOT_A_RUN, damper_step_open(run, &number));
}

/* The sampling rate and the number of samples are the configuration's: a step takes neither, and no cost is below theirs. */
static void a_draw_is_the_configurations(void) {
  uint32_t number;
  double epsilon;
  damper_run *run = started(0, NULL);
  OK(damper_step_open(run, &number));
  REFUSED("samples", damper_batch_begin(run));
  OK(damper_run_close(run));
  damper_config drawing = CONFIG;
  drawing.samples = 2;
  drawing.sampling_rate = DAMPER_SAMPLING_RATE_ONE / 2;
  size_t size = rounded(damper_run_size(DIM, 0, 0));
  OK(damper_run_init(walled(size), size, DIM, &run));
  OK(damper_run_configure(run, &drawing));
  OK(damper_set_key(run, KEY));
  OK(damper_set_volatile_store(run));
  OK(damper_run_start(run));
  OK(damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE / 2, 1, 1e-5, &epsilon));
  REFUSED("sampling rate", damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE / 2 - 1, 1, 1e-5, &epsilon));
  OK(damper_run_close(run));
}

static void numbers_out_of_their_ranges_are_refused_by_name(void) {
  static const struct {
    damper_config config;
    const char *parameter;
  } bad[] = {
      {{SIZE, 7, 4, 1.0, 0.5, 1.0f, 8, 0, 0}, "grid bits"},
      {{SIZE, 23, 4, 1.0, 0.5, 1.0f, 8, 0, 0}, "grid bits"},
      {{SIZE, 22, 1 << 20, 1.0, 0.5, 1.0f, 8, 0, 0}, "grid bits"},
      {{SIZE, 16, 4, 0.0, 0.5, 1.0f, 8, 0, 0}, "noise multiplier"},
      {{SIZE, 16, 4, NAN, 0.5, 1.0f, 8, 0, 0}, "noise multiplier"},
      {{SIZE, 16, 4, 1e9, 0.5, 1.0f, 8, 0, 0}, "noise multiplier"},
      /* 1023 grid units, then 6476: its square is less than 10 * 2^22. */
      {{SIZE, 16, 4, 1023.0 / 65536.0, 0.5, 1.0f, 8, 0, 0}, "sigma in grid units"},
      {{SIZE, 22, 4, 6476.0 / 4194304.0, 0.5, 1.0f, 8, 0, 0}, "sigma in grid units"},
      {{SIZE, 16, 4, 1.0, 0.5, 1.0f, 0x80000001u, 0, 0}, "budget"},
      {{SIZE, 16, 4, 1.0, 0.5, 1.0f, 8, 3, DAMPER_SAMPLING_RATE_ONE + 1}, "sampling rate"},
  };
  static const struct {
    damper_config config;
    const char *parameter;
  } late[] = {
      {{SIZE, 16, 0, 1.0, 0.5, 1.0f, 8, 0, 0}, "expected_batch"},
      {{SIZE, 16, 0, 1024.0 / 65536.0, 0.5, 1.0f, 8, 0, 0}, "expected_batch"},
      {{SIZE, 22, 0, 6477.0 / 4194304.0, 0.5, 1.0f, 8, 0, 0}, "expected_batch"},
      {{SIZE, 16, 4, 1.0, 0.0, 1.0f, 8, 0, 0}, "learning rate"},
      {{SIZE, 16, 4, 1.0, NAN, 1.0f, 8, 0, 0}, "learning rate"},
      {{SIZE, 16, 4, 1.0, 0.5, 0.0f, 8, 0, 0}, "clip"},
      {{SIZE, 16, 4, 1.0, 0.5, INFINITY, 8, 0, 0}, "clip"},
      {{SIZE, 16, 4, 1.0, 0.5, NAN, 8, 0, 0}, "clip"},
  };
  static const float pole[] = {-1.5f}, b[] = {1.0f}, many[9] = {1.0f, [8] = 0.5f}, infinite[] = {INFINITY};
  damper_schedule schedule = {.size = sizeof schedule, .decay = 9};
  const damper_interval empty = {2.0f, 1.0f};
  const damper_layer layers[] = {{DIM - 1, 1 << 22}, {1, 1}}, short_[] = {{1, 1}}, no_share[] = {{DIM, 0}};
  size_t size = rounded(damper_run_size(DIM, 8, 8));
  damper_run *run;
  OK(damper_run_init(walled(size), size, DIM, &run));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    IS(RANGE, damper_run_configure(run, &bad[i].config));
    refused(run, bad[i].parameter);
  }
  for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
    OK(damper_run_configure(run, &late[i].config));
    OK(damper_set_key(run, KEY));
    OK(damper_set_volatile_store(run));
    IS(RANGE, damper_run_start(run));
    refused(run, late[i].parameter);
  }
  /* After an error the run is configured again. */
  IS(ORDER, damper_run_start(run));
  OK(damper_run_configure(run, &CONFIG));
  REFUSED("momentum", damper_choose_sgd(run, 1.0f, 0, 0.0f));
  REFUSED("momentum", damper_choose_sgd(run, NAN, 0, 0.0f));
  REFUSED("momentum", damper_choose_sgd(run, 0.0f, 1, 0.0f));
  REFUSED("weight decay", damper_choose_sgd(run, 0.5f, 1, -1.0f));
  REFUSED("beta1", damper_choose_adam(run, 1.0, 0.9, 1e-8f, 0.0, 0));
  REFUSED("floor of the second moment", damper_choose_adam_bc(run, 0.9, 0.9, 0.0f, 0.0, 0));
  REFUSED("AdaGrad's epsilon", damper_choose_adagrad(run, 0.0f, 0.0f));
  REFUSED("RMSprop's alpha", damper_choose_rmsprop(run, 1.0, 1e-8f, 0.0f));
  REFUSED("AdaGrad-norm's b_0^2", damper_choose_adagrad_norm(run, -1.0, 1e-5, 0, 0.0f, 0, 0.0f));
  REFUSED("gamma of automatic clipping", damper_choose_automatic_clip(run, 0.0f));
  REFUSED("shares of the layers", damper_choose_layers(run, layers, 2, 0.0f));
  REFUSED("shares of the layers", damper_choose_layers(run, no_share, 1, 0.0f));
  IS(LENGTH, damper_choose_layers(run, short_, 1, 0.0f));
  IS(LENGTH, damper_choose_layers(run, layers, SIZE_MAX, 0.0f));
  IS(NULL, damper_choose_layers(run, NULL, 2, 0.0f));
  REFUSED("a filter's a", damper_choose_iir(run, pole, 1, b, 1));
  REFUSED("a filter's b", damper_choose_iir(run, NULL, 0, NULL, 0));
  REFUSED("a filter's coefficients", damper_choose_iir(run, infinite, 1, b, 1));
  REFUSED("a filter's order", damper_choose_iir(run, many, 9, b, 1));
  IS(NULL, damper_choose_iir(run, NULL, 1, b, 1));
  IS(MISALIGNED, damper_choose_iir(run, (const float *)((const char *)b + 1), 1, b, 1));
  IS(OVERLAP, damper_choose_iir(run, (const float *)run, 1, b, 1));
  IS(NULL, damper_choose_named_filter(run, NULL));
  REFUSED("filter", damper_choose_named_filter(run, "no such"));
  REFUSED("kappa", damper_choose_disk(run, 0.0, 0.0));
  REFUSED("gamma", damper_choose_disk(run, 0.7, 1e-9));
  REFUSED("variances of the gain's recursion", damper_choose_disk_recursion(run, 1.0, 2.0, 0.0, 0.0));
  REFUSED("number of iterates", damper_choose_dp_pmlf(run, 9, 0.5, NULL, 0, b, 1));
  REFUSED("per-sample momentum", damper_choose_dp_pmlf(run, 2, 5.0, NULL, 0, b, 1));
  REFUSED("number of iterates", damper_choose_inner_momentum(run, 0, 0.5));
  REFUSED("unclipped fraction", damper_choose_percentile(run, 1.0, 5.0, 1.0f, 1.0f, NULL));
  REFUSED("count noise multiplier", damper_choose_percentile(run, 0.5, 0.0, 1.0f, 1.0f, NULL));
  REFUSED("least clip", damper_choose_percentile(run, 0.5, 5.0, 1.0f, 1.0f, &empty));
  REFUSED("clip", damper_choose_expected_error(run, 0, 5.0, 0.0f, 1.0f, NULL, NULL));
  REFUSED("least clip", damper_choose_expected_error(run, 0, 5.0, 1.0f, 1.0f, NULL, &empty));
  REFUSED("quantile", damper_choose_quantile(run, 0.0, 0.2, 1.5, 1.0f, NULL));
  IS(OVERLAP, damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, (const damper_interval *)run));
  REFUSED("decay", damper_choose_schedule(run, &schedule));
  IS(SIZE, damper_choose_schedule(run, &(const damper_schedule){.decay = 1}));
  schedule = (damper_schedule){.size = sizeof schedule, .noise = 3};
  REFUSED("noise", damper_choose_schedule(run, &schedule));
  schedule = (damper_schedule){.size = sizeof schedule, .noise = DAMPER_NOISE_SCHEDULE_MATCHED, .exponent = 5.0};
  REFUSED("exponent of the noise schedule", damper_choose_schedule(run, &schedule));
  schedule = (damper_schedule){.size = sizeof schedule, .noise = DAMPER_NOISE_SCHEDULE_POLYNOMIAL, .growth = 1e9, .exponent = 4.0};
  REFUSED("noise of the last step", damper_choose_schedule(run, &schedule));
  /* At the end of warm-up the noise is a 4096th, 16 grid units. */
  schedule = (damper_schedule){.size = sizeof schedule, .noise = DAMPER_NOISE_SCHEDULE_MATCHED, .warmup = 8, .exponent = 4.0};
  REFUSED("sigma in grid units", damper_choose_schedule(run, &schedule));
  IS(NULL, damper_choose_schedule(run, NULL));
  IS(OVERLAP, damper_choose_schedule(run, (const damper_schedule *)run));
  /* A slot is chosen once. */
  OK(damper_choose_sgd(run, 0.5f, 0, 0.0f));
  IS(ORDER, damper_choose_adam(run, 0.9, 0.9, 1e-8f, 0.0, 0));
  OK(damper_choose_automatic_clip(run, 0.1f));
  IS(ORDER, damper_choose_layers(run, no_share, 1, 0.0f));
  OK(damper_choose_iir(run, NULL, 0, b, 1));
  IS(ORDER, damper_choose_disk(run, 0.7, 0.0));
  OK(damper_choose_percentile(run, 0.5, 5.0, 1.0f, 1.0f, NULL));
  IS(ORDER, damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, NULL));
  schedule = (damper_schedule)DAMPER_SCHEDULE_INIT;
  OK(damper_choose_schedule(run, &schedule));
  IS(ORDER, damper_choose_schedule(run, &schedule));
  OK(damper_run_close(run));
}

static void calls_out_of_order_are_refused(void) {
  size_t size = rounded(damper_run_size(DIM, 1, 0));
  float *grad = walled(4 * DIM), *params = walled(4 * DIM), *point = walled(4 * DIM), weight;
  uint32_t number, index, is_private;
  double value;
  size_t points;
  damper_run *run;
  OK(damper_run_init(walled(size), size, DIM, &run));
  IS(ORDER, damper_run_start(run));
  IS(ORDER, damper_choose_sgd(run, 0.9f, 0, 0.0f));
  IS(ORDER, damper_set_key(run, KEY));
  IS(ORDER, damper_set_volatile_store(run));
  IS(ORDER, damper_reserve_steps(run, 2));
  IS(ORDER, damper_multiplier(run, &value));
  IS(ORDER, damper_clip(run, &weight));
  IS(NO_KEY, damper_is_private(run, &is_private));
  IS(NULL, damper_run_configure(run, NULL));
  /* A size of no version: no field after it is read. */
  for (size_t i = 0; i < 2 * sizeof(damper_config); i++) {
    if (i == sizeof(damper_config)) continue;
    size_t *sized = walled(sizeof *sized);
    *sized = i;
    IS(SIZE, damper_run_configure(run, (const damper_config *)sized));
  }
  /* A struct that was not initialised with its size. */
  IS(SIZE, damper_run_configure(run, &(const damper_config){.grid_bits = 16}));
  IS(OVERLAP, damper_run_configure(run, (const damper_config *)run));
  damper_config drawing = CONFIG;
  drawing.samples = 2;
  drawing.sampling_rate = DAMPER_SAMPLING_RATE_ONE;
  OK(damper_run_configure(run, &drawing));
  IS(ORDER, damper_run_configure(run, &CONFIG));
  IS(NO_KEY, damper_run_start(run));
  IS(NULL, damper_set_key(run, NULL));
  IS(OVERLAP, damper_set_key(run, (const uint8_t *)run));
  OK(damper_set_key(run, KEY));
  IS(NO_STORE, damper_run_start(run));
  IS(NULL, damper_set_store(run, NULL, NULL));
  OK(damper_set_volatile_store(run));
  OK(damper_reserve_combining(run));
  IS(ORDER, damper_reserve_combining(run));
  IS(RANGE, damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE, 1, 1e-5, &value));
  refused(run, "run");
  IS(ORDER, damper_step_open(run, &number));
  OK(damper_run_start(run));
  IS(ORDER, damper_run_start(run));
  IS(ORDER, damper_choose_sgd(run, 0.9f, 0, 0.0f));
  IS(ORDER, damper_set_simulation_seed(run, 1));
  IS(ORDER, damper_set_volatile_store(run));
  IS(ORDER, damper_batch_begin(run));
  IS(ORDER, damper_batch_next(run, &index));
  IS(ORDER, damper_add(run, grad, DIM));
  IS(ORDER, damper_eval_points(run, &points));
  IS(ORDER, damper_eval_point(run, 0, params, DIM, point, DIM, &weight));
  IS(ORDER, damper_combine_begin(run));
  IS(ORDER, damper_combine_eval_point(run, params, DIM, point, DIM));
  IS(ORDER, damper_combine_add(run, grad, DIM));
  IS(ORDER, damper_combine_end(run));
  IS(ORDER, damper_step_finish(run, params, DIM));
  IS(ORDER, damper_step_abandon(run));

  IS(NULL, damper_step_open(run, NULL));
  IS(OVERLAP, damper_step_open(run, (uint32_t *)run));
  OK(damper_step_open(run, &number));
  CHECK(number == 0);
  IS(ORDER, damper_step_open(run, &number));
  IS(ORDER, damper_run_configure(run, &CONFIG));
  IS(ORDER, damper_run_start(run));
  IS(ORDER, damper_multiplier(run, &value));
  IS(ORDER, damper_clip(run, &weight));
  IS(ORDER, damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE, 1, 1e-5, &value));
  IS(ORDER, damper_batch_next(run, &index));
  OK(damper_batch_begin(run));
  IS(ORDER, damper_batch_begin(run));
  IS(NULL, damper_batch_next(run, NULL));
  OK(damper_batch_next(run, &index));
  CHECK(index == 0);
  OK(damper_batch_next(run, &index));
  CHECK(index == 1);
  IS(END, damper_batch_next(run, &index));
  IS(END, damper_batch_next(run, &index));
  IS(ORDER, damper_combine_add(run, grad, DIM));
  IS(ORDER, damper_combine_end(run));
  OK(damper_combine_begin(run));
  IS(ORDER, damper_combine_end(run));
  IS(ORDER, damper_combine_add(run, grad, DIM));
  OK(damper_combine_eval_point(run, params, DIM, point, DIM));
  OK(damper_combine_add(run, grad, DIM));
  IS(ORDER, damper_combine_add(run, grad, DIM));
  IS(END, damper_combine_eval_point(run, params, DIM, point, DIM));
  OK(damper_combine_end(run));
  IS(ORDER, damper_combine_end(run));
  OK(damper_step_finish(run, params, DIM));
  IS(ORDER, damper_step_finish(run, params, DIM));

  OK(damper_step_open(run, &number));
  OK(damper_step_abandon(run));
  OK(damper_step_open(run, &number));
  CHECK(number == 2);
  /* Closing with a step open. */
  OK(damper_run_close(run));
}

static void buffers_that_do_not_fit_are_refused(void) {
  damper_run *run = started(0, NULL), *other = started(0, NULL);
  float *grad = walled(4 * DIM), *params = walled(4 * DIM), *point = walled(4 * DIM), weight, value;
  float *before = walled(4 * DIM), *within = (float *)run + 4;
  const damper_segment holes[] = {{grad, DIM}, {NULL, 1}}, short_[] = {{grad, DIM - 1}, {NULL, 0}};
  const damper_segment inside[] = {{grad, 10}, {within, DIM - 10}}, huge[] = {{grad, SIZE_MAX}, {grad, DIM + 1}};
  damper_segment many[DAMPER_MAX_SEGMENTS + 1] = {{grad, DIM}};
  uint32_t number;
  size_t points;
  for (int i = 0; i < DIM; i++) grad[i] = 0.1f, before[i] = params[i] = (float)i;
  OK(damper_step_open(run, &number));
  OK(damper_step_open(other, &number));

  IS(NULL, damper_add(run, NULL, DIM));
  IS(MISALIGNED, damper_add(run, (float *)((char *)grad + 1), DIM));
  IS(LENGTH, damper_add(run, grad, DIM - 1));
  IS(LENGTH, damper_add(run, grad, 0));
  IS(LENGTH, damper_add(run, grad, SIZE_MAX));
  IS(LENGTH, damper_add(run, grad, SIZE_MAX / 4));
  IS(OVERLAP, damper_add(run, within, DIM));
  IS(NULL, damper_add_segments(run, NULL, 1));
  IS(LENGTH, damper_add_segments(run, NULL, 0));
  IS(NULL, damper_add_segments(run, holes, 2));
  IS(LENGTH, damper_add_segments(run, short_, 2));
  IS(LENGTH, damper_add_segments(run, huge, 2));
  IS(OVERLAP, damper_add_segments(run, inside, 2));
  IS(LENGTH, damper_add_segments(run, many, DAMPER_MAX_SEGMENTS + 1));
  IS(NULL, damper_eval_points(run, NULL));
  IS(NULL, damper_eval_point(run, 0, NULL, DIM, point, DIM, &weight));
  IS(NULL, damper_eval_point(run, 0, params, DIM, NULL, DIM, &weight));
  IS(NULL, damper_eval_point(run, 0, params, DIM, point, DIM, NULL));
  IS(LENGTH, damper_eval_point(run, 0, params, DIM - 1, point, DIM, &weight));
  IS(LENGTH, damper_eval_point(run, 0, params, DIM, point, DIM + 1, &weight));
  IS(OVERLAP, damper_eval_point(run, 0, params, DIM, params, DIM, &weight));
  IS(OVERLAP, damper_eval_point(run, 0, params, DIM, within, DIM, &weight));
  IS(OVERLAP, damper_eval_point(run, 0, params, DIM, point, DIM, params + 1));
  IS(OVERLAP, damper_eval_point(run, 0, params, DIM, point, DIM, point + DIM - 1));
  IS(ORDER, damper_eval_point(run, 1, params, DIM, point, DIM, &weight));
  IS(ORDER, damper_combine_begin(run)); /* No vector was reserved. */
  IS(NULL, damper_step_finish(run, NULL, DIM));
  IS(MISALIGNED, damper_step_finish(run, (float *)((char *)params + 2), DIM));
  IS(LENGTH, damper_step_finish(run, params, DIM + 1));
  IS(LENGTH, damper_step_finish(run, params, SIZE_MAX));
  IS(OVERLAP, damper_step_finish(run, within, DIM));
  CHECK(memcmp(before, params, 4 * DIM) == 0);

  /* None of this changed the step: it ends as an undisturbed step. */
  OK(damper_add_segments(run, many, DAMPER_MAX_SEGMENTS));
  OK(damper_add(other, grad, DIM));
  OK(damper_eval_points(run, &points));
  CHECK(points == 1);
  OK(damper_step_finish(run, params, DIM));
  OK(damper_step_finish(other, before, DIM));
  CHECK(memcmp(before, params, 4 * DIM) == 0 && params[1] != 1.0f);
  OK(damper_clip(run, &value));
  CHECK(value == 1.0f);
  IS(NULL, damper_clip(run, NULL));
  IS(OVERLAP, damper_clip(run, within));
  IS(NULL, damper_multiplier(run, NULL));
  IS(NULL, damper_charged_steps(run, NULL));
  IS(NULL, damper_last_error(run, NULL));
  IS(NULL, damper_is_private(run, NULL));
  OK(damper_run_close(run));
  OK(damper_run_close(other));
}

static void a_sample_that_is_not_finite_adds_nothing(void) {
  damper_run *a = started(0, NULL), *b = started(0, NULL);
  float *grad = walled(4 * DIM), *x = walled(4 * DIM), *y = walled(4 * DIM);
  uint32_t number;
  OK(damper_step_open(a, &number));
  OK(damper_step_open(b, &number));
  for (int i = 0; i < DIM; i++) grad[i] = 0.5f;
  grad[DIM - 1] = NAN;
  OK(damper_add(a, grad, DIM));
  grad[DIM - 1] = INFINITY;
  OK(damper_add(a, grad, DIM));
  grad[DIM - 1] = 3e38f;
  OK(damper_add(a, grad, DIM));
  OK(damper_step_finish(a, x, DIM));
  OK(damper_step_finish(b, y, DIM));
  CHECK(memcmp(x, y, 4 * DIM) == 0);
  for (int i = 0; i < DIM; i++) CHECK(isfinite(x[i]));
}

/* A producer of a gradient. Its run is busy meanwhile. */
typedef struct {
  damper_run *run;
  size_t len;
  int asked;
  float grad[DIM];
} produced;

static void produce(void *context, damper_sink *sink) {
  produced *of = context;
  uint32_t number;
  of->asked++;
  if (of->run) {
    IS(BUSY, damper_step_open(of->run, &number));
    IS(BUSY, damper_add(of->run, of->grad, DIM));
    IS(BUSY, damper_run_close(of->run));
  }
  if (!damper_sink_skip(sink, 40)) damper_sink_push(sink, of->grad, 40);
  /* Unreadable values are missing. */
  damper_sink_push(sink, NULL, 5);
  damper_sink_push(NULL, of->grad, 5);
  damper_sink_push(sink, of->grad + 40, of->len - 40);
}

static void a_streamed_gradient_is_a_stored_one(void) {
  damper_run *stored = started(0, NULL), *streamed = started(0, NULL);
  produced of = {NULL, DIM, 0, {0}};
  float params[2][DIM] = {{0}}, copy[DIM + 1];
  uint32_t number;
  for (int i = 0; i < DIM; i++) of.grad[i] = (float)(i * 37 % 101) - 50.0f;
  of.run = streamed;
  IS(ORDER, damper_add_streamed(streamed, produce, &of));
  OK(damper_step_open(stored, &number));
  OK(damper_step_open(streamed, &number));
  IS(NULL, damper_add_streamed(NULL, produce, &of));
  IS(NULL, damper_add_streamed(streamed, NULL, &of));
  of.len = DIM - 1;
  IS(LENGTH, damper_add_streamed(streamed, produce, &of));
  of.len = DIM;
  of.asked = 0;
  OK(damper_add_streamed(streamed, produce, &of));
  CHECK(of.asked > 1 && damper_sink_skip(NULL, 1) == 0);
  OK(damper_add(stored, of.grad, DIM));
  OK(damper_step_finish(stored, params[0], DIM));
  OK(damper_step_finish(streamed, params[1], DIM));
  CHECK(memcmp(params[0], params[1], sizeof params[0]) == 0);
  /* Into memory. */
  of.run = NULL;
  OK(damper_store_streamed(produce, &of, copy, DIM));
  CHECK(memcmp(copy, of.grad, sizeof of.grad) == 0);
  IS(LENGTH, damper_store_streamed(produce, &of, copy, DIM - 1));
  IS(LENGTH, damper_store_streamed(produce, &of, copy, DIM + 1));
  IS(NULL, damper_store_streamed(NULL, &of, copy, DIM));
  IS(NULL, damper_store_streamed(produce, &of, NULL, DIM));
}

static void every_status_has_a_name(void) {
  CHECK(strcmp(damper_status_name(DAMPER_STATUS_OK), "DAMPER_STATUS_OK") == 0);
  CHECK(strcmp(damper_status_name(DAMPER_STATUS_BUDGET_SPENT), "DAMPER_STATUS_BUDGET_SPENT") == 0);
  CHECK(strcmp(damper_status_name(-1), damper_status_name(1000)) == 0);
  for (int32_t i = DAMPER_STATUS_NULL; i <= DAMPER_STATUS_ARITHMETIC; i++) {
    CHECK(strncmp(damper_status_name(i), "DAMPER_STATUS_", 14) == 0 && strlen(damper_status_message(i)) > 10);
  }
}

int main(void) {
  sizes_are_exact_and_those_that_do_not_fit_are_none();
  memory_that_does_not_fit_is_refused();
  a_run_is_known_by_its_address();
  numbers_out_of_their_ranges_are_refused_by_name();
  a_draw_is_the_configurations();
  calls_out_of_order_are_refused();
  buffers_that_do_not_fit_are_refused();
  a_sample_that_is_not_finite_adds_nothing();
  a_streamed_gradient_is_a_stored_one();
  every_status_has_a_name();
  CHECK(damper_exp(0.0f) == 1.0f && damper_ln(1.0f) == 0.0f && damper_sqrt(9.0f) == 3.0f && damper_bits_contract() == 3);
  return 0;
}
