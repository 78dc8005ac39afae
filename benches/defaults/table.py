"""Prints the table of benches/record/defaults.md from the lines that run.py wrote.

    python3 benches/defaults/table.py RESULTS.jsonl
"""

import collections
import json
import statistics
import sys
from pathlib import Path


def name(settings):
    rate = f"{settings['lr']:.3g}"
    return f"{settings['optimizer']} {rate}, clip {settings['clip']:g}, B {settings['batch']}, E {settings['epochs']:.3g}"


def main():
    found, used = collections.defaultdict(list), {}
    for line in map(json.loads, Path(sys.argv[1]).read_text().splitlines()):
        found[line["task"], line["epsilon"], line["kind"]].append(line["accuracy"])
        used[line["task"], line["epsilon"], line["kind"]] = line["settings"]
    print("| task | ε | default | tuned | difference | tuned setting |\n| --- | ---: | ---: | ---: | ---: | --- |")
    for task, epsilon in dict.fromkeys((task, epsilon) for task, epsilon, _ in found):
        default, tuned = (found[task, epsilon, kind] for kind in ("default", "tuned"))
        if min(len(default), len(tuned)) < 2:
            continue
        shown = [f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" for values in (default, tuned)]
        print(f"| `{task}` | {epsilon} | {shown[0]} | {shown[1]} | {statistics.mean(default) - statistics.mean(tuned):+.2f} "
              f"| {name(used[task, epsilon, 'tuned'])} |")


if __name__ == "__main__":
    main()
