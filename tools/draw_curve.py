#!/usr/bin/env python3
"""Draws the figures of the course reports "D2" and "D4" from our records.

    tools/draw_curve.py                        writes both pictures (needs matplotlib)
    tools/draw_curve.py RESULTS.json OUT.svg   the first of another file of tools/d2-study.sh

06_cuda_register/curve.svg, of results/nvidia-h100-80gb-hbm3/d2_stream.json: left the time of a product against n, all sizes; in the middle
those around the register cliff; right the steps at one size. 08_spgemm_multigpu/gpus.svg, of all records of several GPUs: preparation and
speed-up over cuSPARSE against the number of GPUs; hollow where another record is of newer sources.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import record
import tables  # the medians of a record, and what is left out

RECORD = "results/nvidia-h100-80gb-hbm3/d2_stream.json"
PICTURE = "06_cuda_register/curve.svg"
# D2's steps in their order, and what is ours: entry, words of the legend, colour.
LINES = (
    ("03_cuda_naive/dense_transposed", "step 3: dense_transposed", "#9a9a9a"),
    ("04_cuda_shared/shared_memory", "step 4: shared_memory", "#b58900"),
    ("05_cuda_csr/two_arrays", "step 5: two_arrays", "#cb4b16"),
    ("06_cuda_register/one_launch", "step 6: one_launch", "#6c71c4"),
    ("06_cuda_register/row_per_thread", "step 6: row_per_thread (registers)", "#268bd2"),
    ("06_cuda_register/bank_order", "step 6: bank_order", "#2aa198"),
    ("vendor/cublas_gemv_rows", "cuBLAS, a call for each vector", "#333333"),
)
CLOSE = (500, 600)  # the sizes in the middle
SIZE = 1024  # the size of the bars
IN_CLOSE = ("05_cuda_csr/two_arrays", "06_cuda_register/one_launch", "06_cuda_register/row_per_thread")


def points(results, entry):
    """(n, seconds of a product) of an entry, by n."""
    rows = [(tables.size_of(row["problem"]["matrix"]), tables.median(row)) for row in tables.timed_rows(results) if row["entry"] == entry]
    return sorted((n, took) for n, took in rows if n)


# D4's two charts: records of several GPUs, the matrix, the ways to divide it, and their colours.
GPUS_RECORDS = ("spgemm-shares-d4*.json", "spgemm-multi-distributed*.json")
GPUS_PICTURE = "08_spgemm_multigpu/gpus.svg"
WAYS = (("multi_blocks", "#2aa198"), ("multi_gather", "#b58900"), ("multi_gather_hash", "#cb4b16"))
UNIFORM = "gen:rmat:n=1062400,edge_factor=8,a=0.25"
CUSPARSE = "#333333"


def new_figure(height):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sparse-stages", "font.size": 9, "font.family": "sans-serif", "path.simplify": False})
    from matplotlib.figure import Figure

    return Figure(figsize=(11, height))


def save(figure, path, *contexts):
    """Writes it, with what it was made of in its corner."""
    origin = "; ".join(tables.source_of(context) for context in contexts)
    figure.text(0.995, 0.005, origin, ha="right", fontsize=6, color="#777777")
    figure.savefig(path, metadata={"Date": None, "Creator": "tools/draw_curve.py"})
    small = re.sub(r"'DejaVu Sans'[^;]*|(?<=\.\d\d)\d+| transform=\"rotate\(-0 [^)]*\)\"", lambda of: "sans-serif" if "'" in of[0] else "", path.read_text())
    path.write_text("\n".join(line.strip() for line in small.splitlines()) + "\n")


def draw(results, path):
    """Of entries that the results have no times of there is no line."""
    figure = new_figure(3.8)
    whole, close, steps = figure.subplots(1, 3, width_ratios=(2, 1, 1.2))
    lines = [line for line in LINES if SIZE in dict(points(results, line[0]))]
    for entry, words, colour in lines:
        curve = points(results, entry)
        in_close = [(n, s) for n, s in curve if entry in IN_CLOSE and CLOSE[0] <= n <= CLOSE[1]]
        for axes, name, marks, there in ((whole, "whole", "-", curve), (close, "close", ".-", in_close)):
            if there:
                line, = axes.plot([n for n, _ in there], [1e6 * s for _, s in there], marks, color=colour, label=words, linewidth=1.3, markersize=4)
                line.set_gid(f"{name}:{entry}")
    for place, (entry, _, colour) in enumerate(lines):
        took = dict(points(results, entry))[SIZE]
        bar, = steps.barh(place, 1e6 * took, color=colour, height=0.7)
        bar.set_gid(f"steps:{entry}")
        steps.text(1e6 * took * 1.15, place, tables.seconds(took), va="center", fontsize=8)
    stream = any(row["problem"]["options"] == "stream of 1000" for row in results["results"])
    decades = [10.0**k for k in range(-2, 3)]
    for axes, head, marks in ((whole, "all sizes", decades), (close, "around the register cliff", (0.5, 1, 2, 5, 10, 20))):
        axes.set(yscale="log", xlabel="n (80 % zeros)")
        axes.set_title(head, fontsize=9)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()
    whole.set_ylabel("microseconds a product" + (", 1000 vectors" if stream else ""))
    close.set(xlim=CLOSE, ylim=(0.5, 20))
    steps.set(xscale="log", xlim=(0.01, 1000), xlabel="microseconds a product")
    steps.set_title(f"the steps at n = {SIZE}", fontsize=9)
    steps.invert_yaxis()
    steps.set_yticks([])
    steps.set_xticks(decades, [f"{mark:g}" for mark in decades])
    steps.minorticks_off()
    figure.legend(*whole.get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, fontsize=8)
    figure.subplots_adjust(left=0.06, right=0.985, top=0.93, bottom=0.3, wspace=0.13)
    save(figure, path, results["context"])


def of_several_gpus():
    """The records of several GPUs, the newest first. One without cuSPARSE gets it from the record of one GPU beside it."""
    files = [file for pattern in GPUS_RECORDS for file in (ROOT / "results").glob("*/" + pattern)]
    records = {file: record.read(file) for file in files}
    for file, results in records.items():
        if not any(row["peer"] for row in results["results"]):
            results["results"] += [row for row in record.read(file.with_name("spgemm.json"))["results"] if row["peer"]]
    return sorted(records.values(), key=lambda results: results["context"]["date"], reverse=True)


def draw_gpus(records, path):
    """Of each record and way a line over the numbers of GPUs, of cuSPARSE the preparation of its fastest algorithm on one."""
    from matplotlib.lines import Line2D

    figure = new_figure(3.6)
    panels = dict(zip(("preparation", "speed-up"), figure.subplots(1, 2)))
    counts = sorted({row["ranks"] for results in records for row in results["results"] if row["mpi"]})
    kinds = []
    for results in records:
        context, most = results["context"], max(row["ranks"] for row in results["results"])
        turns, older = int(context[f"ranks={most}: gpus"]) < most, context["source_digest"] != records[0]["context"]["source_digest"]
        look = {"linestyle": ":" if turns else "-", "marker": "s" if older else "o", "markersize": 4, "linewidth": 1.3}
        look |= {"markerfacecolor": "white"} if older else {}
        kinds.append(Line2D([], [], color=CUSPARSE, label=f"{context['gpu']}: processes " + ("take turns" if turns else "with a GPU each")
                            + (", older sources" if older else ""), **look))
        rows = [row for row in tables.timed_rows(results) if row["problem"]["matrix"] == UNIFORM]
        library = min((row for row in rows if row["peer"]), key=tables.median)
        prepared = lambda row: 1e3 * row["seconds"]["prepare"]
        speed = lambda row: tables.median(library) / tables.measured(row, "compute_seconds")
        for way, colour in WAYS:
            of_way = sorted((row for row in rows if row["entry"] == "08_spgemm_multigpu/" + way), key=lambda row: row["ranks"])
            for panel, of_row in (("preparation", prepared), ("speed-up", speed)) if of_way else ():
                line, = panels[panel].plot([row["ranks"] for row in of_way], list(map(of_row, of_way)), color=colour, **look)
                line.set_gid(f"{panel.replace('-', '_')}:{context['gpu']}:{way}")
        line, = panels["preparation"].plot([1], [prepared(library)], color=CUSPARSE, **look)
        line.set_gid(f"preparation:{context['gpu']}:cusparse")
    for (head, axes), label, marks in zip(panels.items(), ("milliseconds", "over cuSPARSE's fastest on one GPU"),
                                          ((10, 20, 50, 100, 200, 500), (0.1, 0.2, 0.5, 1, 2, 5, 10))):
        axes.set_xscale("log", base=2)
        axes.set(yscale="log", xlabel="GPUs", ylabel=label)
        axes.minorticks_off()
        axes.set_xticks(counts, map(str, counts))
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
        axes.tick_params(bottom=False, left=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"{head}, uniform", fontsize=9)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    ways = [Line2D([], [], color=colour, label=way) for way, colour in (*WAYS, ("cuSPARSE", CUSPARSE))]
    figure.legend(handles=ways + kinds, loc="lower center", ncols=3, frameon=False, fontsize=8)
    figure.subplots_adjust(left=0.06, right=0.985, top=0.93, bottom=0.34, wspace=0.2)
    save(figure, path, *(results["context"] for results in records))


def fail(why):
    print(f"draw_curve: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    files = sys.argv[1:]
    if len(files) not in (0, 2):
        print(__doc__.strip())
        sys.exit(0 if files == ["--help"] else 2)
    try:
        draw(record.read(files[0] if files else ROOT / RECORD), pathlib.Path(files[1]) if files else ROOT / PICTURE)
        if not files:
            draw_gpus(of_several_gpus(), ROOT / GPUS_PICTURE)
    except ImportError as error:
        fail(f"this needs {error.name} in {sys.executable}; install python3-matplotlib and use the system's python3")
    except (OSError, ValueError, LookupError, TypeError) as error:
        fail(f"{files[0] if files else 'results'}: {error}; give a file of tools/d2-study.sh, and a place for the picture")
