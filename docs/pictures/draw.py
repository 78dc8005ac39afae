#!/usr/bin/env python3
"""Writes the pictures of the book from code and from figures of this repository.

    docs/pictures/draw.py            writes every picture
    docs/pictures/draw.py --check    fails if a file differs from the picture that it would write

The standard library is enough. A picture has light and dark colours, and its text is text. It is 420 units wide, so that it can be
read on a phone.
"""

import html
import math
import pathlib
import re
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH, SHOWN = 420, 500
TEXT, SMALL = 14, 12.5
# An upper bound on the mean width of a letter, in sizes of the font: DejaVu Sans, a wide font.
LETTER = 0.57

# Colours by class: light, dark. Series are those of Okabe and Ito, lighter in the dark. Each series has its own shape too.
COLOURS = {
    "page": ("fill", "#ffffff", "#14181d"),
    "text": ("fill", "#1c2126", "#e8ebee"),
    "soft": ("fill", "#535b63", "#a9b2bb"),
    "box": ("fill", "#f3f5f7", "#232a31"),
    "edge": ("stroke", "#7d868f", "#79838d"),
    "grid": ("stroke", "#dde1e5", "#343c44"),
    "arrow": ("stroke", "#535b63", "#a9b2bb"),
    "tip": ("fill", "#535b63", "#a9b2bb"),
    "secret": ("fill", "#fdeee4", "#36241a"),
    "open": ("fill", "#e5f1fa", "#172b3a"),
    "wall": ("stroke", "#b34700", "#f0995a"),
    "walltext": ("fill", "#a03f00", "#f5a76e"),
    "a": ("fill", "#0072b2", "#56b4e9"),
    "b": ("fill", "#c25400", "#e69f00"),
    "c": ("fill", "#00805d", "#2fc79a"),
    "d": ("fill", "#a34a80", "#df9cc4"),
    "free": ("fill", "#eceff1", "#262d34"),
}
STROKES = {f"{name}line": ("stroke", *COLOURS[name][1:]) for name in "abcd"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def number(value):
    return f"{value:.1f}".removesuffix(".0")


class Picture:
    """Elements of a picture, from top to bottom."""

    def __init__(self, title, description, width=WIDTH):
        self.title, self.description, self.width, self.height, self.parts = title, description, width, 0, []

    def add(self, tag, css, text=None, **attributes):
        values = {name: number(value) if isinstance(value, float) else value for name, value in attributes.items()}
        inside = "".join(f' {name.replace("_", "-")}="{html.escape(str(value))}"' for name, value in values.items())
        end = "/>" if text is None else f">{html.escape(text, quote=False)}</{tag}>"
        self.parts.append(f'<{tag} class="{css}"{inside}{end}')

    def text(self, x, y, text, css="text", size=TEXT, anchor="start", bold=False):
        """Writes a line with its baseline at y. It is an error if the line leaves the picture."""
        wide = len(text) * size * LETTER * (1.08 if bold else 1)
        left = x - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        if left < 0 or left + wide > self.width:
            raise ValueError(f"{self.title}: the line {text!r} has no room")
        extra = {"font_weight": "600"} if bold else {}
        self.add("text", css, text, x=float(x), y=float(y), font_size=number(size), text_anchor=anchor, **extra)
        self.height = max(self.height, y + 10)

    def rect(self, x, y, wide, high, css, radius=0):
        self.add("rect", css, x=float(x), y=float(y), width=float(wide), height=float(high), rx=number(radius))
        self.height = max(self.height, y + high + 10)

    def line(self, points, css="arrow", tip=False, dashes=None, width=1.6):
        path = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.path(path, css, dashes, width)
        if tip:
            self.tip(points[-2], points[-1])

    def path(self, path, css, dashes=None, width=1.6):
        extra = {"stroke_dasharray": dashes} if dashes else {}
        self.add("path", css, d=path, fill="none", stroke_width=number(width), **extra)

    def tip(self, start, end, size=7):
        turn = math.atan2(end[1] - start[1], end[0] - start[0])
        sides = [(end[0] - size * math.cos(turn + side), end[1] - size * math.sin(turn + side)) for side in (-0.45, 0.45)]
        self.add("polygon", "tip", points=" ".join(f"{number(x)},{number(y)}" for x, y in [end, *sides]))

    def box(self, x, y, wide, high, lines, css="box edge"):
        """A box with centred lines. The first is in the size of text, the others are small."""
        self.rect(x, y, wide, high, css, 5)
        sizes = [TEXT] + [SMALL] * (len(lines) - 1)
        top = y + (high - sum(sizes) * 1.25) / 2
        for at, (line, size) in enumerate(zip(lines, sizes)):
            if len(line) * size * LETTER > wide:
                raise ValueError(f"{self.title}: the line {line!r} is wider than its box")
            top += size * 1.25
            self.text(x + wide / 2, top - size * 0.28, line, "soft" if at else "text", size, "middle")

    def mark(self, x, y, series, size=4.5):
        """A point of a series: circle, square, triangle or diamond."""
        if series == "a":
            self.add("circle", series, cx=float(x), cy=float(y), r=number(size))
        else:
            corners = {"b": [(-1, -1), (1, -1), (1, 1), (-1, 1)], "c": [(0, -1.3), (1.2, 0.9), (-1.2, 0.9)],
                       "d": [(0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)]}[series]
            scale = size * 0.95
            self.add("polygon", series, points=" ".join(f"{number(x + scale * i)},{number(y + scale * j)}" for i, j in corners))

    def style(self):
        rules = [f"text{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}"]
        used = {name for part in self.parts for name in re.search(r'class="([^"]*)"', part)[1].split()} | {"page"}
        light, dark = [], []
        for name, (what, first, second) in {**COLOURS, **STROKES}.items():
            if name in used:
                light.append(f".{name}{{{what}:{first}}}")
                dark.append(f".{name}{{{what}:{second}}}")
        return "\n".join([*rules, *light, "@media (prefers-color-scheme:dark){", *dark, "}"])

    def svg(self):
        high = math.ceil(self.height)
        shown = round(SHOWN * self.width / WIDTH)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {high}" width="{shown}" '
            f'height="{round(high * SHOWN / WIDTH)}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{html.escape(self.title, quote=False)}</title>',
            f'<desc id="desc">{html.escape(self.description, quote=False)}</desc>',
            "<!-- Written by docs/pictures/draw.py; do not edit. -->",
            f"<style>\n{self.style()}\n</style>",
            f'<rect class="page" width="{self.width}" height="{high}" rx="8"/>', *self.parts, "</svg>", ""])


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
    picture.text(20, border + 17, "released or public", "a", SMALL, bold=True)
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
        tables = [manifest, *manifest.get("target", {}).values()]
        names = {name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})}
        uses[manifest["package"]["name"]] = names
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
    """The places of crates and arrows. An arrow over several rows passes a gap in each, shared with arrows to the same crate."""

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
        for upper, lower in self.links:
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


def tables(name):
    """The tables of a Markdown file, as lists of rows of cells."""
    found = re.findall(r"(?m)(?:^\|.*\n)+", read(name))
    return [[[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()] for table in found]


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


PICTURES = {"private-step": private_step, "layers": layers, "memory": memory}

if __name__ == "__main__":
    sys.exit(write(PICTURES))
