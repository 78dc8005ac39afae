/* Only one private step, as `cortex-m/src/bin/step.rs`: exact noise, ledger, SGD with momentum, no text. Its image shows the cost of
 * the step in flash, and contains no panic. */
#include "damper.h"

enum { DIM = 64 };

static _Alignas(8) uint8_t memory[DAMPER_RUN_BYTES(DIM, 1, 0)];
static float params[DIM], grad[DIM];

static int persist(void *writes, const damper_record *record) {
  *(volatile uint32_t *)writes = record->paid;
  return 0;
}

int main(void) {
  static const uint8_t key[32] = {7, 7, 7};
  const damper_config config = {sizeof config, 16, 60, 1.0, 0.5, 1.0f, 3, 0, 0};
  const damper_record held = {.budget = 3, .paid = 1};
  const damper_segment segments[] = {{grad, 40}, {grad + 40, DIM - 40}};
  uint32_t number, paid = 0;
  damper_run *run;
  for (int i = 0; i < DIM; i++) grad[i] = i < 40 ? 0.25f : -0.25f;

  if (damper_run_init(memory, sizeof memory, DIM, &run) != DAMPER_STATUS_OK) return 1;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_OK) return 2;
  if (damper_choose_sgd(run, 0.9f, 0, 0.0f) != DAMPER_STATUS_OK) return 3;
  if (damper_set_key(run, key) != DAMPER_STATUS_OK) return 4;
  if (damper_set_store(run, persist, &paid) != DAMPER_STATUS_OK) return 5;
  if (damper_resume(run, &held) != DAMPER_STATUS_OK) return 6;
  if (damper_run_start(run) != DAMPER_STATUS_OK) return 7;
  damper_status status;
  while ((status = damper_step_open(run, &number)) == DAMPER_STATUS_OK) {
    if (damper_add_segments(run, segments, 2) != DAMPER_STATUS_OK) return 8;
    if (damper_step_finish(run, params, DIM) != DAMPER_STATUS_OK) return 9;
  }
  if (status != DAMPER_STATUS_BUDGET_SPENT || paid != 3 || number != 2) return 10;
  return damper_run_close(run) != DAMPER_STATUS_OK;
}
