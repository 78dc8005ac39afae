// Digits and their labels in flash, in the format of MNIST.
    .section .rodata.images, "a"
    .global images, labels
images:
    .incbin "train-images-idx3-ubyte"
labels:
    .incbin "train-labels-idx1-ubyte"
    .section .note.GNU-stack, "", %progbits
