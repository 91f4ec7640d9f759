"use strict";
// What only the explorer has: filters, and the selection with its export.

const MAX_LISTED_IDS = 200; // of a selection
const LAST_MILLISECOND = 86_399_999; // of a day
const MAX_LISTED_VALUES = 200; // of a category filter

// The cookie has the token now; without it in the address, a copied address or a screenshot does not reveal it.
function hideToken() {
  history.replaceState(null, "", location.pathname + location.hash);
}

function renderExplorerPanels() {
  const [run] = page.runs;
  page.selection = selectionPanel(run);
  const onFilter = (passesFilters) => {
    page.passesFilters = passesFilters;
    redraw();
  };
  byId("side").append(page.selection.element, filterPanel(run, onFilter));
}

// A filter accepts some values of a category, or a range of numbers; a row without a value fails every range.
function passesFilter(filter, row) {
  const { column } = filter;
  if (column.kind === "number") {
    const number = column.numbers[row];
    return number >= filter.low && number <= filter.high;
  }
  return filter.codes.has(column.codes[row]);
}

function filterPanel(run, onFilter) {
  const filters = new Map(); // column → filter
  const setFilter = (column, filter) => {
    if (filter) filters.set(column, filter);
    else filters.delete(column);
    onFilter((row) => Array.from(filters.values()).every((active) => passesFilter(active, row)));
  };
  const columnFilter = (column) =>
    make(
      "details",
      { class: "filter" },
      make("summary", {}, truncate(column.name, 40)),
      column.kind === "number" ? rangeFilter(column, setFilter) : valueFilter(run, column, setFilter),
    );
  return make(
    "section",
    { id: "filters", "aria-label": "Filters" },
    make("h3", {}, "Filters"),
    run.columns.length
      ? run.columns.map(columnFilter)
      : make("p", { class: "note" }, "The nodes have no columns to filter by."),
  );
}

function rangeFilter(column, setFilter) {
  let min = Infinity,
    max = -Infinity;
  for (const number of column.numbers) {
    if (number < min) min = number;
    if (number > max) max = number;
  }
  const input = (bound, limit) =>
    make("input", {
      type: column.unit ? "date" : "number",
      step: "any",
      placeholder: formatNumber(limit),
      title: column.unit ? formatQuantity(limit, column.unit) : null,
      "aria-label": `${column.name} ${bound}`,
    });
  const from = input("at least", min),
    to = input("at most", max);
  const onChange = () => {
    const isSet = from.value !== "" || to.value !== "";
    const low = from.value === "" ? -Infinity : from.valueAsNumber,
      high = to.value === "" ? Infinity : to.valueAsNumber + (column.unit ? LAST_MILLISECOND : 0);
    setFilter(column, isSet && { column, low, high });
  };
  from.addEventListener("change", onChange);
  to.addEventListener("change", onChange);
  return make("div", { class: "range" }, from, make("span", {}, "to"), to);
}

function valueFilter(run, column, setFilter) {
  const codes = new Set();
  const toggle = (code) => (event) => {
    if (event.target.checked) codes.add(code);
    else codes.delete(code);
    setFilter(column, codes.size && { column, codes });
  };
  const choice = (value, code) =>
    make("label", {}, make("input", { type: "checkbox", change: toggle(code) }), truncate(value, 60));
  const { missingCode } = column;
  const nUnlisted = column.values.length - MAX_LISTED_VALUES;
  return make(
    "div",
    { class: "choices" },
    column.values.slice(0, MAX_LISTED_VALUES).map((value, code) => choice(groupLabel(run, column, value), code)),
    column.codes.includes(missingCode) ? choice("no value", missingCode) : null,
    nUnlisted > 0 ? make("p", { class: "note" }, `${formatCount(nUnlisted)} rarer values are not listed.`) : null,
  );
}

// The nodes inside a box or lasso; without a selection, all nodes that the filters show.
function selectionPanel(run) {
  const summary = make("p", { class: "note", "aria-live": "polite" });
  const list = make("ul", { class: "selected" });
  const formats = [make("option", { value: "csv" }, "CSV"), make("option", { value: "parquet" }, "Parquet")];
  const format = make("select", { "aria-label": "Format" }, formats);
  const withVectors = make("input", { type: "checkbox", id: "with-vectors" });
  const result = make("p", { class: "note", id: "exported", "aria-live": "polite" });
  let rows = [];
  const exportSelection = async () => {
    try {
      const onServer = run.serverRows ? Array.from(rows, (row) => run.serverRows[row]) : rows;
      result.textContent = await exportRows(onServer, format.value, withVectors.checked);
    } catch (error) {
      showError(error.message);
    }
  };
  const exportButton = button("Export", { id: "export" }, exportSelection);
  const clearButton = button("Clear", { id: "clear", hidden: true }, () => redraw());
  const show = (selected, visible) => {
    rows = selected ?? visible;
    summary.textContent = selected ? selectionText(selected.length) : noSelectionText(visible.length);
    clearButton.hidden = !selected;
    exportButton.disabled = !rows.length;
    const chip = (row) => button(truncate(nodeLabel(run, row), 30), { class: "chip" }, () => chooseNode(run.ids[row]));
    const listed = (selected ?? []).slice(0, MAX_LISTED_IDS);
    list.replaceChildren(...listed.map((row) => make("li", {}, chip(row))));
    result.textContent = "";
  };
  const vectorsLabel = make("label", {}, withVectors, "with vectors");
  const element = make(
    "section",
    { id: "selection", "aria-label": "Selection" },
    make("h3", {}, "Selection"),
    summary,
    list,
    make("div", { class: "export" }, format, vectorsLabel, exportButton, clearButton),
    result,
  );
  return { element, show };
}

function selectionText(size) {
  const listed = size > MAX_LISTED_IDS ? ` The first ${MAX_LISTED_IDS} are listed.` : "";
  return `${plural(size, "node")} selected.${listed}`;
}

function noSelectionText(nVisible) {
  return `No selection: Export saves all ${plural(nVisible, "node")} shown. Select nodes with the Box or Lasso tool.`;
}

async function exportRows(rows, format, vectors) {
  const response = await fetch("/api/export", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ rows: Array.from(rows), format, vectors }),
  });
  if (!response.ok) throw new Error((await response.json()).error);
  const link = make("a", { download: `selection.${format}` });
  link.href = URL.createObjectURL(await response.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  const nEscaped = Number(response.headers.get("X-Escaped-Cells"));
  const note = nEscaped
    ? ` ${plural(nEscaped, "cell")} got a leading apostrophe, so that a spreadsheet does not read a formula.`
    : "";
  return `${plural(rows.length, "row")} exported.${note}`;
}
