/* The run that the programs on misuse and charges start from. */
#ifndef RUN_H
#define RUN_H

#include "check.h"

enum { DIM = 70 };

static const damper_config CONFIG = {
    .size = sizeof(damper_config), .grid_bits = 16, .expected_batch = 4, .noise_multiplier = 1.0,
    .learning_rate = 0.5,          .clip = 1.0f,    .budget = 8};
static const uint8_t KEY[32] = {1, 2, 3};

/* Returns a configured run, with space for `vectors` vectors. */
static inline damper_run *configured(size_t vectors) {
  size_t size = rounded(damper_run_size(DIM, vectors, 0));
  damper_run *run;
  OK(damper_run_init(walled(size), size, DIM, &run));
  OK(damper_run_configure(run, &CONFIG));
  return run;
}

/* Returns a started run, with a volatile store, after `choose` has chosen its slots. */
static inline damper_run *started(size_t vectors, void (*choose)(damper_run *)) {
  damper_run *run = configured(vectors);
  if (choose) choose(run);
  OK(damper_set_key(run, KEY));
  OK(damper_set_volatile_store(run));
  OK(damper_run_start(run));
  return run;
}

#endif
