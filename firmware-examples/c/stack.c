/* Measures the stack of a step below its caller, painted just before each call and scanned just after. Fails above 1 KB. */
#include "board.h"
#include "damper.h"

enum { DIM = 64, LIMIT = 1024, PAINTED = 1024 /* words */, PAINT = 0x5ca1ab1e };

static _Alignas(8) uint8_t memory[DAMPER_RUN_BYTES(DIM, 1, 0)];
static float params[DIM], grad[DIM];
static uint32_t most;

/* Makes the call, prints its stack and keeps the maximum. The paint is below the frame of this function. */
#define MEASURED(name, call)                                                      \
  do {                                                                            \
    volatile uint32_t *sp, *at;                                                   \
    __asm__ volatile("mov %0, sp" : "=r"(sp)::"memory");                          \
    for (at = sp - PAINTED; at < sp; at++) *at = PAINT;                           \
    const damper_status answer = call;                                            \
    for (at = sp - PAINTED; at < sp && *at == PAINT; at++);                       \
    const uint32_t took = 4 * (uint32_t)(sp - at);                                \
    if (answer != DAMPER_STATUS_OK) return 1;                                     \
    if (took > most) most = took;                                                 \
    say(name " ");                                                                \
    say_number(took);                                                             \
    say("\n");                                                                    \
  } while (0)

static int persist(void *context, const damper_record *record) {
  (void)context, (void)record;
  return 0;
}

int main(void) {
  static const uint8_t key[32] = {7, 7, 7};
  const damper_config config = {sizeof config, 16, 60, 1.0, 0.5, 1.0f, 3, 0, 0};
  damper_run *run;
  uint32_t number;
  for (int i = 0; i < DIM; i++) grad[i] = i < 40 ? 0.25f : -0.25f;

  if (damper_run_init(memory, sizeof memory, DIM, &run) != DAMPER_STATUS_OK) return 2;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_OK) return 3;
  if (damper_choose_sgd(run, 0.9f, 0, 0.0f) != DAMPER_STATUS_OK) return 4;
  if (damper_set_key(run, key) != DAMPER_STATUS_OK) return 5;
  if (damper_set_store(run, persist, 0) != DAMPER_STATUS_OK) return 6;
  if (damper_run_start(run) != DAMPER_STATUS_OK) return 7;
  for (int step = 0; step < 3; step++) {
    MEASURED("open", damper_step_open(run, &number));
    MEASURED("add", damper_add(run, grad, DIM));
    MEASURED("finish", damper_step_finish(run, params, DIM));
  }
  if (damper_run_close(run) != DAMPER_STATUS_OK) return 8;
  return most > LIMIT;
}
