"""JAX: `vmap(grad)` under `jit`, images laid out NHWC: `with_jax.py NETWORK BATCH`.

One step: per-sample gradients, clip, sum, noise, momentum SGD, compiled as one function.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import candidate
from shapes import batch


class Params:
    """Draws the parameters while a network is called for the first time, and returns them in the same order
    afterwards."""

    def __init__(self, values=None):
        self.values, self.at = [] if values is None else values, None if values is None else 0
        self.draw = np.random.default_rng(0)

    def __call__(self, *shape, fill=None):
        if self.at is None:
            bound = 1 / np.sqrt(np.prod(shape[:-1]) or 1)
            value = self.draw.uniform(-bound, bound, shape) if fill is None else np.full(shape, fill)
            self.values.append(jnp.asarray(value.astype(np.float32)))
            return self.values[-1]
        self.at += 1
        return self.values[self.at - 1]


def conv(p, x, outputs, size, stride=1, padding="SAME", bias=True):
    weight = p(size, size, x.shape[-1], outputs)
    x = lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return x + p(outputs, fill=0) if bias else x


def dense(p, x, outputs):
    return x @ p(x.shape[-1], outputs) + p(outputs, fill=0)


def pool(x, stride):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, stride, stride, 1), "VALID")


def flat(x):
    return x.reshape(x.shape[0], -1)


def group_norm(p, x, groups):
    grouped = x.reshape(*x.shape[:3], groups, -1)
    mean = grouped.mean((1, 2, 4), keepdims=True)
    variance = grouped.var((1, 2, 4), keepdims=True)
    x = ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return x * p(x.shape[-1], fill=1) + p(x.shape[-1], fill=0)


def layer_norm(p, x, eps):
    x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + eps)
    return x * p(x.shape[-1], fill=1) + p(x.shape[-1], fill=0)


def mnist(p, x):
    x = jnp.tanh(conv(p, x, 16, 8, 2, ((3, 3), (3, 3))))
    x = jnp.tanh(conv(p, pool(x, 1), 32, 4, 2, "VALID"))
    return dense(p, jnp.tanh(dense(p, flat(pool(x, 1)), 32)), 10)


def cifar(p, x):
    for width in (32, 64, 128):
        for _ in range(2):
            x = jnp.tanh(conv(p, x, width, 3))
        x = pool(x, 2)
    return dense(p, jnp.tanh(dense(p, flat(x), 128)), 10)


AROUND = ((1, 1), (1, 1))


def resnet18(p, x):
    x = jax.nn.relu(group_norm(p, conv(p, x, 64, 3, bias=False), 32))
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = jax.nn.relu(group_norm(p, conv(p, x, width, 3, stride, AROUND, bias=False), 32))
            y = group_norm(p, conv(p, y, width, 3, bias=False), 32)
            if stride > 1:
                x = group_norm(p, conv(p, x, width, 1, stride, "VALID", bias=False), 32)
            x = jax.nn.relu(x + y)
    return dense(p, x.mean((1, 2)), 10)


def wrn(p, x):
    x = conv(p, x, 16, 3, bias=False)
    for stage, width in enumerate((64, 128, 256)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = jax.nn.relu(group_norm(p, x, 16))
            short = x if x.shape[-1] == width else conv(p, y, width, 1, stride, "VALID", bias=False)
            y = conv(p, y, width, 3, stride, AROUND, bias=False)
            x = conv(p, jax.nn.relu(group_norm(p, y, 16)), width, 3, bias=False) + short
    return dense(p, jax.nn.relu(group_norm(p, x, 16)).mean((1, 2)), 10)


def attention(p, x, heads, mask):
    size = x.shape[-1] // heads

    def split(y):
        return y.reshape(*y.shape[:2], heads, size).transpose(0, 2, 1, 3)

    query, key, value = (split(dense(p, x, x.shape[-1])) for _ in range(3))
    mixed = jax.nn.softmax(query @ key.swapaxes(2, 3) * size**-0.5 + mask, -1) @ value
    return dense(p, mixed.transpose(0, 2, 1, 3).reshape(x.shape), x.shape[-1])


def feed_forward(p, x, approximate):
    return dense(p, jax.nn.gelu(dense(p, x, 4 * x.shape[-1]), approximate=approximate), x.shape[-1])


def layers(p, x, depth, heads, eps, mask=0.0, approximate=False):
    """Transformer layers with the norms before the branches."""
    for _ in range(depth):
        x = x + attention(p, layer_norm(p, x, eps), heads, mask)
        x = x + feed_forward(p, layer_norm(p, x, eps), approximate)
    return layer_norm(p, x, eps)


def vit(p, x):
    x = conv(p, x, 192, 4, 4, "VALID").reshape(x.shape[0], 64, 192)
    x = jnp.concatenate([jnp.broadcast_to(p(1, 1, 192, fill=0), (x.shape[0], 1, 192)), x], 1) + p(65, 192)
    return dense(p, layers(p, x, 12, 3, 1e-6)[:, 0], 10)


def bert(p, x):
    mask = (1 - x[:, 1, None, None, :].astype(jnp.float32)) * jnp.finfo(jnp.float32).min
    x = layer_norm(p, p(4096, 128)[x[:, 0]] + p(64, 128), 1e-12)
    for _ in range(2):
        x = layer_norm(p, x + attention(p, x, 2, mask), 1e-12)
        x = layer_norm(p, x + feed_forward(p, x, False), 1e-12)
    return dense(p, jnp.tanh(dense(p, x[:, 0], 128)), 2)


def gpt(p, x):
    mask = jnp.asarray(np.triu(np.full((64, 64), -np.inf, np.float32), 1))
    embedding = p(259, 128)
    return layers(p, embedding[x] + p(64, 128), 4, 4, 1e-5, mask, True) @ embedding.T


NETWORKS = {"mnist": mnist, "cifar": cifar, "resnet18": resnet18, "wrn": wrn, "vit": vit, "bert": bert, "gpt": gpt}


def main():
    network, size = sys.argv[1], int(sys.argv[2])
    forward = NETWORKS[network]
    x, y = batch(network, size)
    x, y = jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x), jnp.asarray(y)
    drawn = Params()
    forward(drawn, x[:1])
    params = drawn.values

    def loss(params, x, y):
        logs = jax.nn.log_softmax(forward(Params(params), x[None])[0])
        return -jnp.take_along_axis(logs, y[..., None], -1).mean()

    @jax.jit
    def step(params, momentum, key, x, y):
        grads, tree = jax.tree.flatten(jax.vmap(jax.grad(loss), (None, 0, 0))(params, x, y))
        norms = jnp.sqrt(sum(jnp.sum(g * g, axis=tuple(range(1, g.ndim))) for g in grads))
        factors = jnp.minimum(1, 1 / norms)
        keys = jax.random.split(key, len(grads) + 1)
        noisy = [
            (jnp.tensordot(factors, g, 1) + jax.random.normal(k, g.shape[1:])) / size for g, k in zip(grads, keys)
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
