/* Private training on a Cortex-M4F in C, as `program/src/train.rs` in Rust, with the same lines at the end.
 *
 * Memory: parameters, gradient, and the run with its sum and momentum; 10.4 KB and less than 1.2 KB more. */
#include "board.h"
#include "damper.h"
#include "softmax.h"

enum { BUDGET = 40, EXPECTED_BATCH = 60, TRAIN = 300, HELD_OUT = 100 };

extern const digit digits[TRAIN + HELD_OUT]; /* digits.S */

static _Alignas(8) uint8_t memory[DAMPER_RUN_BYTES(DIM, 1, 0)];
static float params[DIM], grad[DIM];

static damper_status configure(damper_run *run, uint64_t rate) {
  const damper_config config = {
      .size = sizeof config,
      .grid_bits = 16,
      .expected_batch = EXPECTED_BATCH,
      .noise_multiplier = 1.0,
      .learning_rate = 0.5,
      .clip = 1.0f,
      .budget = BUDGET,
      .samples = TRAIN,
      .sampling_rate = rate,
  };
  damper_status status = damper_run_configure(run, &config);
  if (status == DAMPER_STATUS_OK) status = damper_choose_sgd(run, 0.9f, 0, 0.0f);
  /* A product takes its key from the chip's true random generator, and keeps its ledger in flash. */
  if (status == DAMPER_STATUS_OK) status = damper_set_simulation_seed(run, 2026);
  if (status == DAMPER_STATUS_OK) status = damper_set_volatile_store(run);
  return status == DAMPER_STATUS_OK ? damper_run_start(run) : status;
}

/* One step: the samples that the draw names, then noise and update. */
static damper_status step(damper_run *run) {
  uint32_t number, index;
  damper_status status = damper_step_open(run, &number);
  if (status == DAMPER_STATUS_OK) status = damper_batch_begin(run);
  while (status == DAMPER_STATUS_OK && (status = damper_batch_next(run, &index)) == DAMPER_STATUS_OK) {
    gradient(params, &digits[index], grad);
    status = damper_add(run, grad, DIM);
  }
  return status == DAMPER_STATUS_END ? damper_step_finish(run, params, DIM) : status;
}

static damper_status train(void) {
  damper_run *run;
  uint64_t rate;
  uint32_t is_private;
  damper_record paid;
  damper_status status = damper_sampling_rate(EXPECTED_BATCH, TRAIN, &rate);
  if (status == DAMPER_STATUS_OK) status = damper_run_init(memory, sizeof memory, DIM, &run);
  if (status == DAMPER_STATUS_OK) status = configure(run, rate);
  if (status == DAMPER_STATUS_OK) status = damper_is_private(run, &is_private);
  if (status != DAMPER_STATUS_OK) return status;
  say("train: dp-sgd, softmax of "), say_number(DIM), say(" parameters, "), say_number(TRAIN), say(" samples, ");
  say(is_private ? "private key\n" : "simulation, the key is known\n");

  while ((status = step(run)) == DAMPER_STATUS_OK) {
  }
  if (status != DAMPER_STATUS_BUDGET_SPENT) return status;

  if ((status = damper_charged_steps(run, &paid)) != DAMPER_STATUS_OK) return status;
  say("budget spent after "), say_number(paid.paid), say(" steps\n");
  uint32_t right = 0;
  for (int i = TRAIN; i < TRAIN + HELD_OUT; i++) right += (uint32_t)is_right(params, &digits[i]);
  say("held out: "), say_number(right), say(" of "), say_number(HELD_OUT), say(" right\n");
  say("params fnv1a64 "), say_hex(fnv1a64(params, DIM)), say("\n");
  return damper_run_close(run);
}

int main(void) {
  damper_status status = damper_self_test();
  if (status == DAMPER_STATUS_OK) status = train();
  if (status == DAMPER_STATUS_OK) return 0;
  say("failed: "), say(damper_status_name(status)), say("\n");
  return 1;
}
