#!/usr/bin/env python3
"""The report in a real browser: headless Chromium opens the page at two widths, sorts its tables, chooses its pictures. The
pages of the lens, too.

The tests put two scripts into a copy of the page. The first forbids everything that is not in the page itself, and notes
what was refused and what the console was told; the second clicks, looks, and leaves what it saw in the document, which
Chromium then prints. Exit code 77 where there is no Chromium, no matplotlib or no jinja2.
"""

import html
import json
import re
import shutil
import subprocess
import tempfile

from samples import LIMIT, PROGRAM, Case, main

BROWSER = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
DESK, PHONE = 1200, 390

GUARD = """<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<script>
window.seen = { errors: [], requests: [] };
addEventListener("error", (event) => seen.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => seen.requests.push(event.blockedURI));
for (const level of ["error", "warn"]) console[level] = (...words) => seen.errors.push(words.join(" "));
</script>"""

LOOK = """<script>
setTimeout(() => {
  const column = (table, k) => [...table.tBodies[0].rows].map((row) => row.cells[k].dataset.value ?? row.cells[k].textContent);
  const shown = (element) => element.getClientRects().length > 0;
  seen.tables = [...document.querySelectorAll("table.sortable")].map((table) => {
    const rows = table.tBodies[0].rows.length;
    return [...table.tHead.rows[0].cells].map((head, k) => {
      const button = head.querySelector("button");
      if (!button) return null;
      button.click();
      const up = [column(table, k), head.getAttribute("aria-sort")];
      button.click();
      const down = [column(table, k), head.getAttribute("aria-sort")];
      return { up, down, complete: table.tBodies[0].rows.length === rows, sorted: table.querySelectorAll("[aria-sort]").length };
    });
  });
  seen.choices = [...document.querySelectorAll(".choose select")].map((select) => {
    const figures = [...select.closest("section").querySelectorAll("figure.chosen")];
    return figures.map((_, k) => {
      select.selectedIndex = k;
      select.dispatchEvent(new Event("change"));
      return figures.map(shown);
    });
  });
  seen.pictures = [...document.querySelectorAll(".picture")].filter(shown).length;
  seen.width = [document.documentElement.scrollWidth, innerWidth];
  seen.cutBoxes = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth + 1).length;
  seen.scrolling = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollHeight > box.clientHeight + 1).length;
  seen.ink = getComputedStyle(document.body).color;
  seen.strokes = [...new Set([...document.querySelectorAll(".picture text")].filter(shown).map((text) => getComputedStyle(text).fill))];
  const size = [...document.querySelectorAll(".picture text")].filter(shown).map((text) => text.getBoundingClientRect().height);
  seen.smallest = size.length ? Math.min(...size) : 0;
  seen.cut = [...document.querySelectorAll(".picture text")].filter(shown).filter((text) => {
    const [a, b] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
    return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 2 || a.bottom > b.bottom + 2;
  }).map((text) => text.textContent);
  const lines = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size;
  };
  seen.broken = [...document.querySelectorAll("table.sortable td:not(.text)")].filter((cell) => shown(cell) && !cell.querySelector("small") && lines(cell) > 1)
    .map((cell) => cell.textContent);
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}, 200);
</script>"""


# A window is never narrower than 500 pixels; a frame in it is.
FRAME = """<!DOCTYPE html><iframe src="looked-at.html" style="width: WIDTHpx; height: 1000px; border: 0"></iframe><script>
const wait = setInterval(() => {
  const seen = document.querySelector("iframe").contentDocument.querySelector("#seen");
  if (!seen) return;
  clearInterval(wait);
  document.body.append(document.importNode(seen, true));
}, 100);
</script>"""


class Looked(Case):
    """A page that is looked at, `text`; `looks`: what was seen in it."""

    def open(self, width, text=None, *flags):
        """What the scripts saw in the page at that width."""
        text = text or self.text
        self.assertIn("<head>", text)
        path = self.directory / "looked-at.html"
        path.write_text(text.replace("<head>", "<head>" + GUARD, 1).replace("</body>", LOOK + "</body>", 1))
        if width < 500:
            path = self.directory / "frame.html"
            path.write_text(FRAME.replace("WIDTH", str(width)))
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
                                   "--allow-file-access-from-files", f"--window-size={max(width, 500)},1000", "--virtual-time-budget=10000", *flags,
                                   "--dump-dom", path.as_uri()],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
        self.assertTrue(found, f"the page did not end its look:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return json.loads(html.unescape(found.group(1)))

    def good(self, width, *flags):
        """What the scripts saw in the page as it is, in which nothing may be wrong. Looked at once each."""
        if (width, *flags) not in self.looks:
            self.looks[(width, *flags)] = self.open(width, None, *flags)
        seen = self.looks[(width, *flags)]
        self.assertEqual(seen["errors"], [])
        self.assertEqual(seen["requests"], [])
        self.assertLessEqual(seen["width"][0], seen["width"][1], "the page is wider than the window")
        self.assertEqual(seen["width"][1], width)
        return seen


class Browser(Looked):
    looks = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        samples, page = cls.samples, cls.directory / "page.html"
        everyday, ranks = samples.everyday(), samples.ranks()
        done = samples.report(everyday, samples.swept(everyday), *([ranks] if ranks else []), "--compare", everyday, everyday, "--program", PROGRAM, "-o", page)
        assert done.returncode == 0, done.stderr
        cls.text = page.read_text()

    def test_tables_sort(self):
        seen = self.good(DESK)
        self.assertGreater(len(seen["tables"]), 8)
        numbers = 0
        for head in (head for table in seen["tables"] for head in table if head):
            self.assertEqual((head["complete"], head["sorted"]), (True, 1))
            for (cells, told), word, reverse in ((head["up"], "ascending", False), (head["down"], "descending", True)):
                self.assertEqual(told, word)
                try:
                    values = [float(c) for c in cells]
                except ValueError:
                    continue  # texts: their order is the browser's
                known = [v for v in values if v == v]
                self.assertEqual(known, sorted(known, reverse=reverse))
                self.assertTrue(all(v != v for v in values[len(known):]), "what is unknown comes last")
                numbers += 1
        self.assertGreater(numbers, 40)

    def test_one_picture_at_a_time(self):
        seen = self.good(DESK)
        self.assertGreater(len(seen["choices"]), 2)
        for choice in seen["choices"]:
            for k, shown in enumerate(choice):
                self.assertEqual(shown, [i == k for i in range(len(shown))])

    def test_at_two_widths(self):
        """Every picture is there, its letters can be read and are not cut off, and numbers stay on one line."""
        for width in (DESK, PHONE):
            seen = self.good(width)
            self.assertGreater(seen["pictures"], 8)
            self.assertGreater(seen["smallest"], 9)
            self.assertEqual((seen["cut"], seen["broken"]), ([], []))
        self.assertEqual(seen["scrolling"], 0, "on a phone a box scrolls within the page that scrolls")

    def test_dark(self):
        light, dark = self.good(DESK), self.good(DESK, "--force-dark-mode")
        self.assertEqual(light["ink"], "rgb(28, 33, 39)")
        self.assertEqual(dark["ink"], "rgb(230, 233, 237)")
        self.assertIn(dark["ink"], dark["strokes"])
        self.assertNotIn(light["ink"], dark["strokes"])

    def test_faults_are_seen(self):
        """The checks above can fail."""
        def with_(fault, width=DESK, before="</main>"):
            return self.open(width, self.text.replace(before, fault + before))
        self.assertIn("https://example.org/picture.png", with_('<img src="https://example.org/picture.png">')["requests"])
        self.assertEqual(len(with_('<link rel="stylesheet" href="style.css">', before="</head>")["requests"]), 1)
        self.assertEqual(len(with_("<script>nothing.there()</script>")["errors"]), 1)
        self.assertEqual(with_("<script>console.error('lost')</script>")["errors"], ["lost"])
        wide = with_('<div style="width: 900px">wide</div>', PHONE)
        self.assertGreater(wide["width"][0], wide["width"][1])
        place = self.text.index("</svg>", self.text.index('"picture"'))
        cut = self.open(DESK, self.text[:place] + '<text x="2000" y="10">beyond</text>' + self.text[place:])
        self.assertEqual(cut["cut"], ["beyond"])
        wrapped = ('<div style="width: 1px"><table class="sortable"><thead><tr><th></th></tr></thead>'
                   '<tbody><tr><td style="white-space: normal">1 2</td></tr></tbody></table></div>')
        self.assertEqual(with_(wrapped)["broken"], ["1 2"])


class Pages(Looked):
    """The pages of `stages lens`."""

    looks = {}

    def test_lens(self):
        """A drawing for each line."""
        if ", cpu)" not in subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout:
            self.skipTest("no kernels on the executor")
        page = self.directory / "lens.html"
        entries = ["04_cuda_shared/shared_vector_and_row", "08_spgemm_multigpu/hash_warp_per_row"]
        subprocess.run([PROGRAM, "lens", *entries, "-m", "gen:fixed:n=256,per_row=8", "--html", page], stdout=subprocess.DEVNULL, check=True)
        text = self.text = page.read_text()
        for width in (DESK, PHONE):
            self.assertEqual(self.good(width)["cutBoxes"], 0, "source that is cut off")
        rows, drawings = text.count("<tr class=hot"), text.count("<details>")
        self.assertGreater(rows, 20)
        self.assertEqual(drawings, rows)
        # A store of 32 neighbours is four sectors, of which each lane has a piece.
        self.assertIn("".join("<div>" + "".join(f"<i class=lane>{lane}</i>" for lane in range(first, first + 8)) + "</div>"
                              for first in (0, 8, 16, 24)), text)
        # Source that is not broken into lines is cut off on a phone, and without its frame makes the page wider than that.
        self.assertIn("pre-wrap", text)
        whole = text.replace("pre-wrap", "pre")
        self.assertGreater(self.open(PHONE, whole)["cutBoxes"], 0)
        seen = self.open(PHONE, whole.replace("<div class=scroll>", "<div>"))
        self.assertGreater(seen["width"][0], seen["width"][1])


if __name__ == "__main__":
    main("" if BROWSER else "there is no chromium; install it (Debian: chromium)")
