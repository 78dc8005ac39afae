"""Share of a training's CPU time outside the gradient graph: draw, data, noise and update.

    python3 benches/peers/outside.py target/release/damper train onnx-models/mnist-cnn.onnx --data idx:MNIST --workers 1 ...

runs the command under `perf record` (Linux), which samples call stacks, and prints the shares of the samples in its
steps. Start-up and end do not count, as far as they are listed in OTHERS. Let the run take a minute.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Functions with all their calls. onnxruntime's stacks end inside it. Functions that are not listed are graph, clip and
# sum.
PARTS = {
    "draw": r"damper_train::sampler::BatchSampler::draw$",
    "data": r"damper_train::worker::fill$",
    "noise": r"damper_core::step::noise_part::Drawing<.*>::each_part$",
    "update": r"damper_core::step::open::Open<.*>::move_params$",
}
OTHERS = (r"damper_train::prepare::prepare$", r"damper_train::data_digest::data_digest$", r"damper_accounting::recorded::Recorded::epsilon$")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "perf.data")
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "250", "--call-graph", "dwarf,8192", "-o", data]
        if subprocess.run([*record, *sys.argv[1:]]).returncode:
            sys.exit("perf record failed, or the command did")
        report = ["perf", "report", "-i", data, "--stdio", "--no-inline", "--children", "-g", "none", "-F", "overhead_children,symbol"]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*([\d.]+)%\s+\[.\] (.*?)\s*$", text, re.M)

    def share(pattern):
        return max((float(percent) for percent, name in rows if re.search(pattern, name)), default=0.0)

    steps = 100 - sum(share(pattern) for pattern in OTHERS)
    shares = {name: 100 * share(pattern) / steps for name, pattern in PARTS.items()}
    for name, percent in shares.items():
        print(f"{name:8}{percent:6.2f} %")
    print(f"{'in all':8}{sum(shares.values()):6.2f} %")


if __name__ == "__main__":
    main()
