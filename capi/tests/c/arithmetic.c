/* The self-test detects processor modes that change the bits. Not under valgrind, which does not support all of them. */
#include "check.h"
#ifdef __SSE__
#include <xmmintrin.h>
#endif

int main(void) {
  OK(damper_self_test());
#ifdef __SSE__
  const unsigned mode = _mm_getcsr(), modes[] = {0x8000 /* Results are flushed to zero. */, 0x40 /* Operands are. */,
                                                 0x2000 /* Rounded down. */, 0x4000 /* Up. */, 0x6000 /* To zero. */};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    _mm_setcsr(mode | modes[i]);
    damper_status status = damper_self_test();
    _mm_setcsr(mode);
    IS(ARITHMETIC, status);
  }
  OK(damper_self_test());
  printf("modes found\n");
#endif
  return 0;
}
