// The header in C++: names have C linkage, and statuses convert.
#include "damper.h"

alignas(8) static unsigned char memory[DAMPER_RUN_BYTES(3, 1, 0)];

int main() {
  damper_run *run = nullptr;
  damper_status status = damper_run_init(memory, sizeof memory, 3, &run);
  if (status != DAMPER_STATUS_OK || damper_status_name(status)[0] != 'D') return 1;
  return damper_run_close(run) == DAMPER_STATUS_OK ? 0 : 2;
}
