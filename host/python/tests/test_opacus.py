"""The same task through Opacus: accuracy within seed noise, time and memory printed. docs/migration-opacus.md has both programs."""

import json
import subprocess
import sys

import pytest

PROGRAM = '''
import json, resource, sys, time, warnings
import numpy as np, torch
warnings.filterwarnings("ignore")
which, seed = sys.argv[1], int(sys.argv[2])
torch.manual_seed(seed); torch.set_num_threads(2)
rng = np.random.default_rng(0)
centres = rng.standard_normal((10, 64)) * 0.55
labels = rng.integers(0, 10, 12000)
x = (centres[labels] + rng.standard_normal((12000, 64))).astype(np.float32)
train, test = (x[:10000], labels[:10000]), (x[10000:], labels[10000:])
module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))
EPSILON, DELTA, EPOCHS, BATCH, LR, CLIP = 2.0, 1e-5, 8, 250, 1.0, 1.0
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if which == "damper":
    import damper
    start = time.perf_counter()
    run = damper.fit(module, train, epsilon=EPSILON, delta=DELTA, epochs=EPOCHS, batch_size=BATCH, lr=LR, clip=CLIP, progress=False)
    seconds = time.perf_counter() - start
    run.load_into(module)
    epsilon = run.epsilon
else:
    from opacus import PrivacyEngine
    data = torch.utils.data.TensorDataset(*map(torch.from_numpy, train))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    optimizer = torch.optim.SGD(module.parameters(), lr=LR)
    engine = PrivacyEngine()
    start = time.perf_counter()
    module, optimizer, loader = engine.make_private_with_epsilon(
        module=module, optimizer=optimizer, data_loader=loader, target_epsilon=EPSILON, target_delta=DELTA, epochs=EPOCHS,
        max_grad_norm=CLIP)
    for _ in range(EPOCHS):
        for a, b in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(a), b).backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    epsilon = engine.get_epsilon(DELTA)
with torch.no_grad():
    accuracy = float((module(torch.from_numpy(test[0])).argmax(1).numpy() == test[1]).mean())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(dict(accuracy=accuracy, seconds=seconds, epsilon=epsilon, mebibytes=(after - before) / 1024)))
'''

SEEDS = 3


def test_opacus_reaches_the_same_accuracy(capsys):
    pytest.importorskip("opacus")
    results = {}
    for which in ("damper", "opacus"):
        runs = []
        for seed in range(SEEDS):
            done = subprocess.run([sys.executable, "-c", PROGRAM, which, str(seed)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        results[which] = {key: [run[key] for run in runs] for key in runs[0]}
    mean = {which: {key: sum(values) / SEEDS for key, values in found.items()} for which, found in results.items()}
    with capsys.disabled():
        print()
        for which, found in mean.items():
            print(
                f"{which}: accuracy {found['accuracy']:.4f}, epsilon {found['epsilon']:.3f}, {found['seconds']:.2f} s, "
                f"{found['mebibytes']:.0f} MiB more than before"
            )
    spread = max(max(found["accuracy"]) - min(found["accuracy"]) for found in results.values())
    assert mean["damper"]["accuracy"] > 0.6
    assert abs(mean["damper"]["accuracy"] - mean["opacus"]["accuracy"]) < max(spread, 0.01) + 0.01
    assert all(1.9 < epsilon <= 2.01 for found in results.values() for epsilon in found["epsilon"])
