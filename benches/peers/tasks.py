"""Whole trainings: the same task through Opacus and through `damper.fit`. Time, peak memory and accuracy side by side.

    python3 benches/peers/tasks.py [--tasks table,mnist] [--seeds 3]

needs damper's wheel, torch and opacus. Each run is a separate process on one thread, and the two programs alternate.
MNIST is read from `../shared/data/mnist`. Without it the task is skipped, with a message. Prints the table of
`benches/record/tasks.md`.
"""

import argparse
import gzip
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
MNIST = ROOT.parent / "shared" / "data" / "mnist"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
DELTA = 1e-5
TASKS = {
    "table": dict(epsilon=3.0, epochs=10, batch_size=256, lr=0.5, momentum=0.9, clip=1.0),
    "mnist": dict(epsilon=3.0, epochs=1, batch_size=512, lr=1.0, momentum=0.9, clip=0.1),
}
PROGRAMS = ("damper", "opacus")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="table,mnist")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # Of a process: task, program, seed.
    arguments = parser.parse_args()
    if arguments.one:
        task, program, seed = arguments.one
        print(json.dumps(one(task, program, int(seed))))
        return
    import importlib.metadata

    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("damper", "opacus", "torch", "onnxruntime"))
    print(f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start; {versions}\n")
    print("| task | program | test accuracy | ε | CPU time, s | wall time, s | peak memory, MiB | of which training |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for task in arguments.tasks.split(","):
        if task == "mnist" and not MNIST.is_dir():
            print(f"skipped: mnist because {MNIST} is not there")
            continue
        runs = {program: [] for program in PROGRAMS}
        for seed in range(arguments.seeds):
            for program in PROGRAMS:
                command = [sys.executable, __file__, "--one", task, program, str(seed)]
                done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
                if done.returncode:
                    sys.exit(f"{task}, {program}: {done.stderr}")
                print(f"{task}, {program}, seed {seed}: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)
                runs[program].append(json.loads(done.stdout.splitlines()[-1]))
        for program in PROGRAMS:
            print(row(task, program, runs[program]), flush=True)


def row(task, program, runs):
    of = {key: [run[key] for run in runs] for key in runs[0]}
    accuracy = ", ".join(f"{100 * value:.2f}" for value in of["accuracy"])
    mean, spread = statistics.mean(of["accuracy"]), statistics.stdev(of["accuracy"]) if len(runs) > 1 else 0.0
    middle = {key: statistics.median(values) for key, values in of.items()}
    return (
        f"| {task} | {program} | {100 * mean:.2f} ± {100 * spread:.2f} % ({accuracy}) | {middle['epsilon']:.4f} | {middle['cpu']:.1f} "
        f"| {middle['wall']:.1f} | {middle['peak']:.0f} | {middle['added']:.0f} |"
    )


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if pathlib.Path("/proc/cpuinfo").is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def one(task, program, seed):
    """One training. The clock runs from the module and the arrays to the trained module, including damper's export and
    report."""
    import numpy as np
    import torch

    warnings.filterwarnings("ignore")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    train, test = table() if task == "table" else mnist()
    module = network(task)
    settings = TASKS[task]
    train_with = {"damper": with_damper, "opacus": with_opacus}[program]
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    epsilon = train_with(module, train, settings)
    cpu, wall, most = time.process_time() - cpu, time.perf_counter() - wall, peak()
    with torch.no_grad():
        outputs = np.concatenate([module(torch.from_numpy(part)).argmax(1).numpy() for part in np.array_split(test[0], 10)])
    accuracy = float((outputs == test[1]).mean())
    return dict(accuracy=accuracy, epsilon=epsilon, cpu=cpu, wall=wall, peak=most, added=most - before)


def peak():
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def with_damper(module, train, settings):
    import tempfile

    import damper

    with tempfile.TemporaryDirectory() as folder:
        run = damper.fit(
            module, train, delta=DELTA, optimizer="momentum", workers=1, progress=False, out=os.path.join(folder, "run"), **settings
        )
        run.load_into(module)
        return run.epsilon


def with_opacus(module, train, settings):
    import torch
    from opacus import PrivacyEngine

    data = torch.utils.data.TensorDataset(*map(torch.from_numpy, train))
    loader = torch.utils.data.DataLoader(data, batch_size=settings["batch_size"])
    engine = PrivacyEngine()
    private, optimizer, loader = engine.make_private_with_epsilon(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=settings["lr"], momentum=settings["momentum"]),
        data_loader=loader,
        target_epsilon=settings["epsilon"],
        target_delta=DELTA,
        epochs=settings["epochs"],
        max_grad_norm=settings["clip"],
    )
    for _ in range(settings["epochs"]):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(private(x), y).backward()
            optimizer.step()
    return engine.get_epsilon(DELTA)


def network(task):
    from torch import nn

    if task == "table":
        return nn.Sequential(nn.Linear(40, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 5))
    # 26,010 parameters, as in Papernot et al.
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )


def table():
    """Synthetic data: 20,000 training rows and 5,000 test rows, 40 columns, 5 classes of two clusters each."""
    import numpy as np

    rng = np.random.default_rng(0)
    centres = 0.55 * rng.standard_normal((10, 40))
    cluster = rng.integers(0, 10, 25_000)
    x = (centres[cluster] + rng.standard_normal((25_000, 40))).astype(np.float32)
    y = (cluster % 5).astype(np.int64)
    return (x[:20_000], y[:20_000]), (x[20_000:], y[20_000:])


def mnist():
    import numpy as np

    def read(name, header, shape):
        with gzip.open(MNIST / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header).reshape(shape)

    def part(name):
        # In place, so that the memory before the training is only that of the data.
        images = read(f"{name}-images-idx3", 16, (-1, 1, 28, 28)).astype(np.float32)
        images -= 255 * 0.1307
        images /= 255 * 0.3081
        return images, read(f"{name}-labels-idx1", 8, -1).astype(np.int64)

    return part("train"), part("t10k")


if __name__ == "__main__":
    main()
