#!/usr/bin/env python3
"""Writes the files that `stages new` makes, as they are and with the holes filled as a student would.

usage: make_steps.py TEMPLATES DIRECTORY

TEMPLATES is common/suite/templates. For each template KIND.in, DIRECTORY gets 10_KIND (the file as made, step 10_spmv_cu and
so on) and 20_KIND (filled).
"""

import pathlib
import sys

SPMV_ROW = "for (auto p = a.row_ptr[{row}]; p < a.row_ptr[{row} + 1]; ++p) sum += a.values[p] * {operand};"

# A row of C on a device without any memory of its own: the least column beyond the last one, again and again.
COLUMNS = """
template <class T, class PtrA, class PtrB, class Visit>
__device__ void for_each_column(const CsrView<T, PtrA>& a, const CsrView<T, PtrB>& b, unsigned row, Visit visit) {
  for (Index last = -1;;) {
    Index next = b.cols;
    T sum = 0;
    for (PtrA p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) {
      for (PtrB q = b.row_ptr[a.col_idx[p]]; q < b.row_ptr[a.col_idx[p] + 1]; ++q) {
        const Index j = b.col_idx[q];
        if (j <= last || j > next) continue;
        if (j < next) sum = 0;
        next = j;
        sum += a.values[p] * b.values[q];
      }
    }
    if (next == b.cols) return;
    visit(next, sum);
    last = next;
  }
}
"""

HOST_ROW = """
      std::map<Index, T> row;
      for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
        for (Offset q = b.row_ptr[a.col_idx[p]]; q < b.row_ptr[a.col_idx[p] + 1]; ++q)
          row[b.col_idx[q]] += a.values[p] * b.values[q];
      }
      for (const auto& [j, value] : row) {
        c.col_idx.push_back(j);
        c.values.push_back(value);
      }
"""

# What replaces the holes of each template, in their order.
FILLED = {
    "spmv.cu": [SPMV_ROW.format(row="row", operand="x[a.col_idx[p]]")],
    "spmm.cu": [SPMV_ROW.format(row="i", operand="b(a.col_idx[p], j)")],
    "spmv.cpp": [SPMV_ROW.format(row="i", operand="x[a.col_idx[p]]")],
    "spmm.cpp": [SPMV_ROW.format(row="i", operand="b(a.col_idx[p], j)")],
    "spgemm.cpp": [HOST_ROW],
    "spgemm.cu": [
        "for_each_column(a, b, row, [&](Index, T) { ++sum; });",
        "Offset to = row_ptr[row];\n"
        "  for_each_column(a, b, row, [&](Index j, T sum) { col_idx[to] = j; values[to++] = sum; });",
    ],
}


def named(text, step, entry):
    """The text of a template with the names of a step, as `stages new` gives them."""
    capitals = "".join(part.capitalize() for part in entry.split("_"))
    for name, value in (("@STEP@", step), ("@ENTRY@", entry), ("@CLASS@", capitals)):
        text = text.replace(name, value)
    return text


def filled(text, holes):
    lines = []
    holes = list(holes)
    for line in text.splitlines():
        if line.strip().startswith("// Yours:"):
            lines.append(holes.pop(0))
        else:
            lines.append(line)
    assert not holes, "the template has fewer holes than there are solutions"
    text = "\n".join(lines) + "\n"
    text = text.replace("namespace {\n", "namespace {\n" + COLUMNS, 1) if "for_each_column" in text else text
    return text.replace('#include "common', '#include <map>\n#include "common', 1)


def main(templates, directory):
    for kind, holes in FILLED.items():
        text = (pathlib.Path(templates) / f"{kind}.in").read_text()
        assert text.count("// Yours:") == len(holes), kind
        entry = kind.replace(".", "_")
        made = pathlib.Path(directory) / f"10_{kind}"
        made.write_text(named(text, f"10_{entry}", entry))
        solved = pathlib.Path(directory) / f"20_{kind}"
        solved.write_text(filled(named(text, f"20_{entry}", entry), holes))


if __name__ == "__main__":
    main(*sys.argv[1:])
