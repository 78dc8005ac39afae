"""Writes digits.bin: the first 400 of the 8x8 handwritten digits in scikit-learn.

Source: E. Alpaydin and C. Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998.
doi:10.24432/C50P49, CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Each digit is 65 bytes: 64 pixels of 0 to
16, row by row, then the label.
"""

import pathlib

from sklearn.datasets import load_digits

digits = load_digits()
out = pathlib.Path(__file__).with_name("digits.bin")
with out.open("wb") as file:
    for pixels, label in list(zip(digits.data, digits.target))[:400]:
        file.write(bytes(int(pixel) for pixel in pixels) + bytes([int(label)]))
