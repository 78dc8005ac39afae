/* Output functions of the board. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void say(const char *text);
void say_number(uint32_t number);
void say_hex(uint64_t number); /* 16 digits */

#endif
