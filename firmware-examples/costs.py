#!/usr/bin/env python3
"""Measures the cost of a private step on each board, and of whole programs: flash, static RAM, stack, and instructions.

    costs.py [--build CARGO] [--record] [TARGET...]

Measures the images of `target/TARGET/release` that `size.toml` names, built before or, with --build, first.
`train-mlp-disk` is `train` with the features model-mlp and method-disk. Fails if

- a size exceeds `size.toml`,
- an instruction count differs from the recorded count (`costs.toml`) by more than 2 %,
- the output of a program differs from `expected`, or
- the README's tables differ from that record.

With --record, writes both. Sections come from `llvm-size`, and a program's use of memory from its own last line.
Instructions are those that QEMU executes between marks (`xinsn TARGET ELF BEGIN END`). No emulator counts cycles.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
README = HERE / "README.md"
RECORD = HERE / "costs.toml"
TOLERANCE = 0.02
NAMES = {
    "thumbv7em-none-eabihf": "M4F",
    "thumbv8m.main-none-eabihf": "M33",
    "thumbv7m-none-eabi": "M3",
    "thumbv6m-none-eabi": "M0",
    "riscv32imac-unknown-none-elf": "RV32",
}
# Parameters of the parts, and of the whole step.
DIM = 256
STEP_DIM = 64
# Each part: its marks, and the part whose instructions it includes.
PARTS = {
    "clip and accumulate, per sample": ("add", None),
    "noise draw and mean": ("still", None),
    "SGD": ("sgd", "still"),
    "SGD with momentum": ("momentum", "still"),
    "Adam, AdamW": ("adam", "still"),
    "DP-AdamBC": ("adam_bc", "still"),
    "AdaGrad": ("adagrad", "still"),
    "RMSprop": ("rmsprop", "still"),
    "filter DOPPLER (order 1, 2 taps)": ("doppler", "still"),
    "filter DiSK": ("disk", "still"),
    "filter DP-PMLF (2 iterates, then DOPPLER)": ("pmlf", "still"),
    "DP-PMLF's mixing of 2 gradients, per sample": ("mix", "add"),
}
# The last line of a program: figures of `size.toml`.
BOARD = re.compile(r"board: (?P<stack>\d+) bytes of stack, (?P<flash>\d+) of flash, (?P<ram>\d+) of static RAM")
# Target on which every model and method of `train` is measured.
SHOWN = "thumbv7em-none-eabihf"
# Parts of an image that a product would not have, or would replace: data, expected digests, the model.
OWN = re.compile(r"step.*(GRAD|KEY)|methods.*METHODS|softmax.*gradient")
DIGITS = (HERE / "program/data/digits.bin").stat().st_size
# Sections in flash that are not the program's code and constants.
NOT_CODE = {".vector_table", ".gnu.sgstubs"}


def lines(*command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout.splitlines()


def sections(image):
    """Bytes of each section with an address. On RISC-V also the stack's, which is memory and not a variable."""
    found = {}
    for line in lines("llvm-size", "-A", image)[2:]:
        words = line.split()
        if len(words) == 3 and int(words[2]) > 0 and words[0] not in (".stack", ".heap"):
            found[words[0]] = int(words[1])
    return found


def own(image):
    total = 0
    for line in lines("llvm-nm", "-S", image):
        words = line.split()
        if len(words) == 4 and words[2] in "rRtT" and OWN.search(words[3]):
            total += int(words[1], 16)
    return total


def sizes(image):
    found = sections(image)
    ram = sum(size for name, size in found.items() if name.startswith((".bss", ".data", ".sbss", ".sdata", ".uninit")))
    code = (".text", ".rodata", ".data", ".init", ".trap", ".eh_frame", ".srodata")
    flash = sum(size for name, size in found.items() if name.startswith(code) and name not in NOT_CODE)
    digits = DIGITS if image.name == "methods" else 0
    return {"flash": flash - own(image) - digits, "ram": ram}


def run(target, image):
    runner = [HERE / "riscv/qemu"] if target.startswith("riscv") else [HERE / "cortex-m/qemu", target]
    return lines(*map(str, runner), str(image), stderr=subprocess.DEVNULL)


def mark(image, name):
    """The symbol of a mark of `program/src/mark.rs`, whose name is mangled."""
    found = [line.split()[-1] for line in lines("llvm-nm", image) if re.search(rf"4mark\d+{name}(17h[0-9a-f]+E)?$", line)]
    if len(found) != 1:
        sys.exit(f"{image}: {len(found)} functions {name}")
    return found[0]


def instructions(target, image, region):
    """Instructions between a region's marks, on average over its calls."""
    marks = [mark(image, f"begin_{region}"), mark(image, f"end_{region}")]
    with tempfile.NamedTemporaryFile() as out:
        # It searches for an emulator by the name of a shell variable, which has no dots.
        lines("xinsn", target.replace(".", "_"), str(image), *marks, stderr=subprocess.DEVNULL,
              env=os.environ | {"INSNCOUNT_OUT": out.name})
        calls, total = re.search(r"calls=(\d+) sum=(\d+)", pathlib.Path(out.name).read_text()).groups()
    return int(total) / int(calls)


def features(image):
    """The features that make `train` the image `train-...`."""
    model, method = re.fullmatch(r"train(-mlp|-streamed)?(-.+)?", image).groups()
    chosen = ([f"model{model}"] if model else []) + ([f"method{method}"] if method else [])
    return ",".join(f"damper-firmware-program/{feature}" for feature in chosen)


def stable_path():
    """This folder under a path that every checkout has. Cargo hashes the paths of crates outside a workspace into the
    names of symbols. With the order of names, the linker's inlining and the counts change by some per cent."""
    link, new = pathlib.Path("/tmp/damper-costs"), pathlib.Path(f"/tmp/damper-costs.{os.getpid()}")
    new.symlink_to(HERE.parent)
    new.replace(link)
    return link / HERE.name


def build(cargo, target, limits):
    board = ["damper-firmware-riscv"] if target.startswith("riscv") else ["damper-firmware-cortex-m", "--no-default-features"]
    command = [cargo, "build", "--quiet", "--manifest-path", stable_path() / "Cargo.toml", "--locked", "--release", "--target", target,
               "--target-dir", HERE / "target", "-p", *board]
    folder = HERE / "target" / target / "release"
    images = [name for name in limits if name != "stack"] + ["costs"]
    for image in images:
        if image.startswith("train-"):
            subprocess.run([*command, "--bin", "train", "--features", features(image)], check=True)
            shutil.copy(folder / "train", folder / image)
    subprocess.run([*command, *(word for image in images if not image.startswith("train-") for word in ("--bin", image))], check=True)


def program(target, image):
    """The use of memory of a program, and the errors in its output."""
    *said, last = run(target, image)
    board = BOARD.fullmatch(last)
    if board is None or said != (HERE / "expected" / f"{image.name}.txt").read_text().splitlines():
        return {}, [f"{target}: {image.name} does not say what it must say"]
    taken = {what: int(figure) for what, figure in board.groupdict().items()}
    if right := re.findall(r"held out: (\d+) of 100 right", "\n".join(said)):
        taken["right"] = int(right[-1])
    return taken | {region: round(instructions(target, image, region)) for region in ("program", "gradient")}, []


def measure(target, limits):
    """The measured figures, and their errors."""
    folder, wrong = HERE / "target" / target / "release", []
    taken = {}
    for name in (name for name in limits if name != "stack"):
        image = folder / name
        if "stack" in limits[name]:
            taken[name], found = program(target, image)
            wrong += found
        else:
            taken[name] = sizes(image)
    for line in run(target, folder / "costs"):
        if said := re.fullmatch(r"stack of a (\w+): (\d+)", line):
            taken.setdefault("stack", {})[said[1]] = int(said[2])
    for name, allowed in limits.items():
        for what, limit in allowed.items():
            used = taken.get(name, {}).get(what)
            if used is None or used > limit:
                wrong.append(f"{target}: {name} takes {used} bytes of {what}, {limit} are allowed")
    counted = {region: instructions(target, folder / "costs", region) for region, _ in PARTS.values()}
    taken["instructions"] = {
        name: round((counted[region] - (counted[base] if base else 0)) / DIM, 1) for name, (region, base) in PARTS.items()
    }
    taken["instructions"]["a step on 64 parameters, one sample"] = instructions(target, folder / "costs", "step")
    taken["instructions"]["the same, its charge in flash"] = instructions(target, folder / "costs", "journal")
    return taken, wrong


def compare(target, taken, recorded):
    def counts(figures):
        programs = {f"{name}, {region}": figures[name][region]
                    for name in figures for region in ("program", "gradient") if region in figures[name]}
        return figures.get("instructions", {}) | programs

    wrong = []
    for name, count in counts(taken).items():
        was = counts(recorded).get(name)
        if was is None or abs(count - was) > TOLERANCE * was:
            wrong.append(f"{target}: {name}: {count} instructions, recorded {was}; --record where that is meant")
    return wrong


def table(columns, rows):
    """Cells that are `None` were not measured."""
    lines = [["", *columns], ["---", *("---:" for _ in columns)]]
    lines += [[name, *("–" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)] for name, *cells in rows]
    return "\n".join(re.sub(" +", " ", f"| {' | '.join(line)} |") for line in lines)


def of_steps(record):
    def row(name, part, figure):
        cells = (taken.get(part, {}).get(figure) for taken in record.values())
        return [name, *(cell if cell is None else round(cell) for cell in cells)]

    rows = [row(name, "instructions", name) for name in record[SHOWN]["instructions"]]
    rows += [row(f"flash of `{image}`, bytes", image, "flash") for image in ("step", "journal", "methods", "price")]
    rows += [row("static RAM of `step`, bytes", "step", "ram"), row("stack of a step, bytes", "stack", "step")]
    return table([NAMES[target] for target in record], [*rows, row("with its charge in flash", "stack", "journal")])


def cells(taken):
    """Instructions of a step and of a gradient, flash and RAM of one program on one board."""
    if not taken:
        return [None] * 4
    return [taken["program"], taken["gradient"], taken["flash"], f"{taken['stack']:,} + {taken['ram']}"]


def of_programs(record):
    rows = []
    for name in ("train", "train-mlp", "personalise", "federated"):
        names = [f"`{name}`: instructions of a step", "of one gradient", "flash, bytes", "RAM, bytes: stack + static"]
        rows += zip(names, *(cells(taken.get(name)) for taken in record.values()))
    return table([NAMES[target] for target in record], rows)


def of_methods(record):
    rows = [[f"`{name}`", *cells(taken), taken["right"]] for name, taken in record[SHOWN].items() if name.startswith("train")]
    columns = ["instructions of a step", "of one gradient", "flash, bytes", "RAM, bytes: stack + static", "right of 100"]
    return table(columns, rows)


TABLES = {"costs": of_steps, "programs": of_programs, "methods": of_methods}


def shown(readme, record):
    """The README with the tables of a record."""
    for name, rendered in TABLES.items():
        before, _, rest = readme.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"\n<!-- end of {name} -->")
        readme = f"{before}<!-- {name} -->\n{rendered(record)}\n<!-- end of {name} -->{after}"
    return readme


def written(record):
    text = "# Written by `costs.py --record`; the README's tables show it. Instructions of parts are per parameter.\n"
    for target, taken in record.items():
        for part, figures in taken.items():
            text += f'\n["{target}".{part}]\n'
            text += "".join(f'"{name}" = {figure}\n' for name, figure in figures.items())
    return text


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", metavar="CARGO")
    arguments.add_argument("--record", action="store_true")
    arguments.add_argument("targets", metavar="TARGET", nargs="*", default=list(NAMES))
    arguments = arguments.parse_args()
    limits = tomllib.loads((HERE / "size.toml").read_text())
    record = tomllib.loads(RECORD.read_text())
    wrong = []
    for target in arguments.targets:
        if arguments.build:
            build(arguments.build, target, limits[target])
        taken, found = measure(target, limits[target])
        wrong += found
        for part, figures in taken.items():
            print(target, part, *(f"{name} {figure};" for name, figure in figures.items()))
        if arguments.record:
            record[target] = taken
        else:
            wrong += compare(target, taken, record.get(target, {}))
    readme, record = README.read_text(), {target: record[target] for target in NAMES if target in record}
    if arguments.record:
        RECORD.write_text(written(record))
        README.write_text(shown(readme, record))
    elif readme != shown(readme, record):
        wrong.append("README.md: its tables of costs are not what costs.toml has; costs.py --record writes both")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
