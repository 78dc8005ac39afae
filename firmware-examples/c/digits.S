// The digits in flash: 64 pixels and a label each.
    .section .rodata.digits, "a"
    .global digits
digits:
    .incbin "digits.bin"
    .section .note.GNU-stack, "", %progbits
