"""Makes a table of networks of torchvision, timm, transformers and others by both exporters of PyTorch.

    pip install torch torchvision timm transformers onnx onnxscript && python3 zoo.py [NAME...] [--out FOLDER]

A NAME may hold `*`. Each network is small, has seeded weights, and is exported with a symbolic batch.
`damper gradients` writes the per-sample gradients, and PyTorch's autograd computes them again in float64, one sample at
a time. What damper trains is compared with `named_parameters()`. The folder gets `results.md`, `results.json` and `files/`.
"""

import argparse
import copy
import datetime
import fnmatch
import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import time
import traceback
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

import zoo_compare
import zoo_networks
import zoo_transformers
import zoo_vision

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORKS = zoo_vision.NETWORKS | zoo_transformers.NETWORKS | zoo_networks.NETWORKS
EXPORTERS = {"torchscript": 17, "dynamo": 18}
ROWS = 3
SEEDS = (7, 8, 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="networks to run; all by default")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("zoo"), help="folder of the results")
    parser.add_argument("--damper", default=None, help="the command; by default that of PATH or target/release")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="one of the exporters only")
    parser.add_argument("--fresh", action="store_true", help="leaves the weights as they are initialised")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of one network by one exporter")
    options = parser.parse_args()
    options.damper = options.damper or shutil.which("damper") or str(ROOT / "target/release/damper")
    names = [name for name in NETWORKS if not options.names or any(fnmatch.fnmatch(name, one) for one in options.names)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "files").mkdir(exist_ok=True)
    file = options.out / ("fresh.json" if options.fresh else "results.json")
    results = {}
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    onnxruntime.set_default_logger_severity(4)
    torch.set_num_threads(1)
    for name in names:
        for exporter in options.exporter or EXPORTERS:
            result = in_process(name, exporter, options)
            # Another run may have written meanwhile.
            results = json.loads(file.read_text()) if file.exists() else {}
            results.setdefault(name, {})[exporter] = result
            print(f"{name} {exporter}: {result['cell'][:300]} [{result['seconds']:.0f} s]", flush=True)
            file.write_text(json.dumps(results, indent=1))
            file.with_suffix(".md").write_text(table(results))
    print(summary({name: results[name] for name in names}))


# ---- one network by one exporter


def in_process(name, exporter, options):
    """Runs `cell` in a separate process, so that a crash or a loop of an exporter ends there."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=send, args=(there, name, exporter, options))
    start = time.time()
    process.start()
    there.close()
    try:
        result = here.recv() if here.poll(options.seconds) else failed("exporter", f"over {options.seconds:.0f} s")
    except EOFError:
        result = failed("exporter", "the process crashed")
    process.kill()
    process.join()
    return result | {"seconds": time.time() - start, "day": datetime.date.today().isoformat()}


def send(pipe, name, exporter, options):
    # An exporter that fails prints its graph.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        pipe.send(cell(name, exporter, options))
    except Exception:
        pipe.send(failed("script", traceback.format_exc()))


def failed(kind, detail):
    detail = detail.strip()[:4000]
    cell = f"refused: {detail.splitlines()[0]}" if kind == "refused" else f"{kind} fails"
    return {"kind": kind, "cell": cell, "detail": detail}


def cell(name, exporter, options):
    """Exports the network, derives and compares."""
    network = NETWORKS[name]
    torch.manual_seed(20240817)
    net = network.make().eval()
    if network.batch_norm:
        source, net = net, zoo_vision.group_norms(copy.deepcopy(net), 32)
    else:
        source = net = zoo_vision.group_norms(net, 8)
    if not options.fresh:
        perturb(net)
        copy_parameters(net, source)
    stem = options.out / "files" / f"{name.replace('/', '.')}.{exporter}{'.fresh' if options.fresh else ''}"
    path = stem.with_suffix(stem.suffix + ".onnx")
    path.unlink(missing_ok=True)
    variant, errors = export(source, network, make_inputs(network, SEEDS[0]), exporter, path)
    if not path.exists():
        return failed("exporter", "\n".join(errors))
    if network.batch_norm:
        fixed = path.with_suffix(".fixed.onnx")
        done = call(options, "fix", path, "-o", fixed, "--batch-norm", "group")
        if done.returncode:
            return failed("refused", "fix: " + message(done))
        path = fixed
    if options.fresh:
        # Noise shows which parameters have a gradient. Some heads begin as zeros.
        perturb(net := copy.deepcopy(net))
    for seed in SEEDS:
        inputs = make_inputs(network, seed)
        result = derive(path, network, inputs, zoo_compare.reference(net, network, inputs), options)
        # At a kink, float32 may take the other side than float64. Other samples have other kinks.
        if result["kind"] != "off" or not result["worst"] < 1:
            break
    if variant:
        result |= {"variant": variant, "cell": f"{result['cell']} ({variant})"}
    return result


def make_inputs(network, seed):
    torch.manual_seed(seed)
    return {key: make(ROWS) for key, make in network.inputs.items()}


def perturb(net):
    """Adds a little noise, because exporters merge equal tensors and drop zeros, which pretrained weights do not
    have."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in net.parameters():
            # A table of sines does not change.
            if not value.requires_grad:
                continue
            value += 0.02 * torch.randn(value.shape, generator=generator)


def copy_parameters(net, source):
    with torch.no_grad():
        for value, other in zip(net.parameters(), source.parameters(), strict=True):
            other.copy_(value)


def export(net, network, inputs, exporter, path):
    """Tries the variants of a user in turn. Returns the variant that worked, and the errors of the others."""
    transformers = [one for one in net.modules() if hasattr(one, "set_attn_implementation")]
    tries = [("", {})]
    tries += [("eager attention", {"eager": True})] if transformers else []
    tries += [("batch of 1", {"fixed": True})]
    errors = []
    for variant, change in tries:
        if change.get("eager"):
            transformers[0].set_attn_implementation("eager")
        try:
            write(net, network, inputs, exporter, path, fixed=change.get("fixed", False))
            return variant, errors
        except Exception as error:
            path.unlink(missing_ok=True)
            errors.append(f"{variant or 'as it is'}: {type(error).__name__}: {str(error).strip()[:600]}")
    return None, errors


def write(net, network, inputs, exporter, path, fixed):
    values = tuple(value[:1] if fixed else value for value in inputs.values())
    names = list(inputs)
    common = {"input_names": names, "output_names": ["y"], "opset_version": network.opset or EXPORTERS[exporter]}
    if exporter == "dynamo":
        shapes = tuple({0: torch.export.Dim("batch", max=1024)} for _ in names)
        shapes = (shapes,) if network.packed else shapes
        torch.onnx.export(
            net, values, path, dynamo=True, external_data=False, verbose=False, optimize=not network.batch_norm,
            dynamic_shapes=None if fixed else shapes, **common,
        )
        return
    axes = {name: {0: "batch"} for name in [*names, "y"]}
    mode = torch.onnx.TrainingMode.TRAINING if network.batch_norm else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        net, values, path, dynamo=False, do_constant_folding=not network.batch_norm, training=mode,
        dynamic_axes=None if fixed else axes, **common,
    )


# ---- damper


def call(options, *arguments):
    return subprocess.run([options.damper, *map(str, arguments)], capture_output=True, text=True)


def message(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
    text = "\n".join(lines).removeprefix("error: ").removeprefix("damper: ")
    return text or f"exit code {done.returncode}"


def derive(path, network, inputs, samples, options):
    """Per-sample gradients by damper, compared with the reference."""
    data, out = path.with_suffix(".data.npz"), path.with_suffix(".gradients.npz")
    model = onnx.load(path)
    taken = {one.name for one in model.graph.input}
    np.savez(data, labels=samples.labels.numpy(), **{key: one.numpy() for key, one in inputs.items() if key in taken})
    done = call(
        options, "gradients", path, "--data", f"npz:{data}", "--arrays", f"{next(iter(inputs))},labels", "--out", out,
        "--workers", 1, "--class-axis", network.class_axis,
    )
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning")]
    if done.returncode:
        return failed("refused", message(done).replace(str(path), path.name)) | {"warned": warned}
    # damper gives parameters the names of the source, and writes them with a model.
    read = path.with_suffix(".read.onnx")
    if not call(options, "fix", path, "-o", read).returncode:
        model = onnx.load(read)
        read.unlink()
    archive = np.load(out)
    grads = {key.removeprefix("grad/"): archive[key] for key in archive.files if key.startswith("grad/")}
    result = zoo_compare.compare(model, grads, archive["loss"], samples, options.fresh)
    out.unlink()
    if result["kind"] == "off" and (differ := forward(path, inputs, samples)):
        cell = f"the exporter's file computes something else: {differ}"
        return result | {"kind": "file", "cell": cell, "warned": warned}
    named = [name for name in [*result["missing"], *result["extra"]] if f"'{name}'" in "".join(warned)]
    return result | {"warned": warned, "cell": result["cell"] + (" (warned)" if named else "")}


def forward(path, inputs, samples):
    """Describes the difference of the file's outputs from PyTorch's, or returns None."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    taken = [one.name for one in session.get_inputs()]
    outputs = []
    for row in range(ROWS):
        (out,) = session.run(None, {key: one[row : row + 1].numpy() for key, one in inputs.items() if key in taken})
        outputs.append(out)
    out = np.concatenate(outputs)
    if not np.isfinite(out).all():
        return "outputs that are not finite"
    apart = np.abs(out - samples.outputs).max() / np.abs(samples.outputs).max()
    return f"outputs off by {apart:.0e}" if apart > 1e-3 else None


# ---- results


def table(results):
    lines = ["| network | TorchScript | dynamo |", "| --- | --- | --- |"]
    for name in NETWORKS:
        if name in results:
            cells = [results[name].get(exporter, {}).get("cell", "") for exporter in EXPORTERS]
            cells = [cell.replace("|", "/").replace("\n", " ")[:200] for cell in cells]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + summary(results) + "\n"


def summary(results):
    counts = {}
    for row in results.values():
        for exporter, one in row.items():
            counts.setdefault(exporter, {}).setdefault(one["kind"], []).append(one)
    parts = [
        f"{exporter}: " + ", ".join(f"{len(those)} {kind}" for kind, those in sorted(kinds.items()))
        for exporter, kinds in counts.items()
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    main()
