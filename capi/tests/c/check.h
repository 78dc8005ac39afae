/* What the C tests share: a check that says where it failed, and memory between pages that nobody may touch. */
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

/* Why the last number was refused. */
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

/* `size` bytes whose end is the end of a page, and what is before and behind cannot be touched: the library is not compiled with
 * sanitizers, so its strays must hit a wall. Sizes are multiples of the alignment wanted. Never freed. */
static inline void *walled(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
  unsigned char *all = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED);
  CHECK(pages == 0 || mprotect(all + page, pages * page, PROT_READ | PROT_WRITE) == 0);
  return all + page + pages * page - size;
}

/* Any number of bytes up to the alignment of a run. */
static inline size_t rounded(size_t size) {
  size_t align = damper_run_align();
  return (size + align - 1) / align * align;
}

#endif
