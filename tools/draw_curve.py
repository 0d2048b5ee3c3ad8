#!/usr/bin/env python3
"""Draws 06_cuda_register/curve.svg from results/nvidia-h100-80gb-hbm3/d2_stream.json: the three figures of the course report "D2".

    tools/draw_curve.py                        writes the picture (needs matplotlib)
    tools/draw_curve.py RESULTS.json OUT.svg   the same of another file of tools/d2-study.sh

Left the time of a product against n, all sizes; in the middle those around the register cliff; right the steps at one size.
"""

import pathlib
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
    ("06_cuda_register/stream_resident", "step 6: stream_resident", "#2aa198"),
    ("vendor/cublas_gemv_rows", "cuBLAS, a call for each vector", "#333333"),
)
CLOSE = (500, 600)  # the sizes in the middle
SIZE = 1024  # the size of the bars
IN_CLOSE = ("05_cuda_csr/two_arrays", "06_cuda_register/one_launch", "06_cuda_register/row_per_thread")


def points(results, entry):
    """(n, seconds of a product) of an entry, by n."""
    found = []
    for row in tables.timed_rows(results):
        name = tables.label(row["problem"]["matrix"])
        if row["entry"] == entry and name.startswith("n = "):
            found.append((int(name.removeprefix("n = ")), tables.median(row)))
    return sorted(found)


def draw(results, path):
    """Of entries that the results have no times of there is no line."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sparse-stages", "font.size": 9, "font.family": "sans-serif", "path.simplify": False})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.8))
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
    context = results["context"]
    for axes, head in ((whole, "all sizes"), (close, "around the register cliff")):
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_xlabel("n (80 % zeros)")
        axes.set_title(head, fontsize=9)
        axes.grid(color="#dddddd", linewidth=0.6)
    stream = any(row["problem"]["options"] == "stream of 1000" for row in results["results"])
    whole.set_ylabel("microseconds a product" + (", 1000 vectors" if stream else ""))
    close.set_xlim(*CLOSE)
    close.set_ylim(0.5, 20)
    whole.set_yticks(*zip(*((10.0**k, f"{10.0**k:g}") for k in range(-2, 3))))
    close.set_yticks(*zip(*((t, f"{t:g}") for t in (0.5, 1, 2, 5, 10, 20))))
    steps.set_xscale("log")
    steps.set_xlim(0.01, 1000)
    steps.minorticks_off()
    steps.invert_yaxis()
    steps.set_yticks([])
    steps.set_xticks(*zip(*((10.0**k, f"{10.0**k:g}") for k in range(-2, 3))))
    steps.set_xlabel("microseconds a product")
    steps.set_title(f"the steps at n = {SIZE}", fontsize=9)
    figure.legend(*whole.get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, fontsize=8)
    figure.text(0.995, 0.005, f"{context['gpu']}, {context['date'][:10]}, sources {context['source_digest'][:12]}", ha="right", fontsize=6, color="#777777")
    figure.subplots_adjust(left=0.06, right=0.985, top=0.93, bottom=0.3, wspace=0.13)
    figure.savefig(path, metadata={"Date": None, "Creator": "tools/draw_curve.py"})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def fail(why):
    print(f"draw_curve: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    files = sys.argv[1:] or [ROOT / RECORD, ROOT / PICTURE]
    if len(files) != 2:
        print(__doc__.strip())
        sys.exit(0 if files == ["--help"] else 2)
    try:
        draw(record.read(files[0]), pathlib.Path(files[1]))
    except ImportError as error:
        fail(f"this needs {error.name} in {sys.executable}; install python3-matplotlib and use the system's python3")
    except (OSError, ValueError, LookupError, TypeError) as error:
        fail(f"{files[0]}: {error}; give a file of tools/d2-study.sh, and a place for the picture")
