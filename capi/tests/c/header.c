/* The header in C89: one step, with the macros of versions, sizes and memory. */
#include "damper.h"

#if DAMPER_VERSION < 1000L || DAMPER_VERSION_MAJOR > 1000
#error "versions are numbers of the preprocessor"
#endif

enum { DIM = 3 };

/* 64-bit words have the alignment of a run. */
static uint64_t memory[(DAMPER_RUN_BYTES(DIM, 1, 0) + 7) / 8];
static uint64_t shard_memory[(DAMPER_SHARD_BYTES(DIM) + 7) / 8];

static int persist(void *context, const damper_record *record) {
  *(uint32_t *)context = record->paid;
  return 0;
}

/* Queries change nothing: they take a const run. */
static int ask(const damper_run *run, uint32_t paid) {
  damper_record record;
  damper_last_error_text text;
  double multiplier, epsilon;
  float clip;
  uint32_t is_private;
  size_t size;
  if (damper_charged_steps(run, &record) != DAMPER_STATUS_OK || record.paid != paid) return 20;
  if (damper_last_error(run, &text) != DAMPER_STATUS_OK) return 21;
  if (damper_multiplier(run, &multiplier) != DAMPER_STATUS_OK || multiplier != 1.0) return 22;
  if (damper_clip(run, &clip) != DAMPER_STATUS_OK || clip != 1.0f) return 23;
  if (damper_is_private(run, &is_private) != DAMPER_STATUS_OK || is_private != 0) return 24;
  if (damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE, 1, 1e-5, &epsilon) != DAMPER_STATUS_OK) return 25;
  if (damper_epsilon_integer_orders(run, DAMPER_SAMPLING_RATE_ONE, 1, 1e-5, &epsilon) != DAMPER_STATUS_OK) return 26;
  if (damper_state_size(run, &size) != DAMPER_STATUS_OK) return 27;
  return 0;
}

int main(void) {
  damper_config config = DAMPER_CONFIG_INIT;
  damper_schedule schedule = DAMPER_SCHEDULE_INIT;
  float params[DIM] = {0.0f, 0.0f, 0.0f}, grad[DIM] = {0.5f, -0.5f, 0.25f}, point[DIM], weight;
  damper_run *run;
  damper_shard *shard;
  uint32_t number, paid = 0;
  size_t points;
  int answer;
  if (damper_version() != DAMPER_VERSION) return 1;
  if (damper_run_init(memory, sizeof memory, DIM, &run) != DAMPER_STATUS_OK) return 2;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_RANGE) return 3;
  config.grid_bits = 16;
  config.expected_batch = 4;
  config.noise_multiplier = 1.0;
  config.learning_rate = 0.5;
  config.clip = 1.0f;
  config.budget = 2;
  /* A size that is unknown to this library. */
  config.size += sizeof(size_t);
  if (damper_run_configure(run, &config) != DAMPER_STATUS_SIZE) return 4;
  config.size = 0;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_SIZE) return 5;
  config.size = sizeof config;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_OK) return 6;
  schedule.size--;
  if (damper_choose_schedule(run, &schedule) != DAMPER_STATUS_SIZE) return 7;
  schedule.size = sizeof schedule;
  if (damper_choose_schedule(run, &schedule) != DAMPER_STATUS_OK) return 8;
  if (damper_set_simulation_seed(run, 1) != DAMPER_STATUS_OK) return 9;
  if (damper_set_store(run, persist, &paid) != DAMPER_STATUS_OK) return 10;
  if (damper_run_start(run) != DAMPER_STATUS_OK) return 11;
  if (damper_step_open(run, &number) != DAMPER_STATUS_OK || number != 0 || paid != 1) return 12;
  if (damper_eval_points((const damper_run *)run, &points) != DAMPER_STATUS_OK || points != 1) return 13;
  if (damper_eval_point((const damper_run *)run, 0, params, DIM, point, DIM, &weight) != DAMPER_STATUS_OK) return 14;
  if (damper_shard_open(run, shard_memory, sizeof shard_memory, &shard) != DAMPER_STATUS_OK) return 15;
  if (damper_shard_add(shard, grad, DIM) != DAMPER_STATUS_OK) return 16;
  if (damper_shard_merge(run, shard) != DAMPER_STATUS_OK) return 17;
  if (damper_step_finish(run, params, DIM) != DAMPER_STATUS_OK || params[0] == 0.0f) return 18;
  answer = ask(run, paid);
  if (answer != 0) return answer;
  return damper_run_close(run) == DAMPER_STATUS_OK ? 0 : 19;
}
