/* Charges: a step is released after its charge is durable, a restart continues after it, and its cost is the core's. */
#include "run.h"
#include <math.h>

/* A store that keeps the record, fails on request, and calls the run. */
typedef struct {
  damper_record last;
  int writes, fail, busy;
  damper_run *run;
  unsigned char *memory;
  size_t size;
} store;

static int persist(void *context, const damper_record *record) {
  store *to = context;
  if (to->run) {
    damper_record seen;
    damper_last_error_text why;
    uint32_t number;
    IS(BUSY, damper_charged_steps(to->run, &seen));
    IS(BUSY, damper_step_open(to->run, &number));
    IS(BUSY, damper_step_abandon(to->run));
    IS(BUSY, damper_run_close(to->run));
    IS(BUSY, damper_last_error(to->run, &why));
    to->busy++;
  }
  to->writes++;
  if (to->fail) return -1;
  to->last = *record;
  return 0;
}

static damper_run *with_store(store *to, const damper_record *from, uint32_t prepaid) {
  to->size = rounded(damper_run_size(DIM, 0, 0));
  to->memory = walled(to->size);
  OK(damper_run_init(to->memory, to->size, DIM, &to->run));
  OK(damper_run_configure(to->run, &CONFIG));
  OK(damper_set_key(to->run, KEY));
  OK(damper_set_store(to->run, persist, to));
  if (from) OK(damper_resume(to->run, from));
  if (prepaid) OK(damper_reserve_steps(to->run, prepaid));
  OK(damper_run_start(to->run));
  return to->run;
}

static void what_is_not_durable_is_not_released(void) {
  store to = {0};
  float *params = walled(4 * DIM);
  damper_record paid;
  uint32_t number;
  damper_run *run = with_store(&to, NULL, 0);
  OK(damper_step_open(run, &number));
  CHECK(number == 0 && to.writes == 1 && to.busy == 1 && to.last.paid == 1 && to.last.budget == 8);
  OK(damper_step_finish(run, params, DIM));
  to.fail = 1;
  IS(NOT_PERSISTED, damper_step_open(run, &number));
  IS(ORDER, damper_step_finish(run, params, DIM));
  to.fail = 0;
  OK(damper_step_open(run, &number));
  CHECK(number == 2); /* Step 1 is burned. */
  OK(damper_step_abandon(run));
  OK(damper_charged_steps(run, &paid));
  CHECK(paid.paid == 3 && paid.budget == 8 && to.last.paid == 3);
  OK(damper_run_close(run));

  /* A restart continues from the persisted record. The next restart loses the reserved steps. */
  damper_record wrong = {.budget = 9, .paid = 3}, spent = {.budget = 8, .paid = 8}, beyond = {.budget = 8, .paid = UINT32_MAX};
  run = with_store(&to, &to.last, 4);
  OK(damper_step_open(run, &number));
  CHECK(number == 3 && to.last.paid == 7);
  OK(damper_step_finish(run, params, DIM));
  to.writes = 0;
  OK(damper_step_open(run, &number));
  CHECK(number == 4 && to.writes == 0);
  OK(damper_run_close(run));
  run = with_store(&to, &to.last, 0);
  OK(damper_step_open(run, &number));
  CHECK(number == 7 && to.last.paid == 8);
  OK(damper_step_finish(run, params, DIM));
  IS(BUDGET_SPENT, damper_step_open(run, &number));
  IS(BUDGET_SPENT, damper_step_open(run, &number));
  OK(damper_run_close(run));
  run = with_store(&to, &spent, 0);
  IS(BUDGET_SPENT, damper_step_open(run, &number));
  run = with_store(&to, &beyond, 3);
  IS(BUDGET_SPENT, damper_step_open(run, &number));

  run = configured(0);
  IS(RECORD, damper_resume(run, &wrong));
  IS(NULL, damper_resume(run, NULL));
  IS(OVERLAP, damper_resume(run, (const damper_record *)run));
}

static void a_restarted_run_draws_other_noise_and_samples(void) {
  float *x = walled(4 * DIM), *y = walled(4 * DIM);
  damper_record one = {.budget = 8, .paid = 1};
  store to = {0};
  uint32_t number, is_private;
  damper_run *run = with_store(&to, NULL, 0);
  OK(damper_step_open(run, &number));
  OK(damper_step_finish(run, x, DIM));
  run = with_store(&to, &one, 0);
  OK(damper_is_private(run, &is_private));
  CHECK(is_private == 1);
  OK(damper_step_open(run, &number));
  CHECK(number == 1);
  OK(damper_step_finish(run, y, DIM));
  CHECK(memcmp(x, y, 4 * DIM) != 0);
}

static void what_a_run_costs_is_what_the_core_says(void) {
  damper_run *run = started(0, NULL), *adp, *counted;
  const damper_schedule schedule = {.size = sizeof schedule, .noise = DAMPER_NOISE_SCHEDULE_POLYNOMIAL, .growth = 1.0, .exponent = 1.0};
  uint64_t rate = 0;
  double one, ten, other, multiplier;
  IS(RANGE, damper_sampling_rate(5, 4, &rate));
  IS(RANGE, damper_sampling_rate(0, 0, &rate));
  IS(NULL, damper_sampling_rate(1, 4, NULL));
  OK(damper_sampling_rate(4, 4, &rate));
  CHECK(rate == DAMPER_SAMPLING_RATE_ONE);
  OK(damper_sampling_rate(1, 100, &rate));
  OK(damper_multiplier(run, &multiplier));
  CHECK(multiplier == 1.0);
  OK(damper_epsilon(run, rate, 1, 1e-5, &one));
  OK(damper_epsilon(run, rate, 1000, 1e-5, &ten));
  CHECK(one > 0.0 && ten > one);
  printf("epsilon %.17g\n", ten);
  OK(damper_epsilon(run, rate, 0, 1e-5, &other));
  CHECK(other == 0.0);
  REFUSED("delta", damper_epsilon(run, rate, 1, 0.0, &other));
  REFUSED("delta", damper_epsilon(run, rate, 1, NAN, &other));
  REFUSED("sampling rate", damper_epsilon(run, DAMPER_SAMPLING_RATE_ONE + 1, 1, 1e-5, &other));
  OK(damper_epsilon_integer_orders(run, rate, 1000, 1e-5, &other));
  CHECK(other >= ten && other < 1.01 * ten);
  OK(damper_epsilon_integer_orders(run, rate, 0, 1e-5, &other));
  CHECK(other == 0.0);
  REFUSED("delta", damper_epsilon_integer_orders(run, rate, 1, 1.0, &other));
  REFUSED("sampling rate", damper_epsilon_integer_orders(run, DAMPER_SAMPLING_RATE_ONE + 1, 1, 1e-5, &other));
  IS(NULL, damper_epsilon_integer_orders(run, rate, 1, 1e-5, NULL));
  IS(NULL, damper_epsilon(run, rate, 1, 1e-5, NULL));
  IS(OVERLAP, damper_epsilon(run, rate, 1, 1e-5, (double *)run));

  /* Growing noise costs less, and counts cost more. */
  adp = configured(0);
  OK(damper_choose_schedule(adp, &schedule));
  OK(damper_set_key(adp, KEY));
  OK(damper_set_volatile_store(adp));
  OK(damper_run_start(adp));
  OK(damper_epsilon(run, rate, 5, 1e-5, &one));
  OK(damper_epsilon(adp, rate, 5, 1e-5, &other));
  CHECK(other < one);
  OK(damper_epsilon_integer_orders(adp, rate, 5, 1e-5, &ten));
  CHECK(ten >= other && ten < one);
  counted = configured(0);
  OK(damper_choose_percentile(counted, 0.5, 5.0, 1.0f, 1.0f, NULL));
  OK(damper_set_key(counted, KEY));
  OK(damper_set_volatile_store(counted));
  OK(damper_run_start(counted));
  OK(damper_epsilon(counted, rate, 5, 1e-5, &other));
  CHECK(other > one);
}

int main(void) {
  what_is_not_durable_is_not_released();
  a_restarted_run_draws_other_noise_and_samples();
  what_a_run_costs_is_what_the_core_says();
  return 0;
}
