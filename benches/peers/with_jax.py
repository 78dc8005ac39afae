"""JAX: `vmap(grad)` under `jit`, images laid out NHWC: `with_jax.py NETWORK BATCH`.

One step: per-sample gradients, clip, sum, noise, momentum SGD, compiled as one function.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import candidate

SHAPES = {"mnist": (28, 28, 1), "cifar": (32, 32, 3)}


def conv(x, weight, bias, stride, padding):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=layout) + bias


def pool(x, stride):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, stride, stride, 1), "VALID")


def mnist(params, x):
    x = jnp.tanh(conv(x, *params[0], 2, ((3, 3), (3, 3))))
    x = jnp.tanh(conv(pool(x, 1), *params[1], 2, "VALID"))
    return dense(params[2:], pool(x, 1))


def cifar(params, x):
    for layer in range(6):
        x = jnp.tanh(conv(x, *params[layer], 1, "SAME"))
        x = pool(x, 2) if layer % 2 else x
    return dense(params[6:], x)


def dense(params, x):
    (w1, b1), (w2, b2) = params
    return jnp.tanh(x.reshape(x.shape[0], -1) @ w1 + b1) @ w2 + b2


NETWORKS = {"mnist": mnist, "cifar": cifar}
WIDTHS = {
    "mnist": [(8, 8, 1, 16), (4, 4, 16, 32), (512, 32), (32, 10)],
    "cifar": [(3, 3, a, b) for a, b in ((3, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128))]
    + [(2048, 128), (128, 10)],
}


def main():
    network, batch = sys.argv[1], int(sys.argv[2])
    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.random((batch, *SHAPES[network]), dtype=np.float32))
    y = jnp.asarray(draw.integers(10, size=batch))

    def initial(shape):
        bound = 1 / np.sqrt(np.prod(shape[:-1]))
        return tuple(jnp.asarray(draw.uniform(-bound, bound, s).astype(np.float32)) for s in (shape, shape[-1:]))

    params = [initial(shape) for shape in WIDTHS[network]]
    forward = NETWORKS[network]

    def loss(params, x, y):
        return -jax.nn.log_softmax(forward(params, x[None]))[0, y]

    @jax.jit
    def step(params, momentum, key, x, y):
        grads, tree = jax.tree.flatten(jax.vmap(jax.grad(loss), (None, 0, 0))(params, x, y))
        norms = jnp.sqrt(sum(jnp.sum(g * g, axis=tuple(range(1, g.ndim))) for g in grads))
        factors = jnp.minimum(1, 1 / norms)
        keys = jax.random.split(key, len(grads) + 1)
        noisy = [
            (jnp.tensordot(factors, g, 1) + jax.random.normal(k, g.shape[1:])) / batch for g, k in zip(grads, keys)
        ]
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, jax.tree.unflatten(tree, noisy))
        params = jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum)
        return params, momentum, keys[-1]

    state = [params, jax.tree.map(jnp.zeros_like, params), jax.random.key(0)]

    def one():
        state[:] = step(*state, x, y)
        jax.block_until_ready(state)

    candidate.serve(one)


if __name__ == "__main__":
    main()
