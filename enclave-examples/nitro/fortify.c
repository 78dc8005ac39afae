/* What LLVM's unwinder of a distribution built with glibc's checks of formats needs of musl, which has no such function. */
#include <stdarg.h>
#include <stdio.h>

int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
  va_list arguments;
  (void)flag;
  va_start(arguments, format);
  const int count = vfprintf(file, format, arguments);
  va_end(arguments);
  return count;
}
