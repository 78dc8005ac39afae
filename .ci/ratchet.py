"""Figures that only fall: what breaks a rule today stands in a file, with its figure. For `.ci/english`. `.ci/house` reads the same files."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# As prost and the header's test write them.
GENERATED = {"host/onnx/src/pb.rs", "capi/include/damper.h"}


def tracked(root):
    """The files that git knows or could know, of those that are there."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and os.path.isfile(os.path.join(root, name))})


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def interpreter(root, name):
    """The first line of a file without an ending that begins with `#!`; else nothing."""
    if "." in os.path.basename(name):
        return ""
    with open(os.path.join(root, name), "rb") as file:
        line = file.readline(200)
    return line.decode(errors="replace") if line.startswith(b"#!") else ""


def parse(text):
    """The entries of a file: a rule, a place and a figure in each line."""
    entries = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            rule, place, figure = line.split()
            entries[rule, place] = int(figure)
    return entries


def written(entries):
    return "".join(f"{rule} {place} {figure}\n" for (rule, place), figure in sorted(entries.items()))


def lower(found, allowed):
    """The entries that are still needed, with the lower figure of both."""
    return {key: min(figure, found[key]) for key, figure in allowed.items() if found.get(key)}


def main(name, measure, wrong, test, show):
    """The command line of a check: `wrong` yields messages about figures found and allowed, `show` prints places."""
    allowed_file = os.path.join(ROOT, ".ci", f"{name}.allowed")
    option = sys.argv[1] if len(sys.argv) > 1 else None
    if option == "--test":
        return test()
    if option == "--show":
        return show(*sys.argv[2:])
    if option not in {None, "--lower"}:
        return f".ci/{name}: no option {option}; its first lines list them"
    found = measure(ROOT)
    text = read(ROOT, allowed_file)
    allowed = parse(text)
    if option == "--lower":
        allowed = lower(found, allowed)
        heading = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
        with open(allowed_file, "w", encoding="utf-8") as file:
            file.write(heading + written(allowed))
    lines = list(wrong(found, allowed))
    print("".join(line + "\n" for line in lines), end="")
    return bool(lines)


def test():
    """Lowering neither raises a figure, nor takes a new place, nor keeps one that needs none."""
    kept, high, gone, new = ("a", "kept"), ("a", "high"), ("a", "gone"), ("a", "new")
    lowered = lower({kept: 8, high: 9, new: 8}, {kept: 9, high: 8, gone: 8})
    assert lowered == {kept: 8, high: 8}, lowered
    assert parse("# heading\n" + written(lowered)) == lowered
