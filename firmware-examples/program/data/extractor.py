"""Writes extractor.bin: the frozen first layer of a small network, and its public last layer, both of one byte a weight.

The network is trained here, on the digits after the first 400 (`digits.bin` has those), with plain gradient descent.
This is public pretraining. Source of the digits as in digits.py. The file has a row of 64 weights for each feature. A
bias of two bytes for each feature follows (little-endian, in weights times pixels). Then come a row of last-layer
weights for each class and a bias for each, in 64ths.
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits

FEATURES = 24
CLASSES = 10
digits = load_digits()
x, y = digits.data[400:] / 16, digits.target[400:]
random = np.random.RandomState(5)
w, b = random.randn(FEATURES, 64) * 0.2, np.zeros(FEATURES)
v, c = random.randn(CLASSES, FEATURES) * 0.2, np.zeros(CLASSES)
target = np.eye(CLASSES)[y]
for _ in range(600):
    h = np.maximum(x @ w.T + b, 0)
    s = h @ v.T + c
    p = np.exp(s - s.max(1, keepdims=True))
    e = (p / p.sum(1, keepdims=True) - target) / len(x)
    g = (e @ v) * (h > 0)
    for param, grad in ((v, e.T @ h), (c, e.sum(0)), (w, g.T @ x), (b, g.sum(0))):
        param -= 0.5 * grad
scale = 127 / np.abs(w).max()
weights = np.rint(w * scale).astype(np.int8)
biases = np.rint(b * scale * 16).astype("<i2")
# The device divides its integers by 2**10. The last layer gets the ratio of its features to these features.
unit = 2**10 / (scale * 16)
last = np.clip(np.rint(v * unit * 64), -127, 127).astype(np.int8)
last_bias = np.clip(np.rint(c * 64), -127, 127).astype(np.int8)
out = pathlib.Path(__file__).with_name("extractor.bin")
out.write_bytes(weights.tobytes() + biases.tobytes() + last.tobytes() + last_bias.tobytes())
h = np.maximum(digits.data[:400] @ weights.T.astype(float) + biases, 0) / 2**10
right = ((h @ last.T.astype(float) + last_bias).argmax(1) == digits.target[:400]).mean()
print(f"features up to {h.max():.2f}, {right:.3f} right of the 400, weights within {abs(last).max()}, unit {unit:.2f}")
