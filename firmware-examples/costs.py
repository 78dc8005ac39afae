#!/usr/bin/env python3
"""What a private step costs on each board: flash, static RAM, stack, and instructions.

    costs.py [--record] [TARGET...]

Measures the images of `target/TARGET/release`, which must be built. Fails where something exceeds `size.toml`, where an
instruction count is off the recorded one (`costs.toml`) by more than 2 %, or where the README's table is not that record.
With --record, writes both. Sections come from `llvm-size`; instructions are those that QEMU executes between the marks of the
image `costs` (`xinsn TARGET ELF BEGIN END`): no cycles, which no emulator knows.
"""

import os
import pathlib
import re
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
# Each part: its marks, and the part whose instructions are in it too.
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
}
# Targets whose instructions are not counted: `xinsn` finds no emulator for a name with a dot.
NOT_COUNTED = {"thumbv8m.main-none-eabihf"}
# What an image carries that a product would not, or would bring itself: data, expected digests, the model.
OWN = re.compile(r"step.*(GRAD|KEY)|methods.*METHODS|softmax.*gradient")
DIGITS = (HERE / "program/data/digits.bin").stat().st_size
# Sections in flash that are not the program's code and constants.
NOT_CODE = {".vector_table", ".gnu.sgstubs"}


def lines(*command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout.splitlines()


def sections(image):
    """Bytes of each section that has an address; on RISC-V also the stack's, which is memory and not a variable."""
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


def instructions(target, image, region):
    with tempfile.NamedTemporaryFile() as out:
        lines("xinsn", target, str(image), f"begin_{region}", f"end_{region}", stderr=subprocess.DEVNULL,
              env=os.environ | {"INSNCOUNT_OUT": out.name})
        calls, total = re.search(r"calls=(\d+) sum=(\d+)", pathlib.Path(out.name).read_text()).groups()
    return int(total) / int(calls)


def measure(target, limits):
    """What was measured, and what is wrong with it."""
    folder, wrong = HERE / "target" / target / "release", []
    taken = {}
    for program in (name for name in limits if name != "stack"):
        image = folder / program
        taken[program] = sizes(image)
        for what, limit in limits[program].items():
            if taken[program][what] > limit:
                wrong.append(f"{target}: {program} takes {taken[program][what]} bytes of {what}, {limit} are allowed")
    for line in run(target, folder / "costs"):
        if said := re.fullmatch(r"stack of a (\w+): (\d+)", line):
            taken.setdefault("stack", {})[said[1]] = int(said[2])
    for what, limit in limits["stack"].items():
        used = taken.get("stack", {}).get(what)
        if used is None or used > limit:
            wrong.append(f"{target}: a {what} takes {used} bytes of stack, {limit} are allowed")
    if target in NOT_COUNTED:
        return taken, wrong
    counted = {region: instructions(target, folder / "costs", region) for region, _ in PARTS.values()}
    taken["instructions"] = {
        name: round((counted[region] - (counted[base] if base else 0)) / DIM, 1) for name, (region, base) in PARTS.items()
    }
    taken["instructions"]["a step on 64 parameters, one sample"] = instructions(target, folder / "costs", "step")
    taken["instructions"]["the same, its payment in flash"] = instructions(target, folder / "costs", "journal")
    return taken, wrong


def compare(target, taken, recorded):
    wrong = []
    for name, count in taken.get("instructions", {}).items():
        was = recorded.get("instructions", {}).get(name)
        if was is None or abs(count - was) > TOLERANCE * was:
            wrong.append(f"{target}: {name}: {count} instructions, recorded {was}; --record where that is meant")
    return wrong


def rendered(record):
    targets = [target for target in NAMES if target in record]
    head = "| | " + " | ".join(NAMES[target] for target in targets) + " |"
    rows = [head, "| --- |" + " ---: |" * len(targets)]
    for name in record[targets[0]]["instructions"]:
        counts = (record[target].get("instructions", {}).get(name) for target in targets)
        rows.append(f"| {name} | " + " | ".join("–" if count is None else f"{count:.0f}" for count in counts) + " |")
    for program in ("step", "journal", "methods", "price"):
        cells = (record[target].get(program, {}).get("flash") for target in targets)
        rows.append(f"| flash of `{program}`, bytes | " + " | ".join("–" if cell is None else str(cell) for cell in cells) + " |")
    rows.append("| static RAM of `step`, bytes | " + " | ".join(str(record[target]["step"]["ram"]) for target in targets) + " |")
    rows.append("| stack of a step, bytes | " + " | ".join(str(record[target]["stack"]["step"]) for target in targets) + " |")
    rows.append("| with its payment in flash | " + " | ".join(str(record[target]["stack"]["journal"]) for target in targets) + " |")
    return "\n".join(rows)


def written(record):
    text = "# Written by `costs.py --record`; the README's table shows it. Instructions of parts are per parameter.\n"
    for target, taken in record.items():
        for part, figures in taken.items():
            text += f'\n["{target}".{part}]\n'
            text += "".join(f'"{name}" = {figure}\n' for name, figure in figures.items())
    return text


def main():
    arguments = sys.argv[1:]
    recording = "--record" in arguments
    limits = tomllib.loads((HERE / "size.toml").read_text())
    record = tomllib.loads(RECORD.read_text()) if RECORD.exists() else {}
    wrong = []
    for target in [word for word in arguments if word != "--record"] or list(NAMES):
        taken, found = measure(target, limits[target])
        wrong += found
        for part, figures in taken.items():
            print(target, part, *(f"{name} {figure};" for name, figure in figures.items()))
        if recording:
            record[target] = taken
        else:
            wrong += compare(target, taken, record.get(target, {}))
    if recording:
        RECORD.write_text(written({target: record[target] for target in NAMES if target in record}))
    before, _, rest = README.read_text().partition("<!-- costs -->\n")
    table, _, after = rest.partition("\n<!-- end of costs -->")
    if recording:
        README.write_text(f"{before}<!-- costs -->\n{rendered(record)}\n<!-- end of costs -->{after}")
    elif table != rendered(record):
        wrong.append("README.md: its table of costs is not what costs.toml has; costs.py --record writes both")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
