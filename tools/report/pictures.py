"""Pictures: drawn by matplotlib as SVG that takes its colours and its font from the page around it, so that one picture serves light, dark and
paper. On a phone a picture scrolls.
"""

import html
import io
import math
import re

import matplotlib

matplotlib.use("svg")
from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator  # noqa: E402

WIDE = 8.4  # inches; the page scales them to the room they have
CHARACTER = 0.073  # inches that a character of a label takes, at most

# Stand-ins: each becomes the variable of page.css of that name.
COLOURS = {"ink": "#1c2127", "muted": "#5b6570", "grid": "#dfe3e8", "accent": "#1f5fbf", "vendor": "#c2410d", "good": "#0e7a4b",
           "bad": "#b4232c", "faint": "#aab3bd", "shade": "#f6e3dc"}
SERIES = ["#1f5fbe", "#c2410c", "#0e7a4a", "#8a3fb0", "#b07d00", "#0a7f93", "#b4236f", "#5a6b00", "#6b4a35", "#4a55c8"]
MARKERS = ["o", "s", "D", "^", "v", "P", "X", "<", ">", "h"]

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "stages", "text.parse_math": False, "axes.formatter.use_mathtext": False,
    "font.size": 9, "axes.labelsize": 9, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "legend.fontsize": 8.5,
    "text.color": COLOURS["ink"], "axes.labelcolor": COLOURS["muted"], "axes.edgecolor": COLOURS["faint"],
    "xtick.color": COLOURS["muted"], "ytick.color": COLOURS["ink"], "grid.color": COLOURS["grid"], "grid.linewidth": 0.8,
    "axes.titlesize": 9, "axes.titlelocation": "left", "axes.titlecolor": COLOURS["muted"], "axes.grid": True, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "xtick.major.size": 0, "ytick.major.size": 0, "path.simplify": True,
})


_drawn = 0


def picture(draw, height, *, says):
    """The SVG that draw(figure) draws; `height` is inches, `says` is for those who cannot see it."""
    global _drawn
    _drawn += 1
    figure = Figure(figsize=(WIDE, height))
    FigureCanvasSVG(figure)
    draw(figure)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return _for_the_page(out.getvalue(), f"p{_drawn}-", says)


def _for_the_page(svg, prefix, says):
    """Only the drawing, with ids of its own and the page's colours and font."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>",
                 lambda m: f'<svg viewBox="{m.group(1)}" role="img" aria-label="{html.escape(says)}" '
                           'xmlns:xlink="http://www.w3.org/1999/xlink">', svg, count=1)
    named = set(re.findall(r'(?:url\(|xlink:href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{m.group(1)}"' if m.group(1) in named else "", svg)
    svg = re.sub(r'(url\(|xlink:href=")#', rf"\1#{prefix}", svg)
    svg = re.sub(r"font: (?:(\d+|bold) )?([\d.]+)px [^;\"]*",
                 lambda m: f"font-size: {m.group(2)}px" + (f"; font-weight: {m.group(1)}" if m.group(1) else ""), svg)
    for name, colour in [*COLOURS.items(), *((f"series-{k}", colour) for k, colour in enumerate(SERIES))]:
        svg = svg.replace(colour, f"var(--{name})")
    # A hundredth of a point is enough; but not for what stands in labels.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag.group()), svg)
    return re.sub(r"\n\s*", "\n", svg)


def place(figure, *, left=0.1, right=0.1, top=0.1, bottom=0.1, **options):
    """Margins in inches."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=left / width, right=1 - right / width, top=1 - top / height, bottom=bottom / height, **options)


def room(texts, size=8.5):
    """Inches that the longest of the labels takes."""
    return max((len(t) for t in texts), default=0) * CHARACTER * size / 8.5


def log_axis(axis, values, show, pad=0.06, most=6):
    """A logarithmic axis around the values, with ticks at 1, 2, 5 where it is short and at whole decades where it is long."""
    values = [v for v in values if v > 0 and math.isfinite(v)]
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 0.3:
        low, high = low - (0.3 - high + low) / 2, high + (0.3 - high + low) / 2
    low, high = low - pad * (high - low), high + pad * (high - low)
    ticks = log_ticks(low, high, most)
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (10**low, 10**high)})
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axis.set_minor_locator(NullLocator())


def log_ticks(low, high, most):
    """Round numbers between 10^low and 10^high, if possible 3 or more, at most `most`, and so far apart that they have room."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [s * 10.0**d for d in decades for s in steps if low <= math.log10(s) + d <= high]
        if len(ticks) >= 3:
            break
    else:
        ticks = [t for t in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(10**low, 10**high) if 10**low <= t <= 10**high]
    kept = []
    for tick in ticks[:: math.ceil(len(ticks) / most)]:
        if not kept or math.log10(tick / kept[-1]) >= (high - low) / (most + 0.5):
            kept.append(tick)
    return kept


def tick_time(value):
    """1 us, 20 ms: for ticks, which are round."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= size * 0.999:
            return f"{value / size:g} {unit}"
    return f"{value:.0e}"


def tick_number(value):
    return f"{value:g}" if 1e-3 <= value < 1e5 else f"{value:.0e}"


def tick_times(value):
    return f"{value:g}x"


def rows(labels, axes, *beside):
    """A line of the picture for each label, from the top; what is drawn beside it shares them."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    for one in (axes, *beside):
        one.grid(axis="y", visible=False)
        one.tick_params(axis="y", labelleft=one is axes)


def legend(figure, handles, labels):
    """At the right edge, where the picture has legend_room() for it."""
    place = 1 - (room(labels) + 0.5) / figure.get_size_inches()[0]
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(place, 0.5), handlelength=1.6, borderaxespad=0, labelspacing=0.45)


def legend_room(labels):
    """Inches that the legend takes."""
    return room(labels) + 0.65
