/* Shared by the C tests: a check that prints its line on failure, and memory between guard pages. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include "damper.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

#define IS(expected, call)                                                                                   \
  do {                                                                                                       \
    damper_status is_ = (call);                                                                              \
    if (is_ != DAMPER_STATUS_##expected) {                                                                   \
      fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call, damper_status_name(is_));              \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

#define OK(call) IS(OK, call)

/* The text of the last error. */
static inline void refused(damper_run *run, const char *parameter) {
  damper_last_error_text text;
  OK(damper_last_error(run, &text));
  CHECK(text.parameter_len == strlen(parameter) && memcmp(text.parameter, parameter, text.parameter_len) == 0);
  CHECK(text.must_be_len > 0);
}

#define REFUSED(parameter, call) \
  do {                           \
    IS(RANGE, call);             \
    refused(run, parameter);     \
  } while (0)

/* Returns `size` bytes that end at the end of a page, between guard pages. The library is not compiled with sanitizers, so stray
 * accesses must hit a guard page. Sizes are multiples of the required alignment. Never freed. */
static inline void *walled(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
  unsigned char *all = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED);
  CHECK(pages == 0 || mprotect(all + page, pages * page, PROT_READ | PROT_WRITE) == 0);
  return all + page + pages * page - size;
}

/* Rounds a size up to the alignment of a run. */
static inline size_t rounded(size_t size) {
  size_t align = damper_run_align();
  return (size + align - 1) / align * align;
}

#endif
