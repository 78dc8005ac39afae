"""The same task in Opacus: accuracy within seed noise, with time and memory printed. docs/migration-opacus.md has both
programs."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = '''
import json, resource, sys, time, warnings
import numpy as np, torch
warnings.filterwarnings("ignore")
which, seed = sys.argv[1], int(sys.argv[2])
torch.manual_seed(seed); torch.set_num_threads(1)
rng = np.random.default_rng(0)
centres = rng.standard_normal((10, 64)) * 0.35
labels = rng.integers(0, 10, 7000)
x = (centres[labels] + rng.standard_normal((7000, 64))).astype(np.float32)
train, test = (x[:6000], labels[:6000]), (x[6000:], labels[6000:])
module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))
EPSILON, DELTA, EPOCHS, BATCH, LR, CLIP = 3.0, 1e-5, 5, 200, 1.0, 1.0
if which == "damper":
    import damper
    start = time.process_time()
    run = damper.fit(module, train, epsilon=EPSILON, delta=DELTA, epochs=EPOCHS, batch_size=BATCH, lr=LR, clip=CLIP, workers=1, progress=False)
    seconds = time.process_time() - start
    run.load_into(module)
    epsilon = run.epsilon
else:
    from opacus import PrivacyEngine
    data = torch.utils.data.TensorDataset(*map(torch.from_numpy, train))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    optimizer = torch.optim.SGD(module.parameters(), lr=LR)
    engine = PrivacyEngine()
    start = time.process_time()
    module, optimizer, loader = engine.make_private_with_epsilon(
        module=module, optimizer=optimizer, data_loader=loader, target_epsilon=EPSILON, target_delta=DELTA, epochs=EPOCHS,
        max_grad_norm=CLIP)
    for _ in range(EPOCHS):
        for a, b in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(a), b).backward()
            optimizer.step()
    seconds = time.process_time() - start
    epsilon = engine.get_epsilon(DELTA)
with torch.no_grad():
    accuracy = float((module(torch.from_numpy(test[0])).argmax(1).numpy() == test[1]).mean())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(dict(accuracy=accuracy, seconds=seconds, epsilon=epsilon, mebibytes=peak)))
'''

SEEDS = 3


@pytest.mark.skipif("DAMPER_OPACUS" not in os.environ, reason="six trainings: .ci/long python, or DAMPER_OPACUS=1")
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
                f"{which}: accuracy {found['accuracy']:.4f}, epsilon {found['epsilon']:.3f}, {found['seconds']:.2f} s of CPU, "
                f"{found['mebibytes']:.0f} MiB at most"
            )
    spread = max(max(found["accuracy"]) - min(found["accuracy"]) for found in results.values())
    assert mean["damper"]["accuracy"] > 0.6
    assert abs(mean["damper"]["accuracy"] - mean["opacus"]["accuracy"]) < max(spread, 0.01) + 0.01
    assert all(2.9 < epsilon <= 3.01 for found in results.values() for epsilon in found["epsilon"])
