"""CPU time and memory of one private training step: damper beside PyTorch, Opacus and JAX.

    python3 benches/peers/run.py [--rounds 7] [--seconds 2] [--networks mnist,cifar] [--batches 64,256] [--only PyTorch,damper]

Every candidate is a process of its own on one thread. They run interleaved: a round gives each candidate its turn, about
`--seconds` of steps, one after the other; the table has the median over the rounds. README.md says what a step is.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHAPES = {"mnist": (1, 28, 28), "cifar": (3, 32, 32)}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "CUDA_VISIBLE_DEVICES": "",
}
CANDIDATES = {
    "PyTorch, not private": ["with_torch.py", "plain"],
    "Opacus, hooks": ["with_torch.py", "hooks"],
    "Opacus, ghost": ["with_torch.py", "ghost"],
    "JAX, vmap(grad)": ["with_jax.py"],
    "damper, exact": ["discrete"],
    "damper, float": ["continuous"],
}
YARDSTICK = "Opacus, hooks"


def main():
    arguments = parse()
    print(f"{'network':8}{'batch':>6}  {'candidate':24}{'ms a step':>10}{'us a sample':>13}{'x':>7}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for network in arguments.networks.split(","):
            for batch in map(int, arguments.batches.split(",")):
                rows = measure(arguments, pathlib.Path(folder), network, batch)
                yardstick = rows.get(YARDSTICK, (float("nan"),))[0]
                for name, (seconds, peak) in rows.items():
                    print(f"{network:8}{batch:6}  {name:24}{seconds * 1e3:10.2f}{seconds / batch * 1e6:13.1f}"
                          f"{yardstick / seconds:7.2f}{peak / 1024:9.0f}", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--networks", default="mnist,cifar")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--only", default="PyTorch,Opacus,JAX,damper", help="candidates, by how their names begin")
    parser.add_argument("--peer", default=ROOT / "target/release/damper-peer", help="the built damper-peer")
    parser.add_argument("--models", default=ROOT / "onnx-models", type=pathlib.Path)
    return parser.parse_args()


def measure(arguments, folder, network, batch):
    """Median CPU seconds a step and peak KiB, by candidate."""
    names = [name for name in CANDIDATES if name.startswith(tuple(arguments.only.split(",")))]
    running = {name: start(arguments, folder, name, network, batch) for name in names}
    try:
        # How many steps a turn takes, from a first turn that does not count. damper's trainer reports every 0.1 s.
        first = {"mnist": 40, "cifar": 3}[network]
        steps = {name: max(2, round(arguments.seconds / turn(running[name], first if "damper" in name else 2)[0]))
                 for name in names}
        turns = {name: [] for name in names}
        for _ in range(arguments.rounds):
            for name in names:
                turns[name].append(turn(running[name], steps[name]))
    finally:
        for process in running.values():
            process.stdin.close()
            process.wait()
    return {name: (statistics.median(t[0] for t in turns[name]), turns[name][-1][1]) for name in names}


def start(arguments, folder, name, network, batch):
    """The candidate's process, warmed up."""
    command = CANDIDATES[name]
    if name.startswith("damper"):
        command = [arguments.peer, arguments.models / f"{network}-cnn.onnx", data(folder, network, batch), batch, *command]
    else:
        command = [sys.executable, HERE / command[0], *command[1:], network, batch]
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD
    )
    answer = process.stdout.readline()
    if answer.strip() != "ready":
        sys.exit(f"{name} did not start: {answer}")
    return process


def turn(process, steps):
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    seconds, peak = process.stdout.readline().split()
    return float(seconds), int(peak)


def data(folder, network, batch):
    """A data set of one batch."""
    path = folder / f"{network}-{batch}.npz"
    if not path.exists():
        draw = np.random.default_rng(0)
        x = draw.random((batch, *SHAPES[network]), dtype=np.float32)
        np.savez(path, x=x, y=draw.integers(10, size=batch))
    return path


if __name__ == "__main__":
    main()
