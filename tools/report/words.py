"""Numbers and names as people read them, and tables of them."""

import dataclasses
import math

from tables import geometric_mean, label, seconds, times

OPERATION_NAMES = {"spmv": "SpMV", "spmm": "SpMM", "spgemm": "SpGEMM"}


def digits(value):
    """Three digits; small whole numbers as they are."""
    if not math.isfinite(value):
        return ""
    if value == int(value) and abs(value) < 1000:
        return f"{value:.0f}"
    places = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):.{max(0, places)}f}"
    return text if abs(value) < 1e6 else f"{value:.3g}"


def percent(share):
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f} %" if math.isfinite(share) else ""


def of_copy(share):
    """A share of the bandwidth of a copy, as the table of `stages run` says it (kInCache)."""
    return "in cache" if share > 1.2 else percent(share)


def count(value):
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size * 0.9995:
            return f"{digits(value / size)} {unit}"
    return f"{value:.0f}"


def amount(value):
    """Bytes."""
    text = count(value)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def title(kind):
    """"SpMM f32, N = 32" for a problem's kind."""
    operation, number, options = kind
    return f"{OPERATION_NAMES[operation]} {number}" + (f", {options}" if options else "")


def plural(n, one, many=None):
    return f"{n} {one if str(n) == '1' else many or one + 's'}"


def short(matrix, most=26):
    """The name of a matrix, cut where a picture has no room for it."""
    text = label(matrix).removeprefix("gen:")
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclasses.dataclass
class Cell:
    """What a cell shows, and the number by which its column is sorted (None: by the text; NaN: last)."""

    text: str
    value: float | None = None
    mark: str = ""  # a class of the page: "best", "bad", "dim", "code"
    below: str = ""  # a remark in small print
    below_mark: str = "dim"


@dataclasses.dataclass
class Table:
    heads: list  # texts; one that ends in "*" heads a column of text, the others of numbers
    rows: list  # of lists of Cell
    caption: str = ""

    def without_empty_columns(self):
        """Where no library ran, for example, there is nothing to say about one."""
        used = [k for k in range(len(self.heads)) if any(row[k].text for row in self.rows)]
        return Table([self.heads[k] for k in used], [[row[k] for k in used] for row in self.rows], self.caption)

    def columns(self):
        return [(head.rstrip("*"), head.endswith("*")) for head in self.heads]


def cell(value, show, mark=""):
    """A number; an empty cell that sorts last where it is unknown."""
    return Cell(show(value) if math.isfinite(value) else "", value, mark)


def whole(value):
    """A count, with commas."""
    return Cell(f"{value:,}", value)


def name(text, mark="code", below="", below_mark="dim"):
    return Cell(text, None, mark, below, below_mark)


@dataclasses.dataclass
class Figure:
    """A picture with what to see in it and the table of its numbers."""

    title: str
    see: str
    picture: str | None  # SVG
    table: Table
    notes: list = dataclasses.field(default_factory=list)
    folded: tuple = ()  # what it is, and a table, that are shown when they are asked for


@dataclasses.dataclass
class Section:
    id: str
    title: str
    lead: str
    figures: list
    choose: str = ""  # what the figures differ by; then one of them is shown at a time
    table: Table | None = None  # above the figures

