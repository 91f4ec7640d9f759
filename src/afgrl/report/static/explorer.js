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
  byId("side").append(page.selection.element, filterPanel(run));
}

function passesFilters(row) {
  return Array.from(page.filters.values()).every((filter) => passesFilter(filter, row));
}

// A filter accepts some values of a category, or a range of numbers; a row without a value fails every range.
function passesFilter(filter, row) {
  const { column } = filter;
  if (column.kind === "number") {
    const number = column.numbers[row];
    return number >= (filter.low ?? -Infinity) && number <= (filter.high ?? Infinity);
  }
  return filter.codes.has(column.codes[row]);
}

function filterPanel(run) {
  const setFilter = (column, filter) => {
    if (filter) page.filters.set(column, filter);
    else page.filters.delete(column);
    redraw().catch((error) => showError(error.message));
  };
  const columnFilter = (column) =>
    make(
      "details",
      { class: "filter" },
      make("summary", {}, breakable(truncate(column.name, 40))),
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

function numberRange(numbers) {
  let min = Infinity,
    max = -Infinity;
  for (const number of numbers) {
    if (number < min) min = number;
    if (number > max) max = number;
  }
  return { min, max };
}

function rangeFilter(column, setFilter) {
  const { min, max } = column.all ?? numberRange(column.numbers);
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
    const low = from.value === "" ? null : from.valueAsNumber,
      high = to.value === "" ? null : to.valueAsNumber + (column.unit ? LAST_MILLISECOND : 0);
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
  const { values, rarer, missing } = column.all ?? {
    values: column.values,
    rarer: 0,
    missing: column.codes.includes(column.missingCode),
  };
  const missingCode = column.all ? values.length + 1 : column.missingCode;
  const nUnlisted = values.length + rarer - MAX_LISTED_VALUES;
  return make(
    "div",
    { class: "choices", role: "group", "aria-label": column.name },
    values.slice(0, MAX_LISTED_VALUES).map((value, code) => choice(groupLabel(run, column, value), code)),
    missing ? choice("no value", missingCode) : null,
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
  let chosen = { size: 0 }; // and what an export asks the server for
  const exportSelection = async () => {
    try {
      const question = { ...chosen.question, format: format.value, vectors: withVectors.checked };
      result.textContent = await exportNodes(question, chosen.size);
    } catch (error) {
      showError(error.message);
    }
  };
  const exportButton = button("Export", { id: "export" }, exportSelection);
  const clearButton = button("Clear", { id: "clear", hidden: true }, () => redraw());
  const show = (isSelection, nodes) => {
    chosen = nodes;
    summary.textContent = isSelection ? selectionText(nodes.size) : noSelectionText(nodes.size);
    clearButton.hidden = !isSelection;
    exportButton.disabled = !nodes.size;
    const chip = (id) => button(truncate(labelOfId([run], id), 30), { class: "chip" }, () => chooseNode(id));
    list.replaceChildren(...(isSelection ? nodes.ids : []).map((id) => make("li", {}, chip(id))));
    result.textContent = "";
  };
  // The rows that the map has inside a box or lasso, and its shape; null for no selection.
  const select = async (rows, shape) => {
    const nodes = run.sample ? await selectOnServer(run, rows && shape) : selectInPage(run, rows);
    if (nodes) show(rows !== null, nodes);
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
  return { element, select };
}

function selectInPage(run, selected) {
  const rows = selected ?? page.plots[0].shown;
  const ids = (selected ?? []).slice(0, MAX_LISTED_IDS).map((row) => run.ids[row]);
  return { size: rows.length, ids, question: { rows: Array.from(rows) } };
}

// Without a shape, all nodes that the filters show. Null if the user has selected others meanwhile.
async function selectOnServer(run, shape) {
  const where = whereShown(run, shape);
  const asked = (run.selectionAsked = {});
  if (!shape) return { size: run.view?.total ?? run.sample.total, ids: [], question: { where } };
  const { total, ids, names } = await postJson("/api/select", where);
  ids.forEach((id, index) => run.foundNames.set(id, names[index]));
  return asked === run.selectionAsked ? { size: total, ids, question: { where } } : null;
}

function selectionText(size) {
  const listed = size > MAX_LISTED_IDS ? ` The first ${MAX_LISTED_IDS} are listed.` : "";
  return `${plural(size, "node")} selected.${listed}`;
}

function noSelectionText(nVisible) {
  return `No selection: Export saves all ${plural(nVisible, "node")} that the filters show. Select nodes with the Box or Lasso tool.`;
}

async function exportNodes(question, size) {
  const response = await post("/api/export", question);
  if (!response.ok) throw new Error((await response.json()).error);
  const link = make("a", { download: `selection.${question.format}` });
  link.href = URL.createObjectURL(await response.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  const nEscaped = Number(response.headers.get("X-Escaped-Cells"));
  const note = nEscaped
    ? ` ${plural(nEscaped, "cell")} got a leading apostrophe, so that a spreadsheet does not read a formula.`
    : "";
  return `${plural(size, "row")} exported.${note}`;
}
