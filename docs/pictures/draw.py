#!/usr/bin/env python3
"""Writes the pictures of the book from code and from figures of this repository.

    docs/pictures/draw.py            writes every picture
    docs/pictures/draw.py --check    fails if a file differs from the picture that it would write

The standard library is enough. A picture has light and dark colours, and its text is text. It is 420 units wide, so
that it can be read on a phone.
"""

import functools
import math
import pathlib
import re
import statistics
import sys
import textwrap
import tomllib

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import gallery  # noqa: E402
from picture import LETTER, SMALL, WIDTH, Picture, number  # noqa: E402


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def private_step():
    """The order of a private step, with the slots of `core/src/step.rs` and their defaults."""
    fields = re.search(r"pub struct Slots<([^>]*(?:<[^>]*>[^>]*)*)> \{(.*?)\n\}", read("core/src/step.rs"), re.S)
    defaults = dict(re.findall(r"(\w) = ([\w<>]+)", fields[1]))
    slots = {name: re.sub(r"<.*", "", defaults[kind]) for name, kind in re.findall(r"pub (\w+): (\w),", fields[2])}
    if set(slots) != {"filter", "optimizer", "mechanism", "threshold", "clip", "schedule"}:
        raise ValueError(f"core/src/step.rs has other slots than the picture: {sorted(slots)}")

    def slot(name):
        return f"slot {name}: {slots[name]}"

    picture = Picture(
        "One private step",
        "From top to bottom: the gradient of each drawn sample is clipped to norm C, rounded to an integer grid and summed exactly. "
        "The ledger charges the step and stores the charge. Then discrete Gaussian noise is added. The privacy boundary follows. "
        "After it, the released mean passes a filter and the optimizer, which updates the parameters for the next step.")
    left, wide, high, gap = 18, 234, 46, 20
    middle, side = left + wide / 2, 274
    rows = [["gradient of each sample", "for the samples drawn"], ["clip to norm C", slot("clip")],
            ["round to integers", "the bound is checked here"], ["exact integer sum", "no accessor reads it"],
            ["add noise", slot("mechanism")],
            ["released mean", "sum ÷ expected batch"], ["filter", slot("filter")], ["optimizer", slot("optimizer")], ["parameters"]]
    private, wall = 5, 48
    tops, y = [], 44
    for row in range(len(rows)):
        y += wall - gap if row == private else 0
        tops.append(y)
        y += high + gap
    border, wall_x = tops[private] - wall / 2, left + wide + 10
    picture.rect(8, 8, WIDTH - 16, y - 8, "open", 6)
    picture.rect(8, 8, wall_x - 8, border - 8, "secret", 6)
    picture.text(20, 30, "private: never shown", "walltext", SMALL, bold=True)
    for row, top in enumerate(tops):
        picture.box(left, top, wide, high, rows[row])
        if row:
            picture.line([(middle, tops[row - 1] + high), (middle, top)], tip=True)
    picture.line([(8, border), (wall_x, border), (wall_x, 8)], "wall", dashes="7 4", width=2.4)
    picture.text(wall_x + 8, border + 4, "privacy boundary", "walltext", SMALL, bold=True)
    picture.text(wall_x + 8, border + 24, "released or public", "a", SMALL, bold=True)
    for row, lines in ((1, ["threshold", slots["threshold"]]), (7, ["schedule", slots["schedule"]])):
        picture.box(side + 12, tops[row], 96, high, lines)
        picture.line([(side + 12, tops[row] + high / 2), (left + wide, tops[row] + high / 2)], tip=True)
    # The charge comes before the noise.
    ledger = tops[3] - 24
    picture.box(side, ledger, 122, 66, ["ledger", "charge the step,", "store the charge"])
    picture.line([(side + 61, ledger + 66), (side + 61, tops[4] + high / 2), (left + wide, tops[4] + high / 2)], tip=True)
    picture.text(side + 67, tops[4] + high / 2 - 4, "only then", "soft", SMALL)
    edge = WIDTH - 14
    bottom, top = tops[8] + high / 2, tops[0] + high / 2
    picture.line([(left + wide, bottom), (edge, bottom), (edge, top), (left + wide, top)], tip=True)
    picture.text(side + 2, bottom - 8, "the next step", "soft", SMALL)
    return picture


def crates():
    """The crates of damper and the crates that each uses, from the Cargo.toml files, without tests and benchmarks."""
    members = tomllib.loads(read("Cargo.toml"))["workspace"]["members"]
    folders = [name for name in members if name.split("/")[0] not in ("testing", "benches", "fuzz")]
    manifests = [tomllib.loads(read(f"{folder}/Cargo.toml")) for folder in [*folders, "capi", "integrations/prio"]]
    uses = {}
    for manifest in manifests:
        parts = [manifest, *manifest.get("target", {}).values()]
        found = [part.get(kind, {}) for part in parts for kind in ("dependencies", "build-dependencies")]
        # A crate may have another name in its user.
        uses[manifest["package"]["name"]] = {
            spec.get("package", name) if isinstance(spec, dict) else name for table in found for name, spec in table.items()}
    return {name.removeprefix("damper-"): sorted(used.removeprefix("damper-") for used in names & set(uses))
            for name, names in sorted(uses.items())}


def reduced(uses):
    """The uses that do not follow from others."""
    def below(name):
        return {name}.union(*(below(used) for used in uses[name]))

    return {name: [used for used in names if not any(used in below(other) for other in names if other != used)]
            for name, names in uses.items()}


def rows_of(uses, most):
    """Rows of crates, the lowest first. A crate is above all that it uses. A full row hands crates with room up."""
    level = {}

    def depth(name):
        if name not in level:
            level[name] = 1 + max((depth(used) for used in uses[name]), default=-1)
        return level[name]

    top = max(depth(name) for name in uses)
    users = {name: [other for other in uses if name in uses[other]] for name in uses}

    def room(name):
        return min((level[user] for user in users[name]), default=top) - level[name]

    for row in range(top):
        names = sorted((name for name in uses if level[name] == row), key=lambda name: (room(name), name))
        for name in names[most:]:
            level[name] = level[name] + room(name) - 1 if users[name] else row + 1
            if level[name] <= row:
                raise ValueError(f"no room for the crate {name}: draw wider rows")
    return [[name for name in sorted(uses) if level[name] == row] for row in range(top + 1)]


def wide_of(name):
    return len(name) * 13 * LETTER + 14


class Layers:
    """The places of crates and arrows. An arrow over several rows passes a gap in each, shared with arrows to the same
    crate."""

    def __init__(self, uses, most):
        self.rows = rows_of(uses, most)
        level = {name: row for row, names in enumerate(self.rows) for name in names}
        self.links = set()
        for name, names in uses.items():
            for used in names:
                path = [name] + [(used, row) for row in range(level[name] - 1, level[used], -1)] + [used]
                self.links |= set(zip(path, path[1:]))
        for _, place in sorted(self.links, key=str):
            if isinstance(place, tuple) and place not in self.rows[place[1]]:
                self.rows[place[1]].append(place)

    def crossings(self):
        at = {place: (row, index) for row, places in enumerate(self.rows) for index, place in enumerate(places)}
        between = {}
        for upper, lower in self.links:
            between.setdefault(at[lower][0], []).append((at[upper][1], at[lower][1]))
        return sum((a - c) * (b - d) < 0 for pairs in between.values() for a, b in pairs for c, d in pairs) // 2

    def order(self):
        """Moves places within their rows while that lessens the crossings."""
        best = self.crossings()
        better = True
        while better:
            better = False
            for places in self.rows:
                for place in list(places):
                    for index in range(len(places)):
                        before = list(places)
                        places.remove(place)
                        places.insert(index, place)
                        now = self.crossings()
                        if now < best:
                            best, better = now, True
                        else:
                            places[:] = before

    def spread(self, width, narrow, gap):
        """The middle of each place, near the places that it is linked to."""
        size = {place: narrow if isinstance(place, tuple) else wide_of(place) for places in self.rows for place in places}
        near = {place: [] for place in size}
        for upper, lower in sorted(self.links, key=str):
            near[upper].append(lower)
            near[lower].append(upper)
        middle = {}
        for places in self.rows:
            free = (width - sum(size[place] for place in places)) / (len(places) + 1)
            left = 0
            for place in places:
                middle[place] = left + free + size[place] / 2
                left += free + size[place]
        for _ in range(200):
            for places in self.rows:
                aims = [sum(middle[other] for other in near[place]) / max(1, len(near[place])) for place in places]
                apart = [(size[a] + size[b]) / 2 + gap for a, b in zip(places, places[1:])]
                offsets = [sum(apart[:index]) for index in range(len(places))]
                # Least squares with a least distance: neighbours that collide share their mean.
                blocks = []
                for aim, offset in zip(aims, offsets):
                    blocks.append([aim - offset, 1])
                    while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                        (a, m), (b, n) = blocks.pop(-2), blocks.pop()
                        blocks.append([(a * m + b * n) / (m + n), m + n])
                flat = [aim for aim, count in blocks for _ in range(count)]
                low, high = size[places[0]] / 2, width - size[places[-1]] / 2 - offsets[-1]
                if high < low:
                    raise ValueError(f"no room for the row {places}")
                for place, aim, offset in zip(places, flat, offsets):
                    middle[place] = min(max(aim, low), high) + offset
        return middle


def layers():
    """The crates of damper in rows: each arrow is a dependency of a Cargo.toml."""
    uses = crates()
    graph = Layers(reduced(uses), 5)
    graph.order()
    high, step, edge = 28, 68, 8
    middle = graph.spread(WIDTH - 2 * edge, 3, 6)
    picture = Picture(
        "The crates of damper",
        "Each arrow is a dependency and points down. Dependencies that follow from other arrows are left out. "
        + " ".join(f"{name} uses {', '.join(names)}." for name, names in uses.items() if names))
    for row, line in enumerate(["An arrow is a dependency.", "Arrows that follow", "from others are left out."]):
        picture.text(14, 28 + 18 * row, line, "soft", SMALL)
    top = {place: 14 + (len(graph.rows) - 1 - row) * step for row, places in enumerate(graph.rows) for place in places}
    for upper, lower in sorted(graph.links, key=str):
        x, y = edge + middle[upper], top[upper] + high
        to_x, to_y = edge + middle[lower], top[lower]
        bend = (to_y - y) / 2
        picture.path(f"M{number(x)} {number(y)} C{number(x)} {number(y + bend)} {number(to_x)} {number(to_y - bend)} "
                     f"{number(to_x)} {number(to_y)}", "arrow", width=1.3)
        if isinstance(lower, tuple):
            picture.line([(to_x, to_y), (to_x, to_y + high)], width=1.3)
        else:
            picture.tip((to_x, to_y - 1), (to_x, to_y), 6)
    for place in sorted(top, key=str):
        if not isinstance(place, tuple):
            css = "open edge" if place in ("core", "access") else "box edge"
            wide = wide_of(place)
            picture.rect(edge + middle[place] - wide / 2, top[place], wide, high, css, 5)
            picture.text(edge + middle[place], top[place] + 19, place, size=13, anchor="middle")
    return picture


def tables_of(text):
    """The tables of Markdown, as lists of rows of cells."""
    found = re.findall(r"(?m)(?:^\|.*\n)+", text)
    return [[[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()] for table in found]


def tables(name):
    return tables_of(read(name))


def count(text):
    return int(re.search(r"[\d,]+", text)[0].replace(",", ""))


def memory_of(program, data_at):
    """Bytes of a compiled network on the M4F: limits and segments of flash and RAM."""
    page = "firmware-examples/compiled/README.md"
    programs, rows = tables(page)
    column = rows[0].index("M4F")
    first = next(at for at, row in enumerate(rows) if row[0] == f"`{program}`: RAM, bytes")
    ram, flash = (count(rows[first + more][column]) for more in (0, 1))
    words = next(count(re.search(r"[\d,]+ parameters", row[1])[0]) for row in programs if row[0] == f"`{program}`")
    sizes = [float(size) * 1000 for size in re.findall(r"([\d.]+) KB", re.search(r"Data are in flash.*?\)\.", read(page), re.S)[0])]
    data, initial = sizes[data_at], 4 * words
    if abs(initial - sizes[2 + data_at]) > 50:
        raise ValueError(f"{page}: {words} parameters are not {sizes[2 + data_at]} bytes")
    limits = re.search(rf'\("{program}", \[(\d+), (\d+)\]\)', read("firmware-examples/compiled/build.rs"))
    return words, [
        ("flash", int(limits[1]), [("code and constants", flash - data - initial, "a"), ("initial parameters", initial, "b"),
                                   ("samples", data, "c")]),
        ("RAM", int(limits[2]), [("values and stack", ram - 2 * initial, "a"), ("parameters", initial, "b"), ("sum of a step", initial, "d")])]


def memory():
    """Flash and RAM of two compiled networks on a Cortex-M4F."""
    programs = {name: memory_of(name, at) for at, name in enumerate(("digits-cnn", "mnist-cnn"))}
    parts = [f"{name}, {words:,} trained parameters: " + ". ".join(
        f"{kind} of {limit} KiB: " + ", ".join(f"{what} {size / 1000:.1f} KB" for what, size, _ in segments)
        for kind, limit, segments in maps) + "." for name, (words, maps) in programs.items()]
    picture = Picture("Memory of compiled networks on a Cortex-M4F", " ".join(parts))
    y, tall = 26, 250
    for name, (words, maps) in programs.items():
        picture.text(14, y, f"{name}: {words:,} trained parameters", bold=True)
        for x, (kind, limit, segments) in zip((14, 220), maps):
            picture.text(x, y + 24, f"{kind}, {limit} KiB", size=SMALL)
            used = sum(size for _, size, _ in segments)
            bottom, scale = y + 34 + tall, tall / (limit * 1024)
            for what, size, series in [*segments, ("free", limit * 1024 - used, "free")]:
                high = size * scale
                picture.rect(x, bottom - high, 40, high, series)
                picture.line([(x, bottom - high), (x + 40, bottom - high)], "edge", width=1)
                middle = bottom - high / 2
                picture.text(x + 48, middle - 2, what, size=SMALL)
                picture.text(x + 48, middle + 13, f"{size / 1000:.1f} KB", "soft", SMALL)
                bottom -= high
            picture.add("rect", "edge", x=float(x), y=float(y + 34), width="40", height=number(tall), fill="none")
        y += tall + 70
    picture.height = y - 26
    return picture


def figures(page, heading, first):
    """The rows of the table below a heading whose first cell of the head is `first`."""
    section = re.search(rf"(?m)^#+ {re.escape(heading)}\n((?:(?!#).*\n)*)", read(page))
    found = [table for table in tables_of(section[1]) if table[0][0] == first] if section else []
    if not found:
        raise ValueError(f"{page}: no table with the column {first!r} below {heading!r}")
    return {row[0].strip("*"): dict(zip(found[0][0], row)) for row in found[0][2:]}


def mean_and_deviation(cell):
    """The mean of a cell, and the deviation if it has one."""
    values = [float(value) for value in re.findall(r"[\d.]+", cell.split("(")[0])]
    return values[0], values[1] if len(values) > 1 else None


def error_bar(picture, series, x, y, across, along):
    """A point and its error bar, from -along to +along on the x axis (`across`) or the y axis."""
    ends = [(x - along, y), (x + along, y)] if across else [(x, y - along), (x, y + along)]
    if along:
        picture.line(ends, f"{series}line", width=1.5)
        for at in ends:
            cap = [(at[0], at[1] - 3), (at[0], at[1] + 3)] if across else [(at[0] - 3, at[1]), (at[0] + 3, at[1])]
            picture.line(cap, f"{series}line", width=1.5)
    picture.mark(x, y, series)


METHODS = {"dp-sgd": "a", "dp-sgd, falling rate": "b", "inner-outer": "c", "dc-sgd-e": "d"}


def panel(picture, name, top, tall):
    """Accuracy of METHODS at each ε on a data set of `benches/record/methods.md`, with one deviation as error bar."""
    rows = figures("benches/record/methods.md", name, "method")
    points = {method: {float(column.split("=")[1]): mean_and_deviation(cell.strip("*"))
                       for column, cell in rows[method].items() if "=" in column} for method in METHODS}
    ends = [mean + side * deviation for line in points.values() for mean, deviation in line.values() for side in (-1, 1)]
    step = 1 if max(ends) - min(ends) < 6 else 3
    low, high = (step * rounded for rounded in (math.floor(min(ends) / step), math.ceil(max(ends) / step)))
    epsilons = sorted(points["dp-sgd"])
    left, right, bottom = 58, WIDTH - 40, top + 18 + tall

    def x_of(epsilon):
        return left + 34 + (right - left - 60) * math.log(epsilon / epsilons[0]) / math.log(epsilons[-1] / epsilons[0])

    def y_of(value):
        return bottom - tall * (value - low) / (high - low)

    picture.text(14, top, f"{name}: test accuracy, %", size=SMALL, bold=True)
    for tick in range(low, high + 1, step):
        picture.line([(left, y_of(tick)), (right, y_of(tick))], "grid", width=1)
        picture.text(left - 8, y_of(tick) + 4, str(tick), "soft", SMALL, "end")
    for epsilon in epsilons:
        picture.text(x_of(epsilon), bottom + 20, f"ε = {number(epsilon)}", size=SMALL, anchor="middle")
    for at, (method, series) in enumerate(METHODS.items()):
        shift = (at - (len(METHODS) - 1) / 2) * 10
        places = [(x_of(epsilon) + shift, y_of(mean)) for epsilon, (mean, _) in sorted(points[method].items())]
        picture.line(places, f"{series}line", width=1.2)
        for (x, y), (_, (_, deviation)) in zip(places, sorted(points[method].items())):
            error_bar(picture, series, x, y, False, deviation * tall / (high - low))
    parts = [f"{method}: " + ", ".join(f"{mean} ± {deviation} at ε = {number(epsilon)}"
                                       for epsilon, (mean, deviation) in sorted(line.items())) for method, line in points.items()]
    picture.description += f" {name}. " + ". ".join(parts) + "."
    return bottom + 52


def accuracy(names):
    """Accuracy against ε on the data sets `names`."""
    picture = Picture("Accuracy against ε", "Test accuracy in percent, mean ± standard deviation over seeds, at δ = 1e-5.")
    for at, (method, series) in enumerate(METHODS.items()):
        x, y = 22 + at % 2 * 190, 24 + at // 2 * 22
        picture.mark(x, y - 5, series)
        picture.text(x + 12, y, method, size=SMALL)
    y = 80
    for name in names:
        y = panel(picture, name, y, 190)
    picture.height = y - 22
    return picture


def dots(picture, rows, ticks, y):
    """Rows of (label, mean, deviation, series): a point each on one axis of percents."""
    left, top = 24, y
    scale = (WIDTH - 2 * left) / (ticks[-1] - ticks[0])
    places = []
    for label, mean, deviation, series in rows:
        value = f"{label}: {mean:.2f}" + (f" ± {deviation:.2f}" if deviation else "") + " %"
        lines = textwrap.wrap(value, 52)
        places.append((lines, y, left + (mean - ticks[0]) * scale, (deviation or 0) * scale, series))
        picture.description += f" {value}."
        y += 17 * len(lines) + 32
    for tick in ticks:
        x = left + (tick - ticks[0]) * scale
        picture.line([(x, top - 12), (x, y - 20)], "grid", width=1)
        picture.text(x, y - 4, f"{tick} %", "soft", SMALL, "middle")
    for lines, y, x, deviation, series in places:
        for index, line in enumerate(lines):
            picture.rect(12, y + 17 * index - 12, len(line) * SMALL * LETTER + 4, 17, "page")
            picture.text(14, y + 17 * index, line, size=SMALL)
        error_bar(picture, series, x, y + 17 * len(lines) - 3, True, deviation)


def table():
    """Accuracy on a small table, with and without privacy."""
    rows = figures("benches/record/accuracy.md", "A small table: breast cancer", "")
    picture = Picture("Breast cancer: accuracy on held-out rows", "Logistic regression on 569 rows, mean ± standard deviation over 20 splits.")
    picture.text(14, 26, picture.title, size=SMALL, bold=True)
    dots(picture, [(name, *mean_and_deviation(rows[name]["accuracy over 20 splits"]), series)
                   for name, series in (("ε = 1", "a"), ("not private", "b"))], range(93, 100), 56)
    return picture


def text():
    """Accuracy on SST-2 at ε = 3 and without privacy."""
    found = figures("benches/record/accuracy.md", "Text: SST-2", "")
    rows = [(re.sub(r" \(.*\)$", "", name), *mean_and_deviation(row["accuracy on the 872 `dev` sentences"]),
             "a" if name.startswith("ε") else "b") for name, row in found.items()]
    tuned = figures("benches/record/fine-tuning.md", "SST-2 from a pretrained encoder, ε = 3", "recipe")
    head = next(row["test accuracy"] for name, row in tuned.items() if name.startswith("head: 41 epochs"))
    runs = [float(value) for value in re.findall(r"[\d.]+", head.split("%")[0])]
    rows = [(f"ε = 3, the head of a pretrained encoder, {len(runs)} runs", statistics.mean(runs), statistics.stdev(runs), "a"),
            *[(f"{name}, a bag of embeddings" if name == "ε = 3" else name, *rest) for name, *rest in rows]]
    picture = Picture("SST-2: accuracy on 872 dev sentences", "Circles are private, squares are not.")
    picture.text(14, 26, picture.title, size=SMALL, bold=True)
    picture.mark(22, 45, "a")
    picture.text(34, 49, "private", size=SMALL)
    picture.mark(122, 45, "b")
    picture.text(134, 49, "not private", size=SMALL)
    dots(picture, rows, range(50, 91, 10), 82)
    return picture


def tasks():
    """CPU time and memory of two tasks through `damper.fit` and Opacus."""
    rows = next(table for table in tables("benches/record/tasks.md") if table[0][:2] == ["task", "program"])
    columns = {"CPU time, s": "CPU time", "memory that training adds, MiB": "of which training", "test accuracy, %": "test accuracy"}
    at = {label: next(index for index, cell in enumerate(rows[0]) if cell.startswith(start)) for label, start in columns.items()}
    picture = Picture("One task through damper.fit and through Opacus", "Two cores of a busy machine, medians of three runs at ε = 3.")
    y = 26
    for label, index in at.items():
        picture.text(14, y, label, size=SMALL, bold=True)
        values = [mean_and_deviation(row[index]) for row in rows[2:]]
        most = max(mean for mean, _ in values)
        for row, (mean, deviation) in zip(rows[2:], values):
            y += 24
            picture.text(14, y, f"{row[0]}, {row[1]}", size=SMALL)
            value = f"{number(mean)}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"
            if deviation is None:
                picture.rect(128, y - 12, 230 * mean / most, 16, "a" if row[1] == "damper" else "b", 2)
            picture.text(134 + 230 * mean / most if deviation is None else 128, y, value, "soft", SMALL)
            picture.description += f" {label}, {row[0]}, {row[1]}: {value}."
        y += 38
    picture.height = y - 22
    return picture


def write(pictures):
    check = sys.argv[1:] == ["--check"]
    wrong = [f"docs/pictures/{path.name}: no picture has this name"
             for path in sorted(HERE.glob("*.svg")) if path.stem not in pictures]
    for name, draw in pictures.items():
        path, text = HERE / f"{name}.svg", draw().svg()
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"docs/pictures/{name}.svg: differs from its sources; run docs/pictures/draw.py")
    print("\n".join(wrong) or f"{len(pictures)} pictures")
    return 1 if wrong else 0


PICTURES = {
    "private-step": private_step, "layers": layers, "memory": memory, "accuracy": lambda: accuracy(["MNIST", "Digits"]),
    "accuracy-digits": lambda: accuracy(["Digits"]), "table": table, "text": text, "tasks": tasks,
    **{f"gallery-{task}": functools.partial(gallery.task_curve, task, read("benches/record/gallery.csv")) for task in gallery.TASKS},
}

if __name__ == "__main__":
    sys.exit(write(PICTURES))
