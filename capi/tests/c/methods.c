/* Every method of `firmware-examples/program/src/methods.rs` through the C interface: prints each name with the digest that its
 * run ends with. Every buffer lies between walls. */
#include "check.h"
#include "softmax.h"

enum { STEPS = 6, EXPECTED_BATCH = 30, TRAIN = 300, HELD_OUT = 100 };

extern const digit digits[TRAIN + HELD_OUT]; /* digits.S */

static const float A[] = {-0.9f}, B[] = {0.15f, -0.05f}, ONE[] = {1.0f};

static void none(damper_run *run) { (void)run; }
static void momentum(damper_run *run) { OK(damper_choose_sgd(run, 0.9f, 0, 0.0f)); }
static void doppler(damper_run *run) { OK(damper_choose_iir(run, A, 1, B, 2)); }
static void named(damper_run *run) { OK(damper_choose_named_filter(run, "P6")); }
static void order_0(damper_run *run) { OK(damper_choose_iir(run, NULL, 0, ONE, 1)); }
static void dp_pmlf(damper_run *run) { OK(damper_choose_dp_pmlf(run, 3, 0.5, A, 1, B, 2)); }
static void disk(damper_run *run) { OK(damper_choose_disk(run, 0.7, 0.0)); }
static void disk_two(damper_run *run) { OK(damper_choose_disk(run, 0.7, 0.5)); }
static void inner_outer(damper_run *run) {
  momentum(run);
  OK(damper_choose_inner_momentum(run, 2, 0.9));
}
static void dc_sgd_p(damper_run *run) {
  momentum(run);
  OK(damper_choose_percentile(run, 0.5, 5.0, 1.0f, 1.0f, NULL));
}
static void dc_sgd_e(damper_run *run) {
  momentum(run);
  OK(damper_choose_expected_error(run, 0, 5.0, 1.0f, 20.0f, NULL, NULL));
}
static void dc_sgd_e_exact(damper_run *run) {
  const damper_interval wide = {1e-8f, 1e8f};
  momentum(run);
  OK(damper_choose_expected_error(run, 1, 5.0, 1.0f, 20.0f, &wide, &wide));
}
static void quantile(damper_run *run) {
  momentum(run);
  OK(damper_choose_quantile(run, 0.5, 0.2, 1.5, 1.0f, NULL));
}
static void adp(damper_run *run) {
  const damper_schedule schedule = {.decay = DAMPER_RATE_DECAY_POLYNOMIAL,
                                    .noise = DAMPER_NOISE_CHANGE_MATCHED,
                                    .warmup = 1,
                                    .offset = 2.0,
                                    .slope = 1.0,
                                    .exponent = 0.5};
  momentum(run);
  OK(damper_choose_schedule(run, &schedule));
}
static void automatic(damper_run *run) {
  momentum(run);
  OK(damper_choose_automatic_clip(run, 0.01f));
}
static void per_layer(damper_run *run) {
  const damper_layer layers[] = {{DIM - 10, damper_equal_share(2)}, {10, damper_equal_share(2)}};
  momentum(run);
  OK(damper_choose_layers(run, layers, 2, 0.0f));
}
static void nesterov(damper_run *run) { OK(damper_choose_sgd(run, 0.9f, 1, 0.0f)); }
static void adamw(damper_run *run) { OK(damper_choose_adam(run, 0.9, 0.999, 1e-8f, 0.01, 0)); }
static void adam_bc(damper_run *run) { OK(damper_choose_adam_bc(run, 0.9, 0.999, 1e-6f, 0.0, 0)); }
static void adagrad(damper_run *run) { OK(damper_choose_adagrad(run, 1e-10f, 0.0f)); }
static void rmsprop(damper_run *run) { OK(damper_choose_rmsprop(run, 0.99, 1e-8f, 0.0f)); }
static void adagrad_norm(damper_run *run) {
  OK(damper_choose_adagrad_norm(run, 1.0, 1e-5, 1, 0.9f, 0, 0.0f));
}

/* With how many vectors and layers beyond the sum, and which learning rate. */
static const struct {
  const char *name;
  void (*choose)(damper_run *);
  size_t vectors, layers;
  double learning_rate;
} methods[] = {
    {"dp-sgd", none, 0, 0, 2.0},
    {"doppler", doppler, 1, 0, 2.0},
    {"doppler, by name", named, 1, 0, 2.0},
    {"dp-pmlf", dp_pmlf, 3, 0, 2.0},
    {"disk", disk, 2, 0, 2.0},
    {"disk, two points", disk_two, 2, 0, 2.0},
    {"dc-sgd-p", dc_sgd_p, 1, 0, 0.5},
    {"dc-sgd-e", dc_sgd_e, 1, 0, 0.5},
    {"dc-sgd-e, exact", dc_sgd_e_exact, 1, 0, 0.5},
    {"adp", adp, 1, 0, 2.0},
    {"quantile", quantile, 1, 0, 0.5},
    {"inner-outer", inner_outer, 2, 0, 0.5},
    {"automatic", automatic, 1, 0, 0.5},
    {"per-layer", per_layer, 1, 2, 0.5},
    {"nesterov", nesterov, 1, 0, 0.5},
    {"adamw", adamw, 2, 0, 0.02},
    {"adam-bc", adam_bc, 2, 0, 0.02},
    {"adagrad", adagrad, 1, 0, 0.1},
    {"rmsprop", rmsprop, 1, 0, 0.02},
    {"adagrad-norm", adagrad_norm, 1, 0, 2.0},
    {"filter of order 0", order_0, 0, 0, 2.0},
};

typedef struct {
  float *params, *point, *grad, *mixed;
} buffers;

/* How the samples of a step are handed over: all ways must end with the same bits. */
typedef enum { BY_POINTS, BY_POINTS_IN_PIECES, MIXED_OUTSIDE } handing;

static void add(damper_run *run, handing how, const digit *of, buffers b) {
  const damper_piece pieces[] = {{b.grad, 640}, {NULL, 0}, {b.grad + 640, 3}, {b.grad + 643, 7}};
  damper_status status;
  if (how == MIXED_OUTSIDE) {
    size_t points;
    OK(damper_points(run, &points));
    for (size_t index = 0; index < points; index++) {
      float weight;
      OK(damper_point(run, index, b.params, DIM, b.point, DIM, &weight));
      gradient(b.point, of, b.grad);
      for (int i = 0; i < DIM; i++) {
        float product = weight * b.grad[i];
        b.mixed[i] = index == 0 ? product : b.mixed[i] + product;
      }
    }
    OK(damper_add(run, b.mixed, DIM));
    return;
  }
  OK(damper_mix_begin(run));
  while ((status = damper_mix_point(run, b.params, DIM, b.point, DIM)) == DAMPER_STATUS_OK) {
    gradient(b.point, of, b.grad);
    if (how == BY_POINTS) OK(damper_mix_add(run, b.grad, DIM));
    else OK(damper_mix_add_pieces(run, pieces, 4));
  }
  CHECK(status == DAMPER_STATUS_END);
  OK(damper_mix_end(run));
}

static uint64_t train(size_t method, handing how) {
  const damper_config config = {.grid_bits = 16,
                                .expected_batch = EXPECTED_BATCH,
                                .noise_multiplier = 1.0,
                                .learning_rate = methods[method].learning_rate,
                                .clip = 1.0f,
                                .budget = STEPS};
  size_t vectors = methods[method].vectors + (how != MIXED_OUTSIDE), layers = methods[method].layers;
  size_t size = rounded(damper_run_size(DIM, vectors, layers));
  CHECK(size <= DAMPER_RUN_BYTES(DIM, vectors, layers));
  buffers b = {walled(4 * DIM), walled(4 * DIM), walled(4 * DIM), walled(4 * DIM)};
  damper_run *run;
  uint64_t rate;
  uint32_t number, index;
  damper_status status;
  OK(damper_rate(EXPECTED_BATCH, TRAIN, &rate));
  OK(damper_run_init(walled(size), size, DIM, &run));
  OK(damper_run_configure(run, &config));
  methods[method].choose(run);
  if (how != MIXED_OUTSIDE) OK(damper_reserve_mixing(run));
  OK(damper_set_simulation_seed(run, 2026));
  OK(damper_set_volatile_store(run));
  OK(damper_run_start(run));
  while ((status = damper_step_open(run, &number)) == DAMPER_STATUS_OK) {
    OK(damper_draw_begin(run, rate, TRAIN));
    while ((status = damper_draw_next(run, &index)) == DAMPER_STATUS_OK) add(run, how, &digits[index], b);
    CHECK(status == DAMPER_STATUS_END);
    OK(damper_step_finish(run, b.params, DIM));
  }
  CHECK(status == DAMPER_STATUS_BUDGET_SPENT && number == STEPS - 1);
  OK(damper_run_close(run));
  return fnv1a64(b.params, DIM);
}

int main(void) {
  for (size_t method = 0; method < sizeof methods / sizeof *methods; method++) {
    uint64_t digest = train(method, BY_POINTS);
    CHECK(train(method, BY_POINTS_IN_PIECES) == digest);
    CHECK(train(method, MIXED_OUTSIDE) == digest);
    printf("%s %016llx\n", methods[method].name, (unsigned long long)digest);
  }
  return 0;
}
