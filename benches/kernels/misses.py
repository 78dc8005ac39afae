#!/usr/bin/env python3
"""Instructions and cache misses of each kernel, in its AVX2 form, on three processors' caches: the table of record/kernel-misses.md.

    cargo build --release -p damper-kernel-benches
    benches/kernels/misses.py [PART OF A NAME...]           prints the rows of these kernels, or of all
    benches/kernels/misses.py --check [PART OF A NAME...]   fails if a figure differs from the record by more than 3 %
    benches/kernels/misses.py --record [PART OF A NAME...]  writes their rows to the record (all: ten minutes of a core)
    benches/kernels/misses.py --neon PROGRAM --plugin LIBRARY [PART OF A NAME...]
                                                            prints instructions in the NEON form, by the program built for aarch64, under
                                                            QEMU with its plugin that counts instructions (record/kernel-neon.md)

valgrind simulates two levels, so L2 is configured as the last. It counts one call of a kernel after a first call.
callgrind, whose caches are cachegrind's, can count within one function.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target/release/damper-kernels"
RECORD = ROOT / "benches/record/kernel-misses.md"
MARK = "<!-- Written by benches/kernels/misses.py. -->"
# Processor: L1 and L2, each bytes, ways, bytes of a line.
CACHES = {
    "Zen 4": ("32768,8,64", "1048576,8,64"),
    "Cascade Lake": ("32768,8,64", "1048576,16,64"),
    "Neoverse N1": ("65536,4,64", "1048576,8,64"),
}
TOLERANCE = 0.03
# Figures below this do not depend on a cache.
FEW = 100


def listed(parts):
    said = subprocess.run([PROGRAM, "list", *parts], check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in said.splitlines()]


def counted(kernel, caches):
    """Instructions, and misses of the data in L1 and L2, of one call."""
    l1, l2 = caches
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        Path(folder, PROGRAM.name).symlink_to(PROGRAM)
        command = [shutil.which("valgrind"), "--tool=callgrind", "--cache-sim=yes", f"--I1={l1}", f"--D1={l1}", f"--LL={l2}",
                   "--toggle-collect=damper_kernels::measured*", f"--callgrind-out-file={out.name}", f"./{PROGRAM.name}", "count", kernel]
        # The environment and the program's path are on the stack. With other lengths its variables are in other lines
        # of the caches.
        run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={"LC_ALL": "C.UTF-8"})
        if run.returncode != 0:
            sys.exit(f"valgrind failed on '{kernel}':\n{run.stderr}")
        text = out.read_text()
    events = re.search(r"^events: (.*)$", text, re.M)[1].split()
    totals = dict(zip(events, map(int, re.search(r"^totals: (.*)$", text, re.M)[1].split())))
    if not totals.get("Ir"):
        sys.exit(f"valgrind counted nothing of '{kernel}'")
    # Zeros at the end of the totals are left out.
    l1, l2 = (sum(totals.get(event, 0) for event in events) for events in (("D1mr", "D1mw"), ("DLmr", "DLmw")))
    return totals["Ir"], l1, l2


def counted_neon(kernel, program, plugin):
    """Instructions of one call on aarch64. QEMU counts those of a process, so this is the difference of a longer and a
    shorter process."""
    totals = []
    for calls in (1, 2):
        command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-plugin", plugin, "-d", "plugin", program, "count", kernel, str(calls)]
        run = subprocess.run(command, capture_output=True, text=True)
        said = re.findall(r"insns\D*(\d+)", run.stderr)
        if run.returncode != 0 or not said:
            sys.exit(f"QEMU failed on '{kernel}':\n{run.stderr}")
        totals.append(int(said[-1]))
    return totals[1] - totals[0]


def row(kernel, networks):
    """The row of a kernel's table. Instructions do not depend on the caches."""
    figures = [counted(kernel, caches) for caches in CACHES.values()]
    return [kernel, networks, figures[0][0], *(misses for _, *both in figures for misses in both)]


def recorded():
    """The rows of the record, by kernel."""
    rows = {}
    for line in RECORD.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 + 2 * len(CACHES) and cells[2].replace(",", "").isdigit():
            rows[cells[0]] = cells[:2] + [int(cell.replace(",", "")) for cell in cells[2:]]
    return rows


def record(new):
    """Puts a row into the record, in the order of the kernels."""
    rows = recorded() | {new[0]: new}
    rows = [rows[kernel] for kernel, _ in listed([]) if kernel in rows]
    head = RECORD.read_text().split(MARK)[0]
    RECORD.write_text("\n".join([f"{head}{MARK}", "", *markdown(rows), ""]))


def heads():
    return ["instructions", *(f"{name} {level}" for name in CACHES for level in ("L1", "L2"))]


def markdown(rows):
    lines = [f"| kernel | networks | {' | '.join(heads())} |", f"| --- | --- |{' ---: |' * (1 + 2 * len(CACHES))}"]
    return lines + [f"| {row[0]} | {row[1]} | {' | '.join(f'{figure:,}' for figure in row[2:])} |" for row in rows]


def check(rows):
    known, wrong = recorded(), 0
    for kernel, _, *figures in rows:
        if kernel not in known:
            print(f"{kernel}: not in {RECORD.relative_to(ROOT)}")
            wrong += 1
            continue
        for head, now, then in zip(heads(), figures, known[kernel][2:]):
            if abs(now - then) > max(TOLERANCE * then, FEW):
                print(f"{kernel}: {head}: {now:,}, recorded {then:,} ({100 * (now / max(then, 1) - 1):+.1f} %)")
                wrong += 1
    print(f"{len(rows)} kernels, {wrong} figures out of {100 * TOLERANCE:.0f} %")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a figure is not the recorded one")
    parser.add_argument("--record", action="store_true", help="write the record, of all kernels")
    parser.add_argument("--neon", metavar="PROGRAM", help="damper-kernels, built for aarch64")
    parser.add_argument("--plugin", help="QEMU's plugin that counts instructions")
    parser.add_argument("parts", nargs="*", help="parts of the names of kernels or networks")
    args = parser.parse_args()
    if args.record and args.check:
        parser.error("--check or --record")
    if bool(args.neon) != bool(args.plugin) or args.neon and (args.record or args.check):
        parser.error("--neon and --plugin go together, without --check and --record")
    kernels = listed(args.parts)
    if args.neon:
        print("| kernel | networks | instructions |\n| --- | --- | ---: |")
        for kernel, networks in kernels:
            print(f"| {kernel} | {networks} | {counted_neon(kernel, args.neon, args.plugin):,} |", flush=True)
        return 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = []
        for new in pool.map(lambda kernel: row(*kernel), kernels):
            rows.append(new)
            if args.record:
                record(new)
    if args.check:
        return 1 if check(rows) else 0
    if not args.record:
        print("\n".join(markdown(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
