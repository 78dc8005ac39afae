"""A picture as SVG: boxes, arrows, lines of text, and colours for light and dark pages."""

import html
import math
import re

WIDTH, SHOWN = 420, 500
TEXT, SMALL = 14, 12.5
# An upper bound on the mean width of a letter, in sizes of the font: DejaVu Sans, a wide font.
LETTER = 0.57

# Colours by class: light, dark. Series are those of Okabe and Ito, lighter in the dark. Each series has its own shape
# too.
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
