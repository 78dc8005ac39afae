/* QEMU's Cortex-M4F board: start, and output and exit by semihosting. */
#include "board.h"

extern uint32_t stack_top, data_start, data_end, data_image, bss_start, bss_end;
int main(void);

static int semihosting(int call, const void *argument) {
  register int r0 __asm__("r0") = call;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void say(const char *text) {
  static int console; /* The file of that name is QEMU's standard output; its handle is never 0. */
  const char *name = ":tt";
  const uint32_t open[3] = {(uint32_t)name, 4 /* "w" */, 3};
  if (console == 0) console = semihosting(0x01 /* SYS_OPEN */, open);
  uint32_t len = 0;
  while (text[len]) len++;
  const uint32_t write[3] = {(uint32_t)console, (uint32_t)text, len};
  semihosting(0x05 /* SYS_WRITE */, write);
}

void say_number(uint32_t number) {
  char digits[11], *at = digits + 10;
  *at = 0;
  do *--at = (char)('0' + number % 10);
  while (number /= 10);
  say(at);
}

void say_hex(uint64_t number) {
  char digits[17];
  for (int i = 0; i < 16; i++) digits[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
  digits[16] = 0;
  say(digits);
}

static _Noreturn void leave(int status) {
  const uint32_t block[2] = {0x20026 /* ADP_Stopped_ApplicationExit */, (uint32_t)status};
  for (;;) semihosting(0x20, block); /* SYS_EXIT_EXTENDED */
}

_Noreturn void reset(void) {
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: the FPU */
  __asm__ volatile("dsb\n isb");
  for (uint32_t *to = &data_start, *from = &data_image; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  leave(main());
}

static _Noreturn void fault(void) { leave(99); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
