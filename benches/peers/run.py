"""Time and memory of one private training step: damper next to PyTorch, Opacus, torch.func and JAX.

    python3 benches/peers/run.py [--rounds 7] [--seconds 2] [--networks mnist,cifar] [--batches 64,256] [--only PyTorch,damper]
    python3 benches/peers/run.py --networks resnet18,wrn,vit,bert,gpt --batches 32 [--threads 2]
    python3 benches/peers/run.py --networks bert-base-head,bert-base-lora,bert-base,vit-b16,gpt2 --batches 8 --rounds 2 --only Opacus,torch.func
    python3 benches/peers/run.py --device cuda --networks mnist,resnet18 --batches 256

Every candidate is a separate process, on one thread (CPU time) or on `--threads` (wall time). A round gives each
candidate its turn, about `--seconds` of steps. The table has the median over the rounds. Candidates run interleaved,
all alive at once, if that fits into memory. Those of the networks in LARGE, and all with `--alone`, run one after the
other, each alone with all its rounds. Rows are printed as they are measured. For networks of real sizes a round is one
step. README.md defines a step.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from shapes import MODELS, REAL, batch as samples

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CANDIDATES = {
    "PyTorch, not private": ["with_torch.py", "plain"],
    "Opacus, hooks": ["with_torch.py", "hooks"],
    "Opacus, ghost": ["with_torch.py", "ghost"],
    "torch.func, vmap(grad)": ["with_torch.py", "func"],
    "JAX, vmap(grad)": ["with_jax.py"],
    "damper, exact": ["discrete"],
    "damper, float": ["continuous"],
    "damper, clipped-sum": ["clipped-sum"],
    "damper, frozen part once": ["discrete", "cache=yes"],
}
# The candidate that computes the frozen part before the first step, and its networks. Its steps take milliseconds.
ONCE, OF_ONCE = "damper, frozen part once", ("bert-base-head",)
YARDSTICK = "Opacus, hooks"
# Networks whose candidates together take 12 GB.
LARGE = ("resnet18", "wrn", "vit", "bert", "gpt", *REAL)


def environment(threads, device):
    if device == "cuda":
        # Threads prepare batches. No factor is rounded to TF32.
        return os.environ | {
            "OMP_NUM_THREADS": str(threads), "PEER_DEVICE": device, "NVIDIA_TF32_OVERRIDE": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
    return os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" if threads == 1 else "",
        "CUDA_VISIBLE_DEVICES": "",
    }


def main():
    arguments = parse()
    arguments.is_wall = arguments.threads > 1 or arguments.device == "cuda"
    print(f"{'wall' if arguments.is_wall else 'CPU'} time on {arguments.device}, threads: {arguments.threads}, load at the start: {os.getloadavg()[0]:.1f}")
    print(f"{'network':15}{'batch':>6}  {'candidate':24}{'ms a step':>10}{'us a sample':>13}{'x':>7}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for network in arguments.networks.split(","):
            for batch in map(int, arguments.batches.split(",")):
                candidates = [name for name in CANDIDATES if name.startswith(tuple(arguments.only.split(",")))]
                if arguments.device == "cuda":
                    candidates.remove("damper, float")
                if network not in OF_ONCE:
                    candidates = [name for name in candidates if name != ONCE]
                is_alone = arguments.alone or arguments.device == "cuda" or network in LARGE
                if is_alone:
                    # First, so that the others' rows can be compared with it.
                    candidates.sort(key=lambda name: name != YARDSTICK)
                yardstick = float("nan")
                for group in [[name] for name in candidates] if is_alone else [candidates]:
                    rows = measure(arguments, pathlib.Path(folder), network, batch, group)
                    yardstick = rows.get(YARDSTICK, (yardstick,))[0]
                    for name, (seconds, peak) in rows.items():
                        print(f"{network:15}{batch:6}  {name:24}{seconds * 1e3:10.2f}{seconds / batch * 1e6:13.1f}"
                              f"{yardstick / seconds:7.2f}{peak / 1024:9.0f}", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--networks", default="mnist,cifar")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--only", default="PyTorch,Opacus,torch,JAX,damper", help="candidates, by how their names begin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: wall time, one physical batch, a candidate at a time")
    parser.add_argument("--alone", action="store_true", help="one candidate's process at a time; always so for large networks")
    parser.add_argument("--peer", default=ROOT / "target/release/damper-peer", help="the built damper-peer")
    parser.add_argument("--models", default=ROOT / "onnx-models", type=pathlib.Path)
    return parser.parse_args()


def measure(arguments, folder, network, batch, names):
    """Median seconds a step and peak KiB of each of these candidates, alive at once. Those that fail are printed and left out."""
    started = {name: start(arguments, folder, name, network, batch) for name in names}
    running = {name: process for name, process in started.items() if process}
    clock = int(arguments.is_wall)
    steps, turns = {}, {name: [] for name in running}
    try:
        # The number of steps of a turn, from a first turn that does not count. damper's trainer reports every 0.1 s.
        first = {"mnist": 40, "bert": 8, "gpt": 8}.get(network, 3)
        if network in REAL:
            # A step takes seconds, so one is enough. damper's first does not count.
            steps = {name: 2000 if name == ONCE else 2 if "damper" in name else 1 for name in running}
        for of_round in range(0 if steps else -1, arguments.rounds):
            for name, process in list(running.items()):
                least = first if "damper" in name else 2
                try:
                    took = turn(process, steps.get(name, least))
                except (OSError, ValueError):
                    fail(folder, network, batch, name, running.pop(name))
                    continue
                if of_round < 0:
                    # damper's first step is not part of its figure.
                    steps[name] = max(2, round(arguments.seconds / took[clock])) + ("damper" in name)
                else:
                    turns[name].append(took)
    finally:
        for process in running.values():
            process.stdin.close()
            process.wait()
    return {name: (statistics.median(t[clock] for t in turns[name]), turns[name][-1][2]) for name in running}


def fail(folder, network, batch, name, process):
    """Prints the reason for the end of a candidate."""
    process.communicate()
    lines = (folder / name).read_text().strip().splitlines()
    killed = "killed, perhaps for want of memory" if process.returncode == -9 else f"no reason given (status {process.returncode})"
    print(f"{network:15}{batch:6}  {name:24}not measured: {(lines or [killed])[-1][:90]}", flush=True)


def start(arguments, folder, name, network, batch):
    """The candidate's process, warmed up, or None if it does not support this network, which is printed."""
    command = CANDIDATES[name]
    if name.startswith("damper"):
        _, words = REAL.get(network, (None, []))
        command = [arguments.peer, model(arguments, folder, network), data(folder, network, batch), batch, *command, *words]
        command += ["warm=no"] if network in REAL else []
        command += ["cuda", batch] if arguments.device == "cuda" else []
    else:
        command = [sys.executable, HERE / command[0], *command[1:], network, batch]
    # Not a pipe, because it is not read while the process runs, and would fill up.
    with open(folder / name, "w") as errors:
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=environment(arguments.threads, arguments.device),
        )
    answer = process.stdout.readline()
    if answer.strip() != "ready":
        return fail(folder, network, batch, name, process)
    return process


def turn(process, steps):
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    cpu, wall, peak = process.stdout.readline().split()
    return float(cpu), float(wall), int(peak)


def model(arguments, folder, network):
    """The file that damper trains. Those of real sizes are exported."""
    if network not in REAL:
        return arguments.models / f"{MODELS[network]}.onnx"
    name, _ = REAL[network]
    path = folder / f"{name}.onnx"
    if not path.exists():
        subprocess.run([sys.executable, HERE / "real.py", name, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def data(folder, network, batch):
    """A data set of one batch."""
    path = folder / f"{network}-{batch}.npz"
    if not path.exists():
        x, y = samples(network, batch)
        of_input = {"vit-b16": "pixel_values", "gpt2": "input_ids"}
        is_bert = network.startswith("bert")
        names = dict(zip(("input_ids", "attention_mask"), x.transpose(1, 0, 2))) if is_bert else {of_input.get(network, "x"): x}
        np.savez(path, **names, y=y)
    return path


if __name__ == "__main__":
    main()
