"use strict";
// Sorting: the rows of a table by one column, by number where its cells carry one. What is unknown stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value === undefined) return cell.textContent.trim() || null;
    const value = cell.dataset.value === "inf" ? Infinity : Number(cell.dataset.value);
    return Number.isNaN(value) ? null : value;
  };
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row, column) }));
      rows.sort((a, b) => {
        if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
        return down ? order(b.key, a.key) : order(a.key, b.key);
      });
      table.tBodies[0].append(...rows.map(({ row }) => row));
    });
  });
}
// Where figures differ by a matrix, one is shown at a time. On paper, and without this script, all are.
for (const select of document.querySelectorAll(".choose select")) {
  const figures = [...select.closest("section").querySelectorAll("figure.chosen")];
  const show = () => figures.forEach((figure, k) => (figure.hidden = k !== select.selectedIndex));
  select.addEventListener("change", show);
  show();
}
