#!/usr/bin/env python3
"""The report: what stands on the page for what the files hold, bad input, comparisons.

One file, though long: all tests change the same few results and read the same page."""

import copy
import html.parser
import json
import math
import os
import pathlib
import re
import unittest

import samples
from samples import PROGRAM, ROOT, main

import record  # tools/record.py


class Page(html.parser.HTMLParser):
    """What a page holds: ids, links to outside, sections, figures, tables, unclosed tags."""

    VOID = {"meta", "link", "br", "wbr", "img", "input", "hr"}

    def __init__(self, text):
        super().__init__()
        self.ids, self.outside, self.sections, self.open, self.figures, self.tables = [], [], [], [], 0, 0
        self.faults = []
        self.feed(text)
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.sections += [attributes.get("id")] if tag == "section" else []
        self.figures += tag == "figure"
        self.tables += tag == "table"
        for key in ("src", "href", "xlink:href"):
            if not attributes.get(key, "#").startswith(("#", "data:")):
                self.outside.append(attributes[key])

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes another tag")


def wrong(reason):
    """Changes results: their first entry that was timed is wrong."""
    def change(data):
        row = next(r for r in data["results"] if "seconds" in r)
        del row["seconds"]
        row.update(status="wrong", reason=reason)
    return change


class Case(samples.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.everyday = cls.samples.everyday()
        # One multiplication of it, for what does not depend on how much there is: its page takes half a second.
        cls.small = cls.samples.run("spmv.json", "-m", "gen:stencil:points=5,nx=12,ny=12", "--op", "spmv", "--stage", "01,vendor")

    def page(self, *words, out="page.html"):
        """The text of a page, which is whole in every case."""
        done = self.said = self.samples.report(*words, "-o", self.directory / out)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.directory / out).read_text()
        page = Page(text)
        self.assertEqual((page.faults, page.outside), ([], []))
        self.assertEqual(len(page.ids), len(set(page.ids)), "an id stands twice")
        self.assertLessEqual(set(re.findall(r'(?:url\(|href=")#([^)"]+)', text)), set(page.ids))
        self.assertGreaterEqual(page.tables, page.figures, "a picture has no table")
        return text, page

    def changed(self, name, change, path=None):
        """The small results, or others, after change(their data), in a file of that name."""
        return self.samples.changed(name, path or self.small, change)

    def plainly(self, section, text):
        """The words of a section."""
        section = text[text.index(f'<section id="{section}">'):]
        return " ".join(re.sub(r"<[^>]*>", " ", section[:section.index("</section>")].replace("<wbr>", "")).split())


class Pages(Case):
    def test_everyday(self):
        text, page = self.page(self.everyday)
        for section in ("where", "glance", "ladder-0", "roofline"):
            self.assertIn(section, page.sections)
        for section in ("troubles", "scaling", "comparison", "matrices", "steps"):
            self.assertNotIn(section, page.sections)
        data = json.loads(self.everyday.read_text())
        plain = text.replace("<wbr>", "")
        for word in (data["context"]["cpu"], data["context"]["source_digest"][:12], data["context"]["date"][:10], "SpMM f32, N = 32",
                     *(row["entry"] for row in data["results"])):
            self.assertIn(word, plain)
        values = {float(v) for v in re.findall(r'data-value="([^"]+)"', text)}
        for row in data["results"]:
            if "seconds" in row:  # the numbers are those of the file
                self.assertLessEqual({row["seconds"]["run"]["median"], row["gflops"]}, values)
        cached = self.changed("cached.json", lambda d: [row.update(bandwidth_share=4.26) for row in d["results"] if "seconds" in row])
        self.assertIn(">in cache<", self.page(cached)[0])

    def test_the_steps_come_first(self):
        tour = self.samples.run("tour.json", "--stage", "01,03", "--op", "spmv")
        text, page = self.page(tour)
        self.assertEqual(page.sections[:2], ["steps", "where"])
        self.assertIn("<svg", text[text.index('<section id="steps">'):text.index('<section id="where">')])
        opening = self.plainly("steps", text)
        for word in (*(line[end]["entry"] for line in json.loads(tour.read_text())["steps"] for end in ("plainest", "best")), "from the records"):
            self.assertIn(word, opening)

        def change(data):
            data["steps"][0]["best"].update(outcome="WRONG", seconds=None)
            data["steps"][-1].update(missing="left out: it needs a miracle")
        text, _ = self.page(self.changed("bad_steps.json", change, tour))
        self.assertRegex(text[:text.index('<section id="where">')], r'class="[a-z ]*bad[a-z ]*"[^>]*>[^<]*WRONG')
        self.assertIn("it needs a miracle", self.plainly("steps", text))

    def test_a_record_has_the_tables_of_its_results(self):
        """But for digits that it does not keep; and a comparison of the two finds all within the noise."""
        kept = self.directory / "record.json"
        kept.write_text(self.everyday.read_text())
        record.pack(kept)
        self.assertNotEqual(kept.read_text(), self.everyday.read_text())
        cells = lambda path: re.findall(r"<td[^>]*>([^<]*)", self.page(path)[0].replace("<wbr>", ""))
        of_results, of_record = cells(self.everyday), cells(kept)
        self.assertGreater(len(of_results), 500)
        self.assertEqual(len(of_record), len(of_results))
        others = [pair for pair in zip(of_results, of_record) if pair[0] != pair[1]]
        self.assertLess(len(others), len(of_results) / 50, others)
        self.page("--compare", self.everyday, kept)
        self.assertRegex(self.said.stdout, r"^0 faster, 0 slower, \d+ within the noise")

    def test_scaling(self):
        path = self.samples.ranks()
        if path is None:
            self.skipTest("no MPI here")
        self.assertIn("root to root", self.plainly("scaling", self.page(path)[0]))
        self.assertIn("ny=6xR, SpGEMM f32, weak", self.page(self.samples.weak())[0])

    def test_several_files(self):
        """Runs of one build on one machine share a card; each has a name of its own. The same input makes the same page."""
        again = self.changed("again.json", lambda d: d["context"].update(date="2001-02-03T04:05:06Z"))
        built = self.changed("built.json", lambda d: d["context"].update(source_digest="0" * 64))
        for files, number in (((self.small, again), 1), ((self.small, again, built), 2)):
            text, _ = self.page(*files)
            self.assertEqual(text.count('<article class="card">'), number)
            self.assertIn("again.json: 2001-02-03 04:05:06 UTC", text)
        self.assertEqual(self.page(*files)[0], text)
        (self.directory / "other").mkdir()
        other = self.changed(f"other/{self.small.name}", lambda d: None)
        text, _ = self.page(self.small, other)
        self.assertIn(f"other/{self.small.name}", text)
        self.assertIn(f"{self.directory.name}/{self.small.name}", text)

    def test_parts_of_one_study_are_one(self):
        """Files of one build and kind, with other matrices, share their pictures; the same matrices again, or another build, do not."""
        def part(name, matrix, **context):
            def change(d):
                d["context"].update(context)
                for row in d["results"]:
                    row["problem"]["matrix"] += matrix
            return self.changed(f"study_{name}.json", change)
        small, large, again, built = part("small", "s"), part("large", "l"), part("again", "s"), part("built", "b", source_digest="0" * 64)
        sections = [len(re.findall("step by step[^<]*</h2>", self.page(*files)[0])) for files in ([small], [small, large], [small, again], [small, built])]
        self.assertEqual(sections, [1, 1, 2, 2])
        self.assertIn("(study_*.json)</h2>", self.page(small, large, built)[0])

    def test_one_roofline_a_device(self):
        """All files of a device share a picture; what ran on a GPU is held against its bandwidth, to the digits that a file keeps."""
        def on_gpu(data):
            row = next(r for r in data["results"] if "seconds" in r)
            reached = row["model_bytes"] / row["seconds"]["run"]["median"] / row["bandwidth_share"]
            data["context"].update(gpu="GPU of a test", gpu_copy_bandwidth_bytes_per_second=str(reached * 1.004))
        cpu = html.escape(json.loads(self.small.read_text())["context"]["cpu"])
        for other, figures, heads in ((self.changed("slower.json", lambda d: d["context"].update(date="2001-02-03T04:05:06Z")), 1, [cpu]),
                                      (self.changed("gpu.json", on_gpu), 2, [cpu, "GPU of a test"])):
            text, _ = self.page(self.small, other)
            part = text[text.index('<section id="roofline"'):]
            self.assertEqual((part.count("<figure"), [part.count(f"<h3>{head}</h3>") for head in heads]), (figures, [1] * len(heads)))
            self.assertEqual(other.name in part, figures == 1)  # names are told where a picture has several

    def test_columns_without_anything_are_left_out(self):
        alone = self.samples.run("alone.json", "-m", "gen:stencil:points=5,nx=12,ny=12", "--op", "spmv", "--stage", "01")
        for path, beside_a_library in ((self.small, True), (alone, False)):
            text, _ = self.page(path)
            self.assertEqual((">vs vendor</button>" in text, ">vs step</button>" in text), (beside_a_library, True))

    def test_what_is_wrong_comes_first(self):
        text, page = self.page(self.changed("wrong.json", wrong("element (0, 0) is <b>0</b>"), self.everyday))
        self.assertEqual(page.sections[:2], ["where", "troubles"])
        self.assertIn("element (0, 0) is &lt;b&gt;0&lt;/b&gt;", text)

    def test_what_kernels_ask_for_stands_beside_recorded_times(self):
        """Bytes and bounds that the lens counted, never called a time, and the times of data/records.tsv of the same product."""
        entries = {"03_cuda_naive/dense_row_major": (541000, 16.5), "03_cuda_naive/dense_transposed": (82400, 2.51), "05_cuda_csr/mine": (30000, 4)}
        recorded = {line.split("\t")[0]: line.split("\t") for line in (ROOT / "data/records.tsv").read_text().splitlines()}
        _, time, _, machine, matrix, _ = recorded["03_cuda_naive/dense_row_major"]

        def change(data):
            row = next(row for row in data["results"] if row["status"] == "good" and not row["peer"])
            del row["seconds"]
            data["results"] = [{**row, "entry": entry, "simulated": True, "checked": True, "problem": {**row["problem"], "matrix": of}, "metrics": {
                name: {"value": value, "unit": ""} for name, value in (("asked_of_L1", asked), ("sectors_a_nonzero", sectors), ("busiest_warp", 9), ("warp_over_mean", 2.25),
                                                                       ("at_least_seconds", 2.46e-6))}}
                for of in (matrix, row["problem"]["matrix"]) for entry, (asked, sectors) in entries.items()]
        plain = self.plainly("ladder-0", self.page(self.changed("asked.json", change))[0])
        self.assertIn("05 mine asks L1 for least, 30 kB; 03 dense_row_major for 18.0 times as much", plain)
        self.assertIn("has 2.25 times", plain)
        row = f"541 kB 16.5 9 2.25 2.46 us {float(time) * 1e6:.1f} us {machine}"
        self.assertEqual([plain.count(row), plain.count("541 kB 16.5 9 2.25 2.46 us")], [1, 2], "a time of another matrix")
        self.assertIn("Nothing was timed here", plain)

    def test_at_a_glance(self):
        """All figures of a line are of the entry that it names: fast is the fastest on two of three, and there is none before plain on all."""
        times = {"a": {"plain": 4, "fast": 1, "other": 2, "library": 2}, "b": {"plain": 4, "fast": 2, "other": 1, "library": 1},
                 "c": {"dense": 100, "plain": 4, "fast": 1, "other": 2, "library": 2}}

        def change(data):
            row = next(r for r in data["results"] if "seconds" in r)
            data["results"] = []
            for matrix, of in times.items():
                for entry, median in of.items():
                    one = copy.deepcopy(row) | {"entry": f"01_cpu_serial/{entry}", "peer": entry == "library"}
                    one["problem"]["matrix"] = matrix
                    one["seconds"]["run"].update(median=median)
                    data["results"].append(one)
            data["results"].append(copy.deepcopy(data["results"][-1]) | {"entry": "01_cpu_serial/huge", "status": "skipped", "reason": "needs a moon"})
            del data["results"][-1]["seconds"]
        text = self.page(self.changed("glance.json", change))[0]
        gains, ratios = (4 * 2 * 4) ** (1 / 3), (2 * 0.5 * 2) ** (1 / 3)
        self.assertRegex(self.plainly("glance", text), rf"3 01_cpu_serial/fast first: 01_cpu_serial/plain {gains:.2f}x {ratios:.2f}x 2 of 3$")
        folded = text[text.index("<summary>1 entry skipped</summary>"):]
        self.assertIn("needs a moon", folded[:folded.index("</details>")])
        self.assertEqual(text.count("needs a moon"), 1)

    def test_over_a_parameter(self):
        """A line for each value of the others, with the rule's choice on it; such entries are in no ladder."""
        text, page = self.page(self.samples.swept(self.everyday))
        section = text[text.index('<section id="sweeps">'):text.index('<section id="roofline">')]
        plain = self.plainly("sweeps", text)
        self.assertEqual(section.count("<figure"), 2)
        self.assertIn("chunk = 256 is 2.00x as fast as its 128.", plain)
        rows = [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in re.findall(r"<tr>(.*?)</tr>", section, re.DOTALL)]
        cells = lambda row: [" ".join(cell.split()) for cell in row]
        self.assertEqual([(row[-4], row[-2], row[-1]) for row in map(cells, rows) if len(row) == 7],
                         [("32", "0.50x", ""), ("128", "1.00x", "the rule"), ("256", "2.00x", ""), ("32", "", "")])
        self.assertEqual(section.count("M 0 5.5"), 1, "one ring: of the line without other values")
        self.assertNotIn("chunk=", self.plainly("ladder-0", text))
        self.assertNotIn("sweeps", self.page(self.everyday)[1].sections)

    def test_nothing_timed(self):
        def change(data):
            for row in data["results"]:
                row.pop("seconds", None)
                row.update(status="good", simulated=True)
        text, page = self.page(self.changed("simulated.json", change, self.everyday))
        self.assertEqual(page.sections, ["where"])
        self.assertIn("checked, not timed", text)

    def test_names_that_look_like_markup(self):
        name = '</svg><script>alert(1)</script> $x^2$ "&'
        path = self.changed("markup.json", lambda data: [row["problem"].update(matrix=name + row["problem"]["matrix"][-12:])
                                                         for row in data["results"]], self.everyday)
        self.assertNotIn("<script>alert", self.page(path)[0])

    def test_matrices(self):
        text, page = self.page(self.everyday, "--program", PROGRAM)
        self.assertIn("matrices", page.sections)
        self.assertEqual(text.count('class="spy"'), 3)
        # Without the option the program of the checkout is asked, of small matrices; --program is asked of all, and in its place.
        beside = self.directory / "builds/cpu/bin/stages"
        beside.parent.mkdir(parents=True)
        beside.symlink_to(PROGRAM)
        self.addCleanup(beside.unlink)
        large = self.changed("large.json", lambda d: [r["problem"].update(nnz=3_000_000) for r in d["results"] if "rmat" in r["problem"]["matrix"]], self.everyday)
        for words, drawn in (((self.everyday,), 3), ((large,), 2), ((large, "--program", PROGRAM), 3), ((large, "--program", self.directory / "none"), 0)):
            self.assertEqual(self.page(*words)[0].count('class="spy"'), drawn, words)
        self.assertIn("144 x 144", text)

    def test_pictures_of_files(self):
        """A symmetric pattern shows both halves; a file that is gone has no picture, and the page is made."""
        from report import matrices
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        path = self.directory / "arrow.mtx"
        for file in (path, pathlib.Path("-x.mtx")):  # whose name is no option
            file.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n3 3 3\n1 1\n2 1\n3 1\n")
            self.assertIn('d="M0 0h3M0 1h1M0 2h1"', matrices.ask(str(PROGRAM), str(file))["picture"])
        results = self.samples.run("arrow.json", "-m", str(path), "--stage", "01")
        path.unlink()
        _, page = self.page(results, "--program", PROGRAM)
        self.assertNotIn("matrices", page.sections)
        self.assertRegex(self.said.stderr, r"^report: no picture of .*arrow\.mtx: .*No such file")
        self.page(self.small, "--program", self.directory / "none")
        self.assertIn("cannot be run: No such file", self.said.stderr)


class Comparison(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.old = cls.scaled("old.json", 1, "^$")
        cls.entries = [r["entry"] for r in json.loads(cls.everyday.read_text())["results"] if "seconds" in r]

    @classmethod
    def scaled(cls, name, factor, which=".", noise=0.005, processes=3, busy=None, controls=1, code="01_cpu_serial=1"):
        """The everyday results, known to `noise`, with the times of the entries that `which` finds times `factor`, and of libraries times `controls` (0: there are none).
        `busy`: the device is for so large a part of the time that all had without that. `code`: the steps, each with a digest."""
        def change(data):
            data["context"]["code"] = code
            for row in data["results"]:
                row["peer"] = row["peer"] and controls > 0
                if "seconds" in row:
                    run, was = row["seconds"]["run"], row["seconds"]["run"]["median"]
                    median = was * (controls if row["peer"] else factor if re.search(which, row["entry"]) else 1)
                    run.update(median=median, noise=noise, processes=[median] * processes)
                    row["seconds"].pop("busy", None)
                    if busy:
                        row["seconds"]["busy"] = {"median": was * busy, "noise": noise}
        return cls.samples.changed(name, cls.everyday, change)

    def compared(self, new, *words, old=None):
        """The page, and how many entries have each verdict."""
        text, _ = self.page("--compare", old or self.old, new, *words)
        return text, {verdict: int(n) for n, verdict in re.findall(r"(\d+) (faster|slower|within the noise|unsteady|no verdict|control)", self.said.stdout) if n != "0"}

    def test_verdicts(self):
        libraries = sum(entry.startswith("vendor/") for entry in self.entries)
        every, some = len(self.entries) - libraries, self.entries.count("01_cpu_serial/csr_spmv")
        of_01 = sum(entry.startswith("01_") for entry in self.entries)
        self.assertGreaterEqual(libraries, 5)
        faster, by_5 = self.scaled("new.json", 0.7, "csr_spmv$"), self.scaled("by_5.json", 0.95)
        same = {"within the noise": every}
        for new, old, words, expected in (
                (faster, None, (), {"faster": some, "within the noise": every - some}), (self.old, faster, (), {"slower": some, "within the noise": every - some}),
                (self.old, None, (), same), (by_5, None, (), {"faster": every}), (by_5, None, ("--least", "10"), same),
                # Within what is known of both times, or within what the controls moved by, to either side.
                (self.scaled("wide.json", 0.97, noise=0.04), self.scaled("old_wide.json", 1, noise=0.04), (), same),
                (self.scaled("moved.json", 0.95, controls=1.1), None, (), same), (self.scaled("more.json", 0.85, controls=1.1), None, (), {"faster": every}),
                (self.scaled("unsteady.json", 0.5, noise=0.06), None, (), {"unsteady": every}),
                # Of one process each: by controls, of which there must be some.
                (self.scaled("one.json", 0.95, processes=0, controls=0), self.scaled("old_one.json", 1, processes=0), (),
                 {"no verdict": every + libraries, "control": 0}),
                (self.scaled("one_moved.json", 0.95, processes=0, controls=1.02), self.scaled("old_one.json", 1, processes=0), (), {"faster": every}),
                (self.scaled("others.json", 0.95, "^(?!.*csr_spmv$)"), None, ("--controls", "csr_spmv$"), {"faster": every - some, "control": libraries + some}),
                # A step that did not change is a control where another did.
                (self.scaled("same.json", 0.5, code="01_cpu_serial=1 02_mpi=3"), self.scaled("old_same.json", 1, code="01_cpu_serial=1 02_mpi=2"), (),
                 {"within the noise": every - of_01, "control": libraries + of_01}),
                # The device's time decides where it is known of both; of a host-bound row the other's whole time says nothing.
                (self.scaled("busy.json", 0.5, busy=0.9), self.scaled("old_busy.json", 1, busy=0.9), (), same),
                (self.scaled("less_busy.json", 1, busy=0.8), self.scaled("old_busy.json", 1, busy=0.9), (), {"faster": 0, "within the noise": every}),
                (self.scaled("host_bound.json", 0.5, busy=0.2), None, (), {"no verdict": every})):
            with self.subTest(new=new.name, words=words):
                text, found = self.compared(new, *words, old=old)
                self.assertEqual(found.get("control", 0), expected.pop("control", libraries))
                found.pop("control", 0)
                self.assertEqual(found, {verdict: n for verdict, n in expected.items() if n})
                self.assertEqual("1.429x" in text, new == faster)

    def test_wrong_now(self):
        text, _ = self.compared(self.changed("broken.json", wrong("element (3, 0) is 1, expected 2"), self.everyday), old=self.everyday)
        self.assertIn("1 wrong or failed now", self.said.stdout)
        self.assertIn("element (3, 0) is 1, expected 2", text)

    def test_other_machines_are_named(self):
        for before, now, what in (({}, {"cpu": "Another CPU"}, "machine"), ({}, {"gpu_launch": "graph"}, "way of launching"),
                                  ({"gpu_driver": "1.1"}, {"gpu_driver": "1.2"}, "driver"), ({"cusparse": "1.1"}, {"cusparse": "1.2"}, "version of cuSPARSE"),
                                  ({}, {"command": "stages run --cache cold"}, "state of the caches")):
            old, new = (self.changed(f"{name}.json", lambda data: data["context"].update(context), self.everyday) for name, context in (("before", before), ("now", now)))
            text, _ = self.compared(new, old=old)
            self.assertEqual(re.findall("The ([a-zA-Z ]+) differs", text), [what])


class BadInput(Case):
    """One line that says what, where and how to mend it; exit 2; nothing half-written."""

    def refused(self, expected, *words, out=None):
        self.refuses(lambda: self.samples.report(*words, "-o", out or self.directory / "refused.html"), "report: error: ", expected)

    def test_usage(self):
        self.all_refused(("no results are given",), ("unrecognized arguments: --bogus", "--bogus", self.everyday),
                         ("expected 2 arguments", "--compare", self.everyday),
                         ("--least", self.everyday, "--least", "-1"), ("--least", self.everyday, "--least", "nan"))

    def test_files(self):
        self.refused(r"none\.json: cannot be read: No such file", self.directory / "none.json")
        self.refused("Is a directory", self.directory)
        path = self.directory / "bad.json"
        for expected, text in ((r"bad\.json:1: is no JSON", b""), (r"bad\.json:2: is no JSON", b'{"schema_version": 1,\n'),
                               (r"bad\.json: is no text \(byte 1\)", b"{\xff"),
                               ("must be an object", b"[]"), ("'schema_version' is missing", b"{}"),
                               ("'NaN' is no number", b'{"schema_version": NaN}'),
                               ("nested too deeply|is no JSON", b"[" * 100000),
                               # Beyond every double; beyond what Python reads.
                               *((f"bad\\.json:1: is no JSON: a whole number of {digits} digits", b'{"schema_version": ' + digits * b"1" + b"}")
                                 for digits in (309, 5000))):
            path.write_bytes(text)
            self.refused(expected, path)

    def test_fields(self):
        timed = lambda data: next(r for r in data["results"] if "seconds" in r)
        run = lambda data: timed(data)["seconds"]["run"]
        for expected, change in (
                ("has schema_version 2, this report reads 1", lambda d: d.update(schema_version=2)),
                ("holds no results", lambda d: d.update(results=[])),
                ("'results' must be a list", lambda d: d.update(results={})),
                ("'context' must be an object", lambda d: d.update(context=3)),
                ("'cpu' is missing", lambda d: d["context"].pop("cpu")),
                (r"results\[1\]: the field 'entry' is missing", lambda d: d["results"][1].pop("entry")),
                (r"results\[0\]\.problem: 'nnz' must be a whole number, and is \"many\"", lambda d: d["results"][0]["problem"].update(nnz="many")),
                (r"results\[0\]\.problem: 'nnz' must be a whole number, and is null", lambda d: d["results"][0]["problem"].update(nnz=None)),
                (r"'ranks' must be at least 0, and is -1", lambda d: d["results"][0].update(ranks=-1)),
                (r"'copy_bandwidth_bytes_per_second' must be a number, and is 'fast'", lambda d: d["context"].update(copy_bandwidth_bytes_per_second="fast")),
                ("no operation 'spxx'", lambda d: d["results"][0]["problem"].update(operation="spxx")),
                (r"results\[1\]: there is no status 'doubtful'", lambda d: d["results"][1].update(status="doubtful")),
                ("is wrong, and has times", lambda d: timed(d).update(status="wrong")),
                ("must hold numbers only", lambda d: run(d).update(samples=[1, "2"])),
                ("must be more than 0", lambda d: run(d).update(median=0)),
                ("must be more than 0", lambda d: run(d).update(samples=[])),
                ("'median' must be a number", lambda d: run(d).update(median=True)),
                ("'steps' must be a list", lambda d: d.update(steps=1)),
                (r"steps\[0\]: the field 'step' is missing", lambda d: d.update(steps=[{}])),
                (r"steps\[0\]\.best: 'outcome' must be a text", lambda d: d.update(steps=[
                    {name: "x" for name in ("step", "matrix", "options", "record", "missing")}
                    | {end: {"entry": "x", "outcome": 1 if end == "best" else "x", "seconds": None, "recorded_seconds": None} for end in ("plainest", "best")}]))):
            with self.subTest(expected):
                self.refused(expected, self.samples.changed("bad.json", self.everyday, change))

    def test_records(self):
        """What is damaged in a record, by hand or by a merge, is told."""
        kept = self.directory / "record.json"
        kept.write_text(self.everyday.read_text())
        record.pack(kept)
        first = lambda data: next(row for row in data["results"] if "times" in row)
        for expected, change in (
                ("bad.json: is no whole record", lambda d: first(d).update(problem=99)), ("is no whole record", lambda d: first(d)["times"].pop()),
                ("is no whole record", lambda d: d["entries"].pop(first(d)["entry"])), ("is no whole record", lambda d: d.pop("times")),
                ("is no whole record", lambda d: first(d)["times"].__setitem__(0, "1 s")),
                ("is wrong, and has times", lambda d: first(d).update(status="wrong"))):
            with self.subTest(expected):
                self.refused(expected, self.samples.changed("bad.json", kept, change))

    def test_nothing_in_common(self):
        other = self.samples.changed("apart.json", self.everyday, lambda d: [r["problem"].update(matrix="elsewhere") for r in d["results"]])
        self.refused("have no timed entry on the same problem in common", "--compare", self.everyday, other)

    def test_output(self):
        """What was there stays: a file, also one that may not be written; a device stays one; a link is followed."""
        page, link, full = (self.directory / name for name in ("page.html", "link.html", "full"))
        page.write_text("old")
        link.symlink_to(page)
        full.symlink_to("/dev/full")
        (self.directory / "empty.json").write_text("")
        for expected, out in (("cannot be written: No such file", self.directory / "nowhere" / "page.html"), ("is a directory", self.directory),
                              ("full: cannot be written: No space left", full)):
            self.refused(expected, self.small, out=out)
        self.refused("is no JSON", self.small, self.directory / "empty.json", out=page)
        if os.geteuid() != 0:  # who may write everything
            page.chmod(0o444)
            self.refused("cannot be written: Permission denied", self.small, out=page)
            page.chmod(0o644)
        self.assertEqual((page.read_text(), full.is_char_device()), ("old", True))
        done = self.samples.report(self.small, "-o", link)
        self.assertEqual((done.returncode, link.is_symlink()), (0, True), done.stderr)
        self.assertIn("<html", page.read_text())

    def test_other_records(self):
        other = self.directory / "other.json"
        other.write_text('{"schema_version": 1, "steps": []}')
        self.refused("other.json: is no record of a run", other)
        self.refused("other.json: is no record of a run", "--compare", self.everyday, other)
        out = self.directory / "page.html"
        done = self.samples.report(self.small, other, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "^report: left out: .*other.json: is no record of a run: it has neither 'context' nor 'results'\n$")
        self.assertNotIn("other.json", out.read_text())

class Pictures(unittest.TestCase):
    def test_coordinates_are_cut_and_labels_are_not(self):
        from report import pictures
        text = pictures._for_the_page('<svg width="1pt" viewBox="0 0 1 1"><path d="M 1.23456 2.34567"/><text x="3.45678">0.0625</text></svg>', "p", "")
        self.assertIn('<path d="M 1.23 2.34"/>', text)
        self.assertIn('<text x="3.45">0.0625</text>', text)

    def test_ticks_are_round_and_have_room(self):
        from report import pictures
        for most in (3, 5):
            for low, high in ((-4.217, -3.87), (1.85, 2.11), (0, 2), (-6, -3.9), (0.4, 0.41), (-1, 7)):
                ticks = pictures.log_ticks(low, high, most)
                self.assertIn(len(ticks), range(1, most + 1), (low, high))
                for before, after in zip(ticks, ticks[1:]):
                    self.assertGreater(math.log10(after / before), (high - low) / (most + 1), (most, low, high))
                for tick in ticks:
                    self.assertAlmostEqual(float(f"{tick:.3g}"), tick)


if __name__ == "__main__":
    main()
