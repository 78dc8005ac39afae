//! `memcpy` and its relatives of the Arm ABI in 40 bytes of flash. Those of `compiler_builtins` take 890, because they
//! also copy word by word between addresses of different alignment. The copies of these programs are aligned, except
//! for a few bytes of the journal.

use core::arch::global_asm;

global_asm!(
    ".section .text.memcpy, \"ax\", %progbits",
    ".syntax unified",
    ".thumb",
    ".global __aeabi_memcpy8, __aeabi_memcpy4, __aeabi_memcpy, memcpy",
    ".type __aeabi_memcpy8, %function",
    ".type __aeabi_memcpy4, %function",
    ".type __aeabi_memcpy, %function",
    ".type memcpy, %function",
    // To, from and length in r0, r1 and r2. These two copy whole words and return nothing.
    ".thumb_func",
    "__aeabi_memcpy8:",
    ".thumb_func",
    "__aeabi_memcpy4:",
    "subs r2, #4",
    "blo 2f",
    "1: ldmia r1!, {{r3}}",
    "stmia r0!, {{r3}}",
    "subs r2, #4",
    "bhs 1b",
    "2: adds r2, #4",
    // Copies bytes, starting from the last. `memcpy` returns r0.
    ".thumb_func",
    "__aeabi_memcpy:",
    ".thumb_func",
    "memcpy:",
    "3: subs r2, #1",
    "blo 4f",
    "ldrb r3, [r1, r2]",
    "strb r3, [r0, r2]",
    "b 3b",
    "4: bx lr",
    ".size memcpy, . - memcpy",
);
