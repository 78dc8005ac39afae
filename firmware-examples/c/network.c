/* Trains all of the digits CNN in C, as `damper compile --target c` writes it, on a board by DP-SGD until its budget is spent.
 * `compiled/src/lib.rs` does the same in Rust, and `damper train --backend portable` on a host, with the same parameters at the end.
 *
 * Memory: parameters, the run with its sum, and the network's values of one sample. No gradient. */
#include "board.h"
#include "damper.h"
#include "digits_cnn.h"

enum { BUDGET = 4, EXPECTED_BATCH = 20, TRAIN = 200, PIXELS = 64, DIM = DIGITS_CNN_PARAMS, PAINT = 0x5ca1ab1e };

extern const uint8_t images[16 + TRAIN * PIXELS], labels[8 + TRAIN]; /* images.S */
extern uint32_t bss_start, bss_end, stack_top;

static _Alignas(8) uint8_t memory[DAMPER_RUN_BYTES(DIM, 0, 0)];
static digits_cnn_memory numbers;
static float params[DIM];

static damper_status add(damper_run *run, uint32_t index) {
  float pixels[PIXELS];
  const int64_t label[1] = {labels[8 + index]};
  for (int i = 0; i < PIXELS; i++) pixels[i] = (float)images[16 + index * PIXELS + i] / 255.0f;
  return digits_cnn_add_sample(run, params, pixels, label, &numbers);
}

static damper_status step(damper_run *run) {
  uint32_t number, index;
  damper_status status = damper_step_open(run, &number);
  if (status == DAMPER_STATUS_OK) status = damper_batch_begin(run);
  while (status == DAMPER_STATUS_OK && (status = damper_batch_next(run, &index)) == DAMPER_STATUS_OK) status = add(run, index);
  return status == DAMPER_STATUS_END ? damper_step_finish(run, params, DIM) : status;
}

static damper_status train(void) {
  damper_config config = DAMPER_CONFIG_INIT;
  damper_run *run;
  uint64_t rate;
  config.grid_bits = 16;
  config.expected_batch = EXPECTED_BATCH;
  config.noise_multiplier = 1.0;
  config.learning_rate = 0.5;
  config.clip = 0.5f;
  config.budget = BUDGET;
  for (int i = 0; i < DIM; i++) params[i] = digits_cnn_initial[i];
  damper_status status = damper_sampling_rate(EXPECTED_BATCH, TRAIN, &rate);
  config.samples = TRAIN;
  config.sampling_rate = rate;
  if (status == DAMPER_STATUS_OK) status = damper_run_init(memory, sizeof memory, DIM, &run);
  if (status == DAMPER_STATUS_OK) status = damper_run_configure(run, &config);
  /* A product takes its key from the chip's true random generator, and keeps its ledger in flash. */
  if (status == DAMPER_STATUS_OK) status = damper_set_simulation_seed(run, 7);
  if (status == DAMPER_STATUS_OK) status = damper_set_volatile_store(run);
  if (status == DAMPER_STATUS_OK) status = damper_run_start(run);
  while (status == DAMPER_STATUS_OK) status = step(run);
  return status == DAMPER_STATUS_BUDGET_SPENT ? damper_run_close(run) : status;
}

/* FNV-1a, 64 bits, over the little-endian bytes of each float in order. */
static uint64_t fnv1a64(void) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (int i = 0; i < DIM; i++) {
    const union {
      float value;
      uint32_t bits;
    } word = {params[i]};
    for (int byte = 0; byte < 4; byte++) digest = (digest ^ (word.bits >> (8 * byte) & 0xff)) * 0x00000100000001b3u;
  }
  return digest;
}

int main(void) {
  /* The stack below here is painted, and scanned at the end. */
  volatile uint32_t *sp, *at;
  __asm__ volatile("mov %0, sp" : "=r"(sp)::"memory");
  for (at = &bss_end; at < sp; at++) *at = PAINT;
  const damper_status status = train();
  if (status != DAMPER_STATUS_OK) {
    say("failed: "), say(damper_status_name(status)), say("\n");
    return 1;
  }
  for (at = &bss_end; at < sp && *at == PAINT; at++);
  say("params fnv1a64 "), say_hex(fnv1a64());
  say("\nboard: "), say_number(4 * (uint32_t)(&bss_end - &bss_start)), say(" bytes of variables and ");
  say_number(4 * (uint32_t)(&stack_top - at)), say(" of stack\n");
  return at == &bss_end; /* The stack was too small to tell. */
}
