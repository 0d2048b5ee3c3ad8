#!/usr/bin/env python3
"""What `stages convert` makes of an edge list is the graph that networkx reads from it.

usage: networkx_agrees.py PROGRAM DIRECTORY

PROGRAM is `stages`, DIRECTORY data/edge_lists, with files as SNAP, KONECT and spreadsheets write them. Other files are written by networkx
first. Exit code 77 (skipped) where there is no networkx.
"""

import gzip
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from played import entries_of

try:
    import networkx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM, FILES = sys.argv[1], pathlib.Path(sys.argv[2])
WEIGHT = (("weight", float),)


def compare(path, graph, *options, first=0, rows=None):
    """`graph` is what networkx makes of the file; `first` is its first node, `rows` their number where the last ones have no edges."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / ("out.mtx.gz" if path.suffix == ".gz" else "out.mtx")
        done = subprocess.run([PROGRAM, "convert", path, "-o", out, *options], check=True, capture_output=True, text=True)
        (*_, field, _), (found_rows, columns, stored), entries = entries_of(out)
    found = {(i, j): value for i, j, value in entries}
    assert found_rows == columns and stored == len(entries) == len(found), (found_rows, columns, stored, len(entries), "an entry comes twice?")
    weighted = any("weight" in data for _, _, data in graph.edges(data=True))
    expected = {(u - first, v - first): float(data.get("weight", 1)) for u, v, data in graph.edges(data=True)}
    if not graph.is_directed():
        expected |= {(v, u): weight for (u, v), weight in expected.items()}
    assert found == expected, f"{path.name} {options}: {set(found.items()) ^ set(expected.items())}\n{done.stdout}"
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        edges = sum(line[0].isdigit() for line in file)
    repeated = re.search(r"(\d+) repeated", done.stdout)
    assert int(repeated[1] if repeated else 0) == edges - graph.number_of_edges(), (edges, graph, done.stdout)
    assert field == ("real" if weighted else "pattern"), (path.name, field)
    assert found_rows == (rows or max(graph) + 1 - first), (path.name, found_rows)
    print(f"ok: {path.name} {' '.join(options)}: {done.stdout.splitlines()[0].split(': ', 1)[1]}")


def written_by_networkx(directory):
    chosen = random.Random(1)
    path = directory / "karate.txt"
    karate = networkx.karate_club_graph()
    networkx.write_edgelist(karate, path)  # with {'weight': 4}
    compare(path, karate, "--undirected")

    path = directory / "weighted.txt"
    weighted = networkx.gnp_random_graph(40, 0.1, seed=2, directed=True)
    for _, _, data in weighted.edges(data=True):
        data["weight"] = chosen.choice([chosen.random(), -1e-300, 7])
    networkx.write_weighted_edgelist(weighted, path)
    compare(path, networkx.read_weighted_edgelist(path, nodetype=int, create_using=networkx.DiGraph))

    path = directory / "gaps.csv.gz"
    gaps = networkx.relabel_nodes(networkx.gnp_random_graph(30, 0.1, seed=3, directed=True), lambda node: 7 * node)
    gaps.add_edge(0, 0)
    networkx.write_edgelist(gaps, path, delimiter=",", data=False)
    compare(path, networkx.read_edgelist(path, delimiter=",", nodetype=int, create_using=networkx.DiGraph))
    compact = networkx.read_edgelist(path, delimiter=",", nodetype=int, create_using=networkx.DiGraph)
    compare(path, networkx.convert_node_labels_to_integers(compact, ordering="sorted"), "--compact")

    path = directory / "without_data.txt"
    networkx.write_edgelist(gaps, path)  # with {}
    compare(path, gaps, "--nodes", "300", rows=300)

    path = directory / "parallel.tsv"
    parallel = networkx.MultiDiGraph()
    for _ in range(200):
        parallel.add_edge(chosen.randint(1, 12), chosen.randint(1, 12), weight=chosen.randint(1, 9))
    networkx.write_edgelist(parallel, path, delimiter="\t", data=["weight"])
    for kind, options in ((networkx.DiGraph, []), (networkx.Graph, ["--undirected"])):
        compare(path, networkx.read_edgelist(path, nodetype=int, data=WEIGHT, create_using=kind), *options, first=1)


def written_by_hand():
    path = FILES / "snap.txt"
    for kind, options in ((networkx.DiGraph, []), (networkx.Graph, ["--undirected"])):
        compare(path, networkx.read_edgelist(path, nodetype=int, create_using=kind), *options)
    path = FILES / "konect.tsv"
    columns = (*WEIGHT, ("time", int))
    compare(path, networkx.read_edgelist(path, comments="%", nodetype=int, data=columns), "--undirected", first=1)
    compare(path, networkx.read_edgelist(path, comments="%", nodetype=int, data=False, create_using=networkx.DiGraph), "--weights", "no", first=1)
    lines = (FILES / "header.csv").read_text().splitlines()[1:]
    compare(FILES / "header.csv", networkx.parse_edgelist(lines, delimiter=",", nodetype=int, create_using=networkx.DiGraph))


with tempfile.TemporaryDirectory() as place:
    written_by_networkx(pathlib.Path(place))
written_by_hand()
