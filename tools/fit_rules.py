#!/usr/bin/env python3
"""Makes the trees of data/rules.txt (common/gpu/rules.hpp) from records of all forms, which tools/fit-rules.sh makes.

    tools/fit_rules.py --rules FILE RECORD ...           fits, writes the trees to FILE, and says what they lose
    tools/fit_rules.py --judge FILE RECORD ...           fits nothing: what the trees of FILE lose on these records

What a form loses on a matrix is how much longer it takes than the fastest form does. The mean is geometric, over a family's matrices and
options first, and then over families. A tree is grown from one leaf: each time by the split that saves most, as long as that is LEAST or
more; on either side of a split are at least two families. A threshold has no more digits than it needs.
"""

import argparse
import math
import pathlib
import sys
import textwrap

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import record  # noqa: E402

LEAST = 0.0015  # of the mean
FALLBACK = "balanced"
ROOT = pathlib.Path(__file__).resolve().parents[1]


def lists():
    """{matrix: (family, list)} of data/matrices.tsv; files by their names without endings, as results have them."""
    of = {}
    for line in (ROOT / "data/matrices.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            family, name, _, matrix = line.split("\t")[:4]
            of[matrix.removesuffix(".gz").removesuffix(".mtx")] = (family, name)
    return of


class Case:
    """A product: its features, and the seconds of each form."""

    def __init__(self, name, family, fitted):
        self.name, self.family, self.fitted = name, family, fitted
        self.features, self.seconds, self.library = {}, {}, math.inf

    def seconds_of(self, form):
        """In the place of a form that refused it that of FALLBACK is taken, as add_choice() does."""
        return self.seconds.get(form, self.seconds[FALLBACK])

    def loss(self, form):
        return math.log(self.seconds_of(form) / min(self.seconds.values()))


def cases_of(paths):
    """{operation: its cases}, and the GPU that they were recorded on: its name, SMs, L2 and bandwidth."""
    cases, gpu, known = {}, None, lists()
    for path in paths:
        results = record.read(path)
        gpu = gpu or results["context"]
        for row in results["results"]:
            problem = row["problem"]
            matrix = problem["matrix"].rpartition("/")[2].removesuffix(".gz").removesuffix(".mtx")
            if "seconds" not in row or matrix not in known:
                continue
            of = cases.setdefault(problem["operation"], {})
            key = (matrix, problem.get("options", ""), problem["type"])
            case = of.setdefault(key, Case(" ".join(key), known[matrix][0], known[matrix][1] == "fitted"))
            step, _, form = row["entry"].partition("/")
            seconds = row["seconds"]["run"]["median"]
            if step == "vendor":
                case.library = min(case.library, seconds)
            elif form == "adaptive":
                case.features = {name.removeprefix("feature_"): metric["value"] for name, metric in row["metrics"].items()
                                 if name.startswith("feature_")}
            else:
                case.seconds[form] = seconds
    return {op: [case for case in of.values() if case.features and case.seconds] for op, of in cases.items()}, gpu


def weights(cases):
    """Of each case, so that families weigh the same."""
    count = {}
    for case in cases:
        count[case.family] = count.get(case.family, 0) + 1
    return [1 / count[case.family] / len(count) for case in cases]


class Tree:
    """Grown on `cases` from `forms`. A split is worth half of what it and the best one behind it save, if that is more: where one form is right
    for rows that are long *and* many, neither question alone saves anything."""

    def __init__(self, cases, forms, least=LEAST):
        self.forms, self.names = forms, sorted(cases[0].features)
        weight = weights(cases)
        self.losses = numpy.array([[w * case.loss(form) for form in forms] for case, w in zip(cases, weight)])
        self.features = numpy.array([[case.features[name] for name in self.names] for case in cases])
        families = sorted({case.family for case in cases})
        self.families = numpy.array([families.index(case.family) for case in cases])
        self.root = self.leaf(numpy.arange(len(cases)), least)
        leaves = [self.root]
        while (best := max(leaves, key=lambda leaf: leaf["worth"]))["worth"] >= least:
            leaves = [leaf for leaf in leaves if leaf is not best]
            feature, below = best.pop("split")
            some = best.pop("some")
            holds = self.features[some, feature] < below
            best.update(feature=self.names[feature], below=below, yes=self.leaf(some[holds], least), no=self.leaf(some[~holds], least))
            leaves += [best["yes"], best["no"]]

    def splits(self, some, most=None):
        """(what is saved, feature, threshold) of all splits of some cases, or of about so many thresholds of a feature."""
        found = []
        loss = self.losses[some].sum(0).min()
        for feature in range(len(self.names)):
            order = some[numpy.argsort(self.features[some, feature], kind="stable")]
            values = self.features[order, feature]
            before = self.losses[order].cumsum(0)
            saved = loss - before[:-1].min(1) - (before[-1] - before[:-1]).min(1)
            different = numpy.flatnonzero(values[:-1] < values[1:])
            first, last = self.families[order[0]], self.families[order[-1]]
            alone = numpy.flatnonzero(self.families[order] != first)[:1], numpy.flatnonzero(self.families[order] != last)[-1:]
            if not alone[0].size:
                continue
            different = different[(different >= alone[0][0]) & (different < alone[1][0])]  # two families on either side
            if most and different.size > most:
                different = different[numpy.linspace(0, different.size - 1, most).astype(int)]
            found += [(saved[k], feature, threshold(values[k], values[k + 1])) for k in different]
        return found

    def leaf(self, some, least):
        leaf = {"take": self.forms[int(self.losses[some].sum(0).argmin())], "some": some, "worth": 0, "split": None}
        if self.losses[some].sum(0).min() < least:
            return leaf
        for saved, feature, below in self.splits(some):
            if saved > leaf["worth"]:
                leaf.update(worth=saved, split=(feature, below))
        for saved, feature, below in self.splits(some, 16):
            holds = self.features[some, feature] < below
            for side in (some[holds], some[~holds]):
                both = saved + max((more for more, _, _ in self.splits(side)), default=0)
                if both / 2 > leaf["worth"]:
                    leaf.update(worth=both / 2, split=(feature, below))
        return leaf


def threshold(low, high):
    """The number of fewest digits with low < it <= high that is near the middle of both."""
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    return next((below for below in (float(f"{middle:.{digits}g}") for digits in range(1, 17)) if low < below <= high), high)


def tree_text(node, depth=0):
    indent = "  " * depth
    if "yes" not in node:
        return f"{indent}take {node['take']}\n"
    return (f"{indent}if {node['feature']} < {node['below']:.15g}\n{tree_text(node['yes'], depth + 1)}"
            f"{indent}else\n{tree_text(node['no'], depth + 1)}")


def chosen(node, case):
    while "yes" in node:
        node = node["yes"] if case.features[node["feature"]] < node["below"] else node["no"]
    return node["take"]


def mean_loss(node, cases):
    return math.expm1(sum(w * case.loss(chosen(node, case)) for case, w in zip(cases, weights(cases)))) if cases else math.nan


def count(node):
    """Thresholds and leaves."""
    return 1 + count(node["yes"]) + count(node["no"]) if "yes" in node else 1


def without_families(cases, forms, least):
    """The mean loss of each family by a tree that was grown without it."""
    losses = []
    for family in sorted({case.family for case in cases}):
        tree = Tree([case for case in cases if case.family != family], forms, least).root
        losses.append(math.log1p(mean_loss(tree, [case for case in cases if case.family == family])))
    return math.expm1(sum(losses) / len(losses))


def library_line(node, cases):
    """What is known against the library: the mean of families, and on how many matrices it is faster."""
    cases = [case for case in cases if case.library < math.inf]
    if not cases:
        return ""
    speeds = [math.log(case.library / case.seconds_of(chosen(node, case))) for case in cases]
    mean = math.exp(sum(w * s for w, s in zip(weights(cases), speeds)))
    behind = sorted((math.exp(s), case.name) for s, case in zip(speeds, cases) if s < 0)
    return f"; {mean:.3f} of the library's fastest; behind on {len(behind)} of {len(cases)}" + "".join(f", {n} {s:.2f}" for s, n in behind[:12])


def parse(lines):
    """The tree that begins with the first of these lines, which it takes away."""
    words = lines.pop(0).split()
    if words[0] == "take":
        return {"take": words[1]}
    node = {"feature": words[1], "below": float(words[3]), "yes": parse(lines)}
    assert lines.pop(0).split() == ["else"]
    return node | {"no": parse(lines)}


def trees_in(path):
    lines = [line.partition("#")[0].rstrip() for line in pathlib.Path(path).read_text().splitlines()]
    lines, trees = [line for line in lines if line], {}
    while lines:
        head = lines.pop(0)
        if not head.startswith("gpu\t"):
            trees.setdefault(head, parse(lines))
    return trees


def say(op, node, cases):
    """Prints how large the tree is, how much longer products take by it than with their best form, and what is known against the library.
    Returns the first two."""
    lists = {"fitted": [c for c in cases if c.fitted], "reported": [c for c in cases if not c.fitted]}
    types = " and ".join(sorted({case.name.rpartition(" ")[2] for case in cases}))
    said = f"{op}, {types}: thresholds: {count(node) // 2}, leaves: {count(node) // 2 + 1}. Products take longer than with their best form by " + ", ".join(
        f"{100 * mean_loss(node, some):.1f} % ({name} list, {len(some)})" for name, some in lists.items() if some)
    print(said + library_line(node, lists["reported"]))
    return said


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--rules", help="the file to write")
    parser.add_argument("--judge", help="a file of rules")
    parser.add_argument("--least", type=float, default=LEAST, help="what a split saves at least, of the mean")
    parser.add_argument("records", nargs="+")
    asked = parser.parse_args(words)
    operations, gpu = cases_of(asked.records)
    if asked.judge:
        for op, cases in operations.items():
            say(op, trees_in(asked.judge)[op], cases)
        return
    head = [f"Fitted by tools/fit-rules.sh to {gpu['gpu']}, {gpu['date'][:10]}, sources {gpu['source_digest'][:12]}."]
    text = f"gpu\t{gpu['gpu']}\t{gpu['gpu_sms']}\t{gpu['gpu_l2_bytes']}\t{gpu['gpu_copy_bandwidth_bytes_per_second']}\n"
    for op, cases in operations.items():
        forms = sorted({form for case in cases for form in case.seconds})
        fitted = [case for case in cases if case.fitted]
        tree = Tree(fitted, forms, asked.least).root
        without = f"{100 * without_families(fitted, forms, asked.least):.1f} % (a family that the tree was fitted without)"
        head.append(f"{say(op, tree, cases)}, {without}; means over families.")
        print(f" {without}")
        loss = mean_loss(tree, fitted)
        for form in forms:
            others = [f for f in forms if f != form]
            some = [case for case in fitted if any(f in case.seconds for f in others)]
            print(f" without {form}: {100 * (mean_loss(Tree(some, others, asked.least).root, some) - loss):.1f} % more")
        text += f"{op}\n{tree_text(tree)}"
    if asked.rules:
        comment = [line for said in head for line in textwrap.wrap(said, 110, initial_indent="# ", subsequent_indent="#   ")]
        pathlib.Path(asked.rules).write_text("\n".join(comment) + "\n" + text)


if __name__ == "__main__":
    main(sys.argv[1:])
