/* Every method of `program/src/methods.rs` as a C program chooses it, with the digest of its run on every target. */
#ifndef METHODS_H
#define METHODS_H

#include "softmax.h"

enum { STEPS = 6, EXPECTED_BATCH = 30, TRAIN = 300, HELD_OUT = 100 };

extern const digit digits[TRAIN + HELD_OUT]; /* digits.S */

static const float A[] = {-0.9f}, B[] = {0.15f, -0.05f}, ONE[] = {1.0f};

/* A configured run has SGD without momentum. */
static damper_status plain(damper_run *run) { return run ? DAMPER_STATUS_OK : DAMPER_STATUS_NULL; }
static damper_status momentum(damper_run *run) { return damper_choose_sgd(run, 0.9f, 0, 0.0f); }
static damper_status doppler(damper_run *run) { return damper_choose_iir(run, A, 1, B, 2); }
static damper_status named(damper_run *run) { return damper_choose_named_filter(run, "P6"); }
static damper_status order_0(damper_run *run) { return damper_choose_iir(run, NULL, 0, ONE, 1); }
static damper_status dp_pmlf(damper_run *run) { return damper_choose_dp_pmlf(run, 3, 0.5, A, 1, B, 2); }
static damper_status disk(damper_run *run) { return damper_choose_disk(run, 0.7, 0.0); }
static damper_status disk_two(damper_run *run) { return damper_choose_disk(run, 0.7, 0.5); }
static damper_status inner_outer(damper_run *run) {
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_inner_momentum(run, 2, 0.9);
}
static damper_status dc_sgd_p(damper_run *run) {
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_percentile(run, 0.5, 5.0, 1.0f, 1.0f, NULL);
}
static damper_status dc_sgd_e(damper_run *run) {
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_expected_error(run, 0, 5.0, 1.0f, 20.0f, NULL, NULL);
}
static damper_status dc_sgd_e_exact(damper_run *run) {
  const damper_interval wide = {1e-8f, 1e8f};
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_expected_error(run, 1, 5.0, 1.0f, 20.0f, &wide, &wide);
}
static damper_status quantile(damper_run *run) {
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, NULL);
}
static damper_status adp(damper_run *run) {
  const damper_schedule schedule = {.size = sizeof schedule,
                                    .decay = DAMPER_LR_DECAY_POLYNOMIAL,
                                    .noise = DAMPER_NOISE_SCHEDULE_MATCHED,
                                    .warmup = 1,
                                    .offset = 2.0,
                                    .slope = 1.0,
                                    .exponent = 0.5};
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_schedule(run, &schedule);
}
static damper_status automatic(damper_run *run) {
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_automatic_clip(run, 0.01f);
}
static damper_status per_layer(damper_run *run) {
  const damper_layer layers[] = {{DIM - 10, damper_equal_share(2)}, {10, damper_equal_share(2)}};
  damper_status status = momentum(run);
  if (status != DAMPER_STATUS_OK) return status;
  return damper_choose_layers(run, layers, 2, 0.0f);
}
static damper_status nesterov(damper_run *run) { return damper_choose_sgd(run, 0.9f, 1, 0.0f); }
static damper_status adamw(damper_run *run) { return damper_choose_adam(run, 0.9, 0.999, 1e-8f, 0.01, 0); }
static damper_status adam_bc(damper_run *run) { return damper_choose_adam_bc(run, 0.9, 0.999, 1e-6f, 0.0, 0); }
static damper_status adagrad(damper_run *run) { return damper_choose_adagrad(run, 1e-10f, 0.0f); }
static damper_status rmsprop(damper_run *run) { return damper_choose_rmsprop(run, 0.99, 1e-8f, 0.0f); }
static damper_status adagrad_norm(damper_run *run) {
  return damper_choose_adagrad_norm(run, 1.0, 1e-5, 1, 0.9f, 0, 0.0f);
}

/* Each method with its number of vectors and layers in addition to the sum, and its learning rate. */
static const struct {
  const char *name;
  damper_status (*choose)(damper_run *);
  size_t vectors, layers;
  double learning_rate;
  uint64_t digest;
} methods[] = {
    {"dp-sgd", plain, 0, 0, 2.0, 0xabb3346550a48ac0u},
    {"doppler", doppler, 1, 0, 2.0, 0x20a940d117ba8aceu},
    {"doppler, by name", named, 1, 0, 2.0, 0x20a940d117ba8aceu},
    {"dp-pmlf", dp_pmlf, 3, 0, 2.0, 0x4a1b755366018a04u},
    {"disk", disk, 2, 0, 2.0, 0x2145e2605cf51fc7u},
    {"disk, two points", disk_two, 2, 0, 2.0, 0xbedd96844bd21e50u},
    {"dc-sgd-p", dc_sgd_p, 1, 0, 0.5, 0xfef777d1cf668011u},
    {"dc-sgd-e", dc_sgd_e, 1, 0, 0.5, 0x25759273a6fc09d0u},
    {"dc-sgd-e, exact", dc_sgd_e_exact, 1, 0, 0.5, 0xe33b0922bc6f3810u},
    {"adp", adp, 1, 0, 2.0, 0xd95108cd76ae1752u},
    {"quantile", quantile, 1, 0, 0.5, 0x2f675661d7284719u},
    {"inner-outer", inner_outer, 2, 0, 0.5, 0x7ad309198c131aa0u},
    {"automatic", automatic, 1, 0, 0.5, 0x9ec087a4db98f7f8u},
    {"per-layer", per_layer, 1, 2, 0.5, 0x706da298b9cc9396u},
    {"nesterov", nesterov, 1, 0, 0.5, 0x990e0abdeca15bdcu},
    {"adamw", adamw, 2, 0, 0.02, 0xd477a69881b7b15au},
    {"adam-bc", adam_bc, 2, 0, 0.02, 0x9e154b68a30edc8au},
    {"adagrad", adagrad, 1, 0, 0.1, 0x25e44e6fc63c960fu},
    {"rmsprop", rmsprop, 1, 0, 0.02, 0x2e33ed947daf5dc6u},
    {"adagrad-norm", adagrad_norm, 1, 0, 2.0, 0xff69f74ef7eef5eau},
    {"filter of order 0", order_0, 0, 0, 2.0, 0xabb3346550a48ac0u},
};

enum { METHODS = sizeof methods / sizeof *methods };

/* A run of method `index` in this memory, started. */
static damper_status start(size_t index, void *memory, size_t size, int with_mixing, damper_run **run) {
  uint64_t rate;
  damper_status status = damper_sampling_rate(EXPECTED_BATCH, TRAIN, &rate);
  const damper_config config = {.size = sizeof config,
                                .grid_bits = 16,
                                .expected_batch = EXPECTED_BATCH,
                                .noise_multiplier = 1.0,
                                .learning_rate = methods[index].learning_rate,
                                .clip = 1.0f,
                                .budget = STEPS,
                                .samples = TRAIN,
                                .sampling_rate = rate};
  if (status == DAMPER_STATUS_OK) status = damper_run_init(memory, size, DIM, run);
  if (status == DAMPER_STATUS_OK) status = damper_run_configure(*run, &config);
  if (status == DAMPER_STATUS_OK) status = methods[index].choose(*run);
  if (status == DAMPER_STATUS_OK && with_mixing) status = damper_reserve_combining(*run);
  if (status == DAMPER_STATUS_OK) status = damper_set_simulation_seed(*run, 2026);
  if (status == DAMPER_STATUS_OK) status = damper_set_volatile_store(*run);
  return status == DAMPER_STATUS_OK ? damper_run_start(*run) : status;
}

#endif
