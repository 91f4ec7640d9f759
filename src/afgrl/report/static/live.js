"use strict";
// What only the explorer has: filters, the selection and its export, any number of neighbors.

const LISTED = 200; // ids of a selection that are written out
const CHOICES = 200; // values of a category that can be ticked

// A filter keeps rows: values of a category, or a range of numbers. Rows without a value pass only if it is unset.
function passes(filter, row) {
  const { column } = filter;
  if (column.kind === "number") {
    const number = column.numbers[row];
    return number >= filter.from && number <= filter.to;
  }
  return filter.codes.has(column.codes[row]);
}

function filterPanel(run, changed) {
  const filters = new Map();
  const apply = (column, filter) => {
    if (filter) filters.set(column, filter);
    else filters.delete(column);
    changed((row) => Array.from(filters.values()).every((own) => passes(own, row)));
  };
  const parts = run.columns.map((column) =>
    make(
      "details",
      { class: "filter" },
      make("summary", {}, brief(column.name, 40)),
      column.kind === "number" ? rangeFilter(column, apply) : valueFilter(column, apply),
    ),
  );
  return make(
    "section",
    { id: "filters", "aria-label": "Filters" },
    make("h3", {}, "Filter"),
    parts.length ? parts : make("p", { class: "note" }, "The nodes have no columns to filter by."),
  );
}

function rangeFilter(column, apply) {
  let low = Infinity,
    high = -Infinity;
  for (const number of column.numbers) {
    if (number < low) low = number;
    if (number > high) high = number;
  }
  const box = (name, empty) =>
    make("input", { type: "number", step: "any", placeholder: figure(empty), "aria-label": `${column.name} ${name}` });
  const from = box("at least", low),
    to = box("at most", high);
  const typed = () => {
    const set = from.value !== "" || to.value !== "";
    apply(
      column,
      set && {
        column,
        from: from.value === "" ? low : Number(from.value),
        to: to.value === "" ? high : Number(to.value),
      },
    );
  };
  from.addEventListener("change", typed);
  to.addEventListener("change", typed);
  return make("div", { class: "range" }, from, make("span", {}, "to"), to);
}

function valueFilter(column, apply) {
  const codes = new Set();
  const tick = (code) => (event) => {
    if (event.target.checked) codes.add(code);
    else codes.delete(code);
    apply(column, codes.size && { column, codes });
  };
  const choice = (value, code) =>
    make("label", {}, make("input", { type: "checkbox", change: tick(code) }), brief(value, 40));
  const shown = column.values.slice(0, CHOICES).map(choice);
  const rest = column.values.length - shown.length;
  const nothing = column.codes.includes(column.values.length) ? [choice("no value", column.values.length)] : [];
  return make(
    "div",
    { class: "choices" },
    shown,
    nothing,
    rest > 0 ? make("p", { class: "note" }, `${count(rest)} rarer values are not listed.`) : null,
  );
}

// The selection: by box or lasso on the map; without one, all that the filters show.
function selectionPanel(run, choose, clear) {
  const list = make("ul", { class: "selected" });
  const summary = make("p", { class: "note", "aria-live": "polite" });
  const format = make(
    "select",
    { "aria-label": "Format" },
    make("option", { value: "csv" }, "CSV"),
    make("option", { value: "parquet" }, "Parquet"),
  );
  const vectors = make("input", { type: "checkbox", id: "with-vectors" });
  const said = make("p", { class: "note", id: "exported", "aria-live": "polite" });
  const state = { rows: [] };
  const save = button("Export", { id: "export" }, () =>
    exportRows(state.rows, format.value, vectors.checked).then(
      (sentence) => {
        said.textContent = sentence;
      },
      (error) => complain(error.message),
    ),
  );
  const forget = button("Clear", { id: "clear", hidden: true }, clear);
  const show = (selected, visible) => {
    state.rows = selected ?? visible;
    const listed = selected?.length > LISTED ? ` The first ${LISTED} are listed.` : "";
    summary.textContent = selected
      ? `${plural(selected.length, "node")} selected.${listed}`
      : `None, so all ${plural(visible.length, "node")} shown would be exported. A box or a lasso on the map selects.`;
    forget.hidden = !selected;
    save.disabled = !state.rows.length;
    list.replaceChildren(
      ...(selected ?? []).slice(0, LISTED).map((row) =>
        make(
          "li",
          {},
          button(brief(run.ids[row], 30), { class: "chip" }, () => choose(run.ids[row])),
        ),
      ),
    );
    said.textContent = "";
  };
  const element = make(
    "section",
    { id: "selection", "aria-label": "Selection" },
    make("h3", {}, "Selection"),
    summary,
    list,
    make("div", { class: "export" }, format, make("label", {}, vectors, "with vectors"), save, forget),
    said,
  );
  return { element, show };
}

async function exportRows(rows, format, vectors) {
  const answer = await fetch("/api/export", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ rows: Array.from(rows), format, vectors }),
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  const link = make("a", { download: `selection.${format}` });
  link.href = URL.createObjectURL(await answer.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  const guarded = Number(answer.headers.get("X-Guarded-Cells"));
  const note = guarded
    ? ` ${plural(guarded, "cell")} that a spreadsheet would compute got an apostrophe in front.`
    : "";
  return `${plural(rows.length, "row")} exported.${note}`;
}

function countOfNeighbors(wanted, changed) {
  const box = make("input", {
    type: "number",
    min: "1",
    max: "100",
    value: String(wanted),
    id: "how-many",
    "aria-label": "Number of nearest nodes",
  });
  box.addEventListener("change", () => {
    if (box.reportValidity()) changed(Number(box.value));
  });
  return box;
}
