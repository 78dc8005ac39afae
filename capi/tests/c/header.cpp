/* The header in C++98: names have C linkage, and statuses compare. */
#include "damper.h"

static uint64_t memory[(DAMPER_RUN_BYTES(3, 1, 0) + 7) / 8];

int main() {
  damper_run *run = 0;
  damper_config config = DAMPER_CONFIG_INIT;
  damper_status status = damper_run_init(memory, sizeof memory, 3, &run);
  if (status != DAMPER_STATUS_OK || damper_status_name(status)[0] != 'D') return 1;
  if (damper_version() != DAMPER_VERSION || config.size != sizeof config) return 2;
  const damper_run *queried = run;
  damper_record record;
  if (damper_charged_steps(queried, &record) != DAMPER_STATUS_OK) return 3;
  return damper_run_close(run) == DAMPER_STATUS_OK ? 0 : 4;
}
