/* Keys that no live generator gives are refused, and give the run no key. */
#include "run.h"

/* What is wrong with the generator. */
enum { LIVE, WRITES_NOTHING, WRITES_HALF, ENDS_EARLY, REPEATS_A_BYTE, REPEATS_ITS_DRAW, FAILS, FAULTS };

typedef struct {
  int fault, calls;
  uint32_t state;
  damper_run *run;
  damper_status in_call;
} generator;

static int draw(void *context, uint8_t *bytes, uint32_t len) {
  generator *self = context;
  self->calls++;
  if (self->run) self->in_call = damper_set_key(self->run, KEY);
  if (self->fault == REPEATS_ITS_DRAW) self->state = 1;
  if (self->fault == WRITES_NOTHING) len = 0;
  if (self->fault == WRITES_HALF) len /= 2;
  if (self->fault == ENDS_EARLY && self->calls == 1) len -= 4;
  for (uint32_t i = 0; i < len; i++) {
    self->state = self->state * 1664525u + 1013904223u;
    bytes[i] = self->fault == REPEATS_A_BYTE ? 0xa5 : (uint8_t)(self->state >> 24);
  }
  return self->fault == FAILS;
}

int main(void) {
  damper_run *run = configured(0);
  uint8_t key[32] = {0};
  uint32_t is_private = 0;
  IS(DEAD_GENERATOR, damper_set_key(run, key));
  memset(key, 0xff, sizeof key);
  IS(DEAD_GENERATOR, damper_set_key(run, key));
  for (int i = 0; i < 32; i++) key[i] = (uint8_t)(i % 4);
  IS(DEAD_GENERATOR, damper_set_key(run, key));
  key[31]++;
  OK(damper_set_key(run, key));

  IS(NULL, damper_set_fresh_key(run, NULL, NULL));
  for (int fault = WRITES_NOTHING; fault < FAULTS; fault++) {
    damper_run *other = configured(0);
    generator faulty = {.fault = fault, .run = run};
    IS(NO_KEY, damper_is_private(other, &is_private));
    if (fault == FAILS) IS(NO_KEY, damper_set_fresh_key(other, draw, &faulty));
    else IS(DEAD_GENERATOR, damper_set_fresh_key(other, draw, &faulty));
    IS(NO_KEY, damper_is_private(other, &is_private));
    OK(damper_run_close(other));
  }
  generator live = {.fault = LIVE, .run = run};
  IS(NULL, damper_set_fresh_key(NULL, draw, &live));
  /* A run without a key gets one. */
  damper_run *keyless = configured(0);
  live.run = NULL;
  IS(NO_KEY, damper_is_private(keyless, &is_private));
  OK(damper_set_fresh_key(keyless, draw, &live));
  OK(damper_is_private(keyless, &is_private));
  CHECK(is_private == 1);
  OK(damper_run_close(keyless));
  live = (generator){.fault = LIVE, .run = run};
  OK(damper_set_fresh_key(run, draw, &live));
  /* Two draws, and the run was free meanwhile. */
  CHECK(live.calls == 2);
  OK(live.in_call);
  /* A dead generator leaves the earlier key. */
  live.fault = WRITES_NOTHING;
  IS(DEAD_GENERATOR, damper_set_fresh_key(run, draw, &live));
  OK(damper_set_volatile_store(run));
  OK(damper_run_start(run));
  live.fault = LIVE;
  IS(ORDER, damper_set_fresh_key(run, draw, &live));
  OK(damper_run_close(run));
  return 0;
}
