"""Writes a Keras network by tf2onnx to exports/foreign/, with its parameters and per-sample gradients.

    pip install tensorflow-cpu==2.21 tf2onnx==1.17 && python3 foreign_tensorflow.py

Images have their channels last, as in TensorFlow. The exporter transposes them around each convolution.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tf2onnx

from foreign_files import HERE, record

CLASSES, SAMPLES = 5, 2
NAME, OPSET = "keras-cnn", 15


def network():
    tf.keras.utils.set_random_seed(20240817)
    layers = tf.keras.layers
    # Not zeros, because the exporter leaves additions of zeros out.
    seeds = iter(range(10))

    def some():
        return tf.keras.initializers.RandomNormal(stddev=0.1, seed=next(seeds))

    image = tf.keras.Input((8, 8, 3), name="x")
    x = layers.Conv2D(8, 3, padding="same", activation="relu", bias_initializer=some())(image)
    x = layers.MaxPooling2D(2)(x)
    x = layers.DepthwiseConv2D(3, strides=2, padding="same", bias_initializer=some())(x)
    x = layers.Activation("swish")(x)
    x = layers.Conv2D(12, 1, bias_initializer=some())(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(16, activation="tanh", bias_initializer=some())(x)
    x = layers.LayerNormalization(beta_initializer=some())(x)
    return tf.keras.Model(image, layers.Dense(CLASSES, bias_initializer=some())(x))


def main():
    net = network()
    signature = [tf.TensorSpec((None, 8, 8, 3), tf.float32, name="x")]
    function = tf.function(lambda x: tf.identity(net(x), name="y"), input_signature=signature)
    model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=OPSET)
    (HERE / f"{NAME}.opset{OPSET}.tf2onnx.onnx").write_bytes(model.SerializeToString(deterministic=True))

    x = np.random.default_rng(7).standard_normal((SAMPLES, 8, 8, 3)).astype(np.float32)
    labels = np.random.default_rng(8).integers(0, CLASSES, SAMPLES)
    arrays = {"in.x": x, "labels": labels, "loss": np.zeros(SAMPLES)}
    weights = net.trainable_variables
    grads = {weight.path: [] for weight in weights}
    for sample in range(SAMPLES):
        with tf.GradientTape() as tape:
            logits = net(x[sample : sample + 1])
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[sample : sample + 1], logits)[0]
        arrays["loss"][sample] = float(loss)
        for weight, grad in zip(weights, tape.gradient(loss, weights)):
            grads[weight.path].append(grad.numpy())
    arrays |= {f"grad.{path}": np.stack(grad) for path, grad in grads.items()}
    np.savez_compressed(HERE / f"{NAME}.npz", **arrays)
    record(NAME, [(weight.path, list(weight.shape)) for weight in weights])


if __name__ == "__main__":
    main()
