"""Per-sample gradients by PyTorch's autograd, and their difference from damper's.

A file has its own names and layouts, so an initializer is found by its values. Noise makes all numbers of a network
different, and a transposed, cut or joined weight has the same numbers as its origin.
"""

import copy
import dataclasses

import numpy as np
import onnx
import torch

# Largest relative error of an entry, relative to the largest entry of its parameter's gradient, and to that of the
# whole gradient.
CLOSE, FLOOR = 1e-4, 2e-6


@dataclasses.dataclass
class Samples:
    """Parameters by name, flat, with their gradients `[samples, numbers]` in float64 and float32."""

    labels: torch.Tensor
    outputs: np.ndarray
    losses: np.ndarray
    values: dict
    exact: dict
    rounded: dict
    buffers: dict
    used: set


def reference(net, network, inputs):
    net = copy.deepcopy(net)
    for module in net.modules():
        # A file does not mark the padding row, which has no gradient in PyTorch.
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    with torch.no_grad():
        out = net(*inputs.values())
    axis = network.class_axis % out.dim()
    shape = [extent for at, extent in enumerate(out.shape) if at != axis]
    labels = torch.randint(0, out.shape[axis], shape, generator=torch.Generator().manual_seed(8))
    mask = next((one for key, one in inputs.items() if key == "attention_mask"), None)
    if mask is not None and mask.shape == labels.shape:
        labels[mask == 0] = -100
    losses, exact = gradients(copy.deepcopy(net).double(), inputs, labels, axis)
    losses32, rounded = gradients(net, inputs, labels, axis)
    # Two masks of the smallest float64 add up to minus infinity.
    losses = np.where(np.isfinite(losses), losses, losses32)
    exact = {key: np.where(np.isfinite(one), one, rounded[key]) for key, one in exact.items()}
    used = {key for key, one in net.named_parameters() if one.grad is not None}
    parameters = dict(net.named_parameters())
    values = {key: one.detach().numpy().ravel() for key, one in parameters.items() if one.requires_grad}
    frozen = {key: one.detach() for key, one in parameters.items() if not one.requires_grad}
    buffers = {key: one.numpy().ravel() for key, one in [*net.named_buffers(), *frozen.items()]}
    return Samples(labels, out.numpy(), losses, values, exact, rounded, buffers, used)


def gradients(net, inputs, labels, axis):
    double = next(net.parameters()).dtype == torch.float64
    losses, grads = [], {}
    for row in range(len(labels)):
        # LeViT caches values computed from its parameters until it trains.
        net.train().eval()
        one = [value[row : row + 1] for value in inputs.values()]
        one = [value.double() if double and value.is_floating_point() else value for value in one]
        net.zero_grad()
        out = net(*one).movedim(axis, -1)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), labels[row].reshape(-1))
        loss.backward()
        losses.append(loss.item())
        for key, value in net.named_parameters():
            grad = torch.zeros_like(value) if value.grad is None else value.grad
            grads.setdefault(key, []).append(grad.numpy().ravel().astype(np.float64))
    return np.array(losses), {key: np.stack(those) for key, those in grads.items()}


# ---- origins of a file's initializers


def initializers(model):
    """Values of initializers by name, also under the names that Identity nodes give them."""
    held = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in held:
            held[node.output[0]] = held[node.input[0]]
    return held


class Origins:
    """Finds numbers among the parameters."""

    def __init__(self, values):
        self.names = list(values)
        self.at = np.cumsum([0] + [len(one) for one in values.values()])
        flat = np.concatenate(list(values.values()))
        self.order = np.argsort(flat, kind="stable")
        self.sorted = flat[self.order]
        # Equal numbers cannot be distinguished, so they are not compared.
        equal = self.sorted[1:] == self.sorted[:-1]
        self.vague = np.zeros(len(flat), bool)
        self.vague[self.order[1:][equal]] = self.vague[self.order[:-1][equal]] = True
        self.whole = {np.sort(one).tobytes(): key for key, one in values.items()}

    def find(self, values):
        """Index of each value among all parameters' numbers, or -1 if it is not found, or -2 if it is found several
        times."""
        values = values.ravel()
        key = self.whole.get(np.sort(values).tobytes())
        if key is not None:
            name = self.names.index(key)
            there = range(self.at[name], self.at[name + 1])
            own = self.order[np.isin(self.order, there)] if len(self.names) > 1 else self.order
            found = np.empty(len(values), int)
            found[np.argsort(values, kind="stable")] = own
            return found
        low, high = np.searchsorted(self.sorted, values, "left"), np.searchsorted(self.sorted, values, "right")
        found = np.where(high > low, self.order[np.minimum(low, len(self.order) - 1)], -1)
        return np.where(high - low > 1, -2, found)


def compare(model, grads, losses, samples, fresh):
    """Compares sets of parameters and gradients. In a fresh network values repeat, so only sizes are compared there."""
    trained = sum(one[0].size for one in grads.values())
    total = sum(one.size for one in samples.values.values())
    counts = {"trained": int(trained), "parameters": int(total)}
    if fresh:
        return sizes(grads, samples) | counts
    held, origins = initializers(model), Origins(samples.values)
    covered = np.zeros(total, int)
    sums = np.zeros((len(losses), total))
    extra = {}
    for name, grad in grads.items():
        # damper separates the uses of equal tensors as NAME::NODE.
        name = name if name in held else name.split("::")[0]
        found = origins.find(held[name]) if name in held else np.full(grad[0].size, -1)
        grad = grad.reshape(len(losses), -1)
        if np.mean(found == -1) > 0.5 and name in held:
            found = shifted(held[name], origins, samples.values, found)
        if np.mean(found == -1) > 0.9:
            # Some of many numbers are equal to a parameter's by chance.
            found = np.full(len(found), -1)
        unknown = int((found == -1).sum())
        if unknown:
            buffer = next((key for key, one in samples.buffers.items() if same(one, held.get(name))), None)
            what = f"{unknown} of {list(held[name].shape)}" if name in held else "not in the file"
            unknown += extra[name][0] if name in extra else 0
            extra[name] = [unknown, "buffer " + buffer if buffer else what]
        places = found[found >= 0]
        np.add.at(covered, places, 1)
        np.add.at(sums, (slice(None), places), grad[:, found >= 0])
    return judged(origins, covered, sums, extra, losses, samples) | counts


def shifted(values, origins, parameters, found):
    """Indices of a parameter of which the file holds 1 + w, which has the same gradient."""
    flat = values.ravel().astype(np.float64) - 1
    for number, (name, one) in enumerate(parameters.items()):
        if one.size == flat.size and np.abs(one - flat).max() < 1e-6:
            return np.arange(origins.at[number], origins.at[number + 1])
    return found


def same(one, other):
    return other is not None and one.dtype == other.dtype and np.array_equal(np.sort(one), np.sort(other.ravel()))


def judged(origins, covered, sums, extra, losses, samples):
    largest = np.max([np.abs(one).max(axis=1) for one in samples.exact.values() if one.size], axis=0)
    off, missing, rough = {}, {}, 0.0
    for number, name in enumerate(origins.names):
        part = slice(origins.at[number], origins.at[number + 1])
        exact, rounded, ours = samples.exact[name], samples.rounded[name], sums[:, part]
        known = (covered[part] > 0) & ~origins.vague[part]
        lost = (covered[part] == 0) & ~origins.vague[part] & (np.abs(exact) > FLOOR * largest[:, None]).any(axis=0)
        if lost.any():
            missing[name] = int(lost.sum())
        copies = int(np.maximum(covered[part] - 1, 0)[~origins.vague[part]].sum())
        if copies:
            extra[name] = [copies, "copies"]
        if not known.any():
            continue
        scale = np.maximum(np.abs(exact).max(axis=1), FLOOR / CLOSE * largest)
        error = np.abs(ours - exact)[:, known].max(axis=1) / scale
        # At a kink float32 may take the other side. Then PyTorch's own float32 is the reference.
        error = np.minimum(error, np.abs(ours - rounded)[:, known].max(axis=1) / scale)
        # Error of PyTorch's own float32, which is large if small differences grow.
        own = (np.abs(rounded - exact).max(axis=1) / scale).max()
        if not (error <= max(CLOSE, 5 * own)).all():
            error = np.nan_to_num(error, nan=np.inf)
            off[name] = [float(error.max()), int(error.argmax()), float(own)]
        elif not (error <= CLOSE).all():
            rough = max(rough, float(error.max()))
    apart = np.abs(losses - samples.losses).max() / max(1.0, np.abs(samples.losses).max())
    if not apart <= 1e-5:
        off["loss"] = [float(apart), 0, 0.0]
    return verdict(off, missing, extra) | {"rough": rough}


def verdict(off, missing, extra):
    parts = []
    if off:
        name, (worst, *_) = max(off.items(), key=lambda item: item[1][0])
        size = f"off by {worst:.0e}" if worst < 1e300 else "gradients not finite"
        parts.append(f"{size} ({name}, {len(off)} tensors)")
    if missing or extra:
        more, less = sum(one[0] for one in extra.values()), sum(missing.values())
        text = [f"+{more} extra ({some(extra)})"] if extra else []
        text += [f"−{less} missing ({some(missing)})"] if missing else []
        parts.append("params: " + ", ".join(text))
    worst = max((one[0] for one in off.values()), default=0.0)
    kind = "off" if off else "params" if parts else "ok"
    cell = "; ".join(parts) or "ok"
    return {"kind": kind, "cell": cell, "worst": worst, "off": off, "missing": missing, "extra": extra}


def some(names):
    names = [f"{key}: {one[1]}" if isinstance(one, list) else key for key, one in names.items()]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def sizes(grads, samples):
    """Compares the sizes of tensors."""
    wanted = {key: one.size for key, one in samples.values.items() if key in samples.used}
    left = dict(wanted)
    extra = {}
    for name, grad in grads.items():
        alike = [key for key, size in left.items() if size == grad[0].size]
        match = name if name in alike else next(iter(alike), None)
        if match is None:
            extra[name] = [int(grad[0].size), f"{list(grad.shape[1:])}"]
        else:
            del left[match]
    if sum(one[0] for one in extra.values()) == sum(left.values()):
        # Cut or joined tensors, such as the two biases of a recurrent layer.
        extra, left = {}, {}
    return verdict({}, left, extra)
