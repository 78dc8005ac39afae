"""ONNX operators in PyTorch, by name, for torch_gradients.py. Each function takes its attributes and its inputs."""

import numpy as np
import torch
import torch.nn.functional as F


def ints(x):
    return [int(i) for i in x.reshape(-1).tolist()]


def reduced(f):
    def run(at, x, axes=None):
        axes = ints(axes) if axes is not None else at.get("axes")
        if not axes:
            if at.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(x.dim()))
        return f(x, [axis % x.dim() for axis in axes], bool(at.get("keepdims", 1)))

    return run


def over_each(f):
    """Returns a reduction that applies `f` to one axis at a time."""

    def run(x, axes, keep):
        for axis in sorted(axes, reverse=True):
            x = f(x, axis, keep)
        return x

    return run


def windows(at, x, kernel):
    """Returns strides, dilations and the padding at both ends of each axis."""
    rank = x.dim() - 2
    strides, dilations = at.get("strides", [1] * rank), at.get("dilations", [1] * rank)
    pads = at.get("pads", [0] * 2 * rank)
    mode = at.get("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        pads = [0] * 2 * rank
        for i in range(rank):
            extent = x.shape[i + 2]
            need = max((-(-extent // strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - extent, 0)
            first = need // 2 if mode == "SAME_UPPER" else need - need // 2
            pads[i], pads[i + rank] = first, need - first
    return strides, dilations, pads


def padded(x, pads, fill):
    rank = len(pads) // 2
    return F.pad(x, [p for i in reversed(range(rank)) for p in (pads[i], pads[i + rank])], value=fill)


def conv(at, x, w, b=None):
    strides, dilations, pads = windows(at, x, w.shape[2:])
    f = {3: F.conv1d, 4: F.conv2d}[x.dim()]
    return f(padded(x, pads, 0.0), w, b, strides, 0, dilations, at.get("group", 1))


def conv_transpose(at, x, w, b=None):
    rank = x.dim() - 2
    strides, dilations = at.get("strides", [1] * rank), at.get("dilations", [1] * rank)
    pads, extra = at.get("pads", [0] * 2 * rank), at.get("output_padding", [0] * rank)
    f = {3: F.conv_transpose1d, 4: F.conv_transpose2d}[x.dim()]
    whole = f(x, w, None, strides, 0, 0, at.get("group", 1), dilations)
    whole = padded(whole, [0] * rank + list(extra), 0.0)
    for i in range(rank):
        whole = whole.narrow(i + 2, pads[i], whole.shape[i + 2] - pads[i] - pads[i + rank])
    return whole if b is None else whole + b.reshape([1, -1] + [1] * rank)


def unfolded(at, x, fill):
    """Returns the entries of each window in the last axis."""
    kernel = at["kernel_shape"]
    strides, dilations, pads = windows(at, x, kernel)
    rank = len(kernel)
    pads = list(pads)
    for i in range(rank):
        reach, room = (kernel[i] - 1) * dilations[i] + 1, x.shape[i + 2] + pads[i] + pads[i + rank]
        if at.get("ceil_mode", 0):
            count = -(-(room - reach) // strides[i]) + 1
            if (count - 1) * strides[i] >= x.shape[i + 2] + pads[i]:
                count -= 1
            pads[i + rank] += max((count - 1) * strides[i] + reach - room, 0)
    x = padded(x, pads, fill)
    for i in range(rank):
        reach = (kernel[i] - 1) * dilations[i] + 1
        x = x.unfold(i + 2, reach, strides[i])[..., :: dilations[i]]
    return x.flatten(2 + rank)


def max_pool(at, x):
    return unfolded(at, x, -torch.inf).amax(-1)


def average_pool(at, x):
    if at.get("count_include_pad", 0):
        return unfolded(at, x, 0.0).mean(-1)
    return unfolded(at, x, 0.0).sum(-1) / unfolded(at, torch.ones_like(x), 0.0).sum(-1)


def pad(at, x, pads, fill=None, axes=None):
    pads = ints(pads)
    axes = ints(axes) if axes is not None else list(range(x.dim()))
    mode, half = at.get("mode", "constant"), len(pads) // 2
    for i, axis in enumerate(axes):
        before, after, extent = pads[i], pads[i + half], x.shape[axis]
        at_all = torch.arange(-before, extent + after)
        inside = (at_all >= 0) & (at_all < extent)
        if mode == "reflect":
            at_all = at_all.abs()
            at_all = extent - 1 - (extent - 1 - at_all).abs()
        elif mode == "wrap":
            at_all = at_all % extent
        chosen = x.index_select(axis, at_all.clamp(0, extent - 1))
        if mode == "constant":
            shape = [-1 if j == axis % x.dim() else 1 for j in range(x.dim())]
            number = torch.zeros((), dtype=x.dtype) if fill is None else fill.reshape(())
            chosen = torch.where(inside.reshape(shape), chosen, number)
        x = chosen
    return x


def slice_(at, x, starts, ends, axes=None, steps=None):
    starts, ends = ints(starts), ints(ends)
    axes = ints(axes) if axes is not None else list(range(len(starts)))
    steps = ints(steps) if steps is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        extent = x.shape[axis]
        end = None if step < 0 and end < -extent else end
        x = x.index_select(axis, torch.tensor(list(range(extent))[start:end:step]))
    return x


def reshape(at, x, shape):
    shape = [x.shape[i] if d == 0 and not at.get("allowzero", 0) else d for i, d in enumerate(ints(shape))]
    return x.reshape(shape)


def squeeze(at, x, axes=None):
    axes = ints(axes) if axes is not None else at.get("axes", [i for i, d in enumerate(x.shape) if d == 1])
    return x.reshape([d for i, d in enumerate(x.shape) if i not in [a % x.dim() for a in axes]])


def unsqueeze(at, x, axes=None):
    axes = ints(axes) if axes is not None else at["axes"]
    rank = x.dim() + len(axes)
    rest = iter(x.shape)
    return x.reshape([1 if i in [a % rank for a in axes] else next(rest) for i in range(rank)])


def split(at, x, sizes=None, *, count):
    axis = at.get("axis", 0)
    sizes = ints(sizes) if sizes is not None else at.get("split")
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = [min(each, x.shape[axis] - i * each) for i in range(count)]
    return x.split(sizes, axis)


def gather_elements(at, x, index):
    axis = at.get("axis", 0)
    return x.gather(axis, torch.where(index < 0, index + x.shape[axis], index))


def gather(at, x, index):
    axis = at.get("axis", 0) % x.dim()
    index = torch.where(index < 0, index + x.shape[axis], index)
    picked = x.index_select(axis, index.reshape(-1))
    return picked.reshape(list(x.shape[:axis]) + list(index.shape) + list(x.shape[axis + 1 :]))


def gemm(at, a, b, c=None):
    a, b = (a.T if at.get("transA", 0) else a), (b.T if at.get("transB", 0) else b)
    out = at.get("alpha", 1.0) * (a @ b)
    return out if c is None else out + at.get("beta", 1.0) * c


def depth_to_space(at, x):
    n, c, h, w = x.shape
    b = at["blocksize"]
    if at.get("mode", "DCR") == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def space_to_depth(at, x):
    n, c, h, w = x.shape
    b = at["blocksize"]
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def normalized(x, axes, epsilon):
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(axes, keepdim=True) + epsilon)


def channels(v, x):
    return v.reshape([1, -1] + [1] * (x.dim() - 2))


def group_norm(at, x, scale, bias):
    groups = at["num_groups"]
    flat = x.reshape(x.shape[0], groups, -1)
    out = normalized(flat, [2], at.get("epsilon", 1e-5)).reshape(x.shape)
    if scale.numel() != x.shape[1]:
        scale, bias = (v.repeat_interleave(x.shape[1] // groups) for v in (scale, bias))
    return out * channels(scale, x) + channels(bias, x)


def layer_norm(at, x, scale, bias=None):
    axes = list(range(at.get("axis", -1) % x.dim(), x.dim()))
    out = normalized(x, axes, at.get("epsilon", 1e-5)) * scale
    return out if bias is None else out + bias


def cum_sum(at, x, axis):
    axis = int(axis) % x.dim()
    y = x.flip(axis) if at.get("reverse", 0) else x
    out = y.cumsum(axis)
    out = out - y if at.get("exclusive", 0) else out
    return out.flip(axis) if at.get("reverse", 0) else out


def trilu(at, x, k=None):
    k = 0 if k is None else int(k)
    return x.triu(k) if at.get("upper", 1) else x.tril(k)


def resize(at, x, roi=None, scales=None, sizes=None):
    modes = at.get("mode", "nearest"), at.get("coordinate_transformation_mode", "half_pixel"), at.get("nearest_mode", "round_prefer_floor")
    axes = at.get("axes", list(range(x.dim())))
    if sizes is not None:
        scales = [s / x.shape[a] for s, a in zip(ints(sizes), axes)]
    else:
        scales = [float(s) for s in scales]
    if modes[0] not in ("nearest", "linear"):
        raise NotImplementedError(f"Resize {modes}")
    for axis, scale in zip(axes, scales):
        extent = x.shape[axis]
        count = int(np.floor(extent * scale))
        place = np.arange(count, dtype=np.float64)
        place = {
            "asymmetric": place / scale,
            "half_pixel": (place + 0.5) / scale - 0.5,
            "pytorch_half_pixel": (place + 0.5) / scale - 0.5 if count > 1 else place * 0,
            "align_corners": place * (extent - 1) / max(count - 1, 1),
        }[modes[1]]
        if modes[0] == "linear":
            place = np.clip(place, 0, extent - 1)
            below = np.floor(place).astype(np.int64)
            share = torch.from_numpy(place - below).reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])
            first, second = (torch.from_numpy(np.minimum(below + i, extent - 1)) for i in (0, 1))
            x = x.index_select(axis, first) * (1 - share) + x.index_select(axis, second) * share
            continue
        rounded = {"floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5)}
        index = np.clip(rounded[modes[2]](place), 0, extent - 1).astype(np.int64)
        x = x.index_select(axis, torch.from_numpy(index))
    return x


def clip(at, x, low=None, high=None):
    low = at.get("min") if low is None else low
    high = at.get("max") if high is None else high
    return torch.clamp(x, None if low is None else float(low), None if high is None else float(high))


def dequantize(at, x, scale, zero=None):
    zero = torch.zeros_like(scale) if zero is None else zero
    if scale.dim() == 1 and scale.numel() > 1:
        shape = [-1 if i == at.get("axis", 1) % x.dim() else 1 for i in range(x.dim())]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    # Rounded once to float32, as the operator specifies.
    return ((x.double() - zero.double()).float() * scale.float()).double()


def cast(at, x):
    to = at["to"]
    return x.double() if to in (1, 11) else x.bool() if to == 9 else x.long()


def folded(f):
    def run(at, first, *rest):
        for x in rest:
            first = f(first, x)
        return first

    return run


def stepped(f):
    """Returns a step function: its gradient is zero."""
    return lambda at, x: f(x).detach()


OPS = {
    "Abs": lambda at, x: x.abs(),
    "Celu": lambda at, x: F.celu(x, at.get("alpha", 1.0)),
    "Clip": clip,
    "Cos": lambda at, x: x.cos(),
    "Elu": lambda at, x: F.elu(x, at.get("alpha", 1.0)),
    "Erf": lambda at, x: torch.erf(x),
    "Exp": lambda at, x: x.exp(),
    "Gelu": lambda at, x: F.gelu(x, approximate=at.get("approximate", "none")),
    "HardSigmoid": lambda at, x: torch.clamp(at.get("alpha", 0.2) * x + at.get("beta", 0.5), 0.0, 1.0),
    "HardSwish": lambda at, x: x * torch.clamp(x / 6 + 0.5, 0.0, 1.0),
    "Identity": lambda at, x: x,
    "Dropout": lambda at, x, *rest: x,
    "LeakyRelu": lambda at, x: F.leaky_relu(x, at.get("alpha", 0.01)),
    "Mish": lambda at, x: F.mish(x),
    "Neg": lambda at, x: -x,
    "Relu": lambda at, x: F.relu(x),
    "Selu": lambda at, x: at.get("gamma", 1.0507009873554805) * torch.where(x > 0, x, at.get("alpha", 1.6732632423543772) * (torch.exp(torch.clamp(x, max=0.0)) - 1)),
    "Sigmoid": lambda at, x: torch.sigmoid(x),
    "Sin": lambda at, x: x.sin(),
    "Softplus": lambda at, x: F.softplus(x),
    "Softsign": lambda at, x: F.softsign(x),
    "Tanh": lambda at, x: torch.tanh(x),
    "ThresholdedRelu": lambda at, x: torch.where(x > at.get("alpha", 1.0), x, torch.zeros_like(x)),
    "Cast": cast,
    "Ceil": stepped(torch.ceil),
    "Floor": stepped(torch.floor),
    "Round": stepped(torch.round),
    "Sign": stepped(torch.sign),
    "Log": lambda at, x: x.log(),
    "Reciprocal": lambda at, x: 1 / x,
    "Sqrt": lambda at, x: x.sqrt(),
    "Pow": lambda at, x, y: x**y,
    "Add": lambda at, x, y: x + y,
    "Div": lambda at, x, y: x / y,
    "Mul": lambda at, x, y: x * y,
    "Sub": lambda at, x, y: x - y,
    "Max": folded(torch.maximum),
    "Min": folded(torch.minimum),
    "Sum": folded(torch.add),
    "Mean": lambda at, *x: sum(x) / len(x),
    "PRelu": lambda at, x, slope: torch.where(x < 0, x * slope, x),
    "Where": lambda at, c, x, y: torch.where(c, x, y),
    "Greater": lambda at, x, y: x > y,
    "GreaterOrEqual": lambda at, x, y: x >= y,
    "Less": lambda at, x, y: x < y,
    "LessOrEqual": lambda at, x, y: x <= y,
    "Equal": lambda at, x, y: x == y,
    "Not": lambda at, x: ~x,
    "ReduceL1": reduced(lambda x, axes, keep: x.abs().sum(axes, keep)),
    "ReduceL2": reduced(lambda x, axes, keep: (x * x).sum(axes, keep).sqrt()),
    "ReduceLogSum": reduced(lambda x, axes, keep: x.sum(axes, keep).log()),
    "ReduceLogSumExp": reduced(lambda x, axes, keep: torch.logsumexp(x, axes, keep)),
    "ReduceMax": reduced(lambda x, axes, keep: x.amax(axes, keep)),
    "ReduceMean": reduced(lambda x, axes, keep: x.mean(axes, keep)),
    "ReduceMin": reduced(lambda x, axes, keep: x.amin(axes, keep)),
    "ReduceProd": reduced(over_each(lambda x, axis, keep: x.prod(axis, keep))),
    "ReduceSum": reduced(lambda x, axes, keep: x.sum(axes, keep)),
    "ReduceSumSquare": reduced(lambda x, axes, keep: (x * x).sum(axes, keep)),
    "Softmax": lambda at, x: x.softmax(at.get("axis", -1)),
    "LogSoftmax": lambda at, x: x.log_softmax(at.get("axis", -1)),
    "LayerNormalization": layer_norm,
    "LpNormalization": lambda at, x: x / torch.linalg.vector_norm(x, at.get("p", 2), at.get("axis", -1), keepdim=True),
    "MeanVarianceNormalization": lambda at, x: normalized(x, at.get("axes", [0, 2, 3]), 0.0),
    "InstanceNormalization": lambda at, x, s, b: normalized(x, list(range(2, x.dim())), at.get("epsilon", 1e-5)) * channels(s, x) + channels(b, x),
    "GroupNormalization": group_norm,
    "Einsum": lambda at, *x: torch.einsum(at["equation"].replace(" ", ""), *x),
    "Gemm": gemm,
    "MatMul": lambda at, a, b: a @ b,
    "AveragePool": average_pool,
    "MaxPool": max_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "GlobalAveragePool": lambda at, x: x.mean(list(range(2, x.dim())), keepdim=True),
    "GlobalMaxPool": lambda at, x: x.amax(list(range(2, x.dim())), keepdim=True),
    "Pad": pad,
    "Resize": resize,
    "Concat": lambda at, *x: torch.cat(x, at["axis"]),
    "CumSum": cum_sum,
    "Expand": lambda at, x, shape: x.expand(torch.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))),
    "Flatten": lambda at, x: x.reshape(int(np.prod(x.shape[: at.get("axis", 1)])), -1),
    "Gather": gather,
    "GatherElements": gather_elements,
    "Reshape": reshape,
    "Shape": lambda at, x: torch.tensor(x.shape),
    "Slice": slice_,
    "Squeeze": squeeze,
    "Tile": lambda at, x, repeats: x.repeat(ints(repeats)),
    "Transpose": lambda at, x: x.permute(at.get("perm", list(reversed(range(x.dim()))))),
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
    "DequantizeLinear": dequantize,
}
