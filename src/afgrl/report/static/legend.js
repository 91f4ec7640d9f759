"use strict";
// Colors and the legend: which column colors the nodes, and which of its values are shown.

const MAX_LEGEND_LABEL = 90; // characters
const MANY_ENTRIES = 8;

async function recolor(columnName, only = null) {
  page.color = columnName;
  page.only = only;
  byId("color").value = columnName;
  page.hiddenBins.clear();
  page.coloring = colorBy(page.runs, columnName);
  await redraw();
}

function colorChoices() {
  const names = [...new Set(page.runs.flatMap((run) => run.columns.map((column) => column.name)))];
  return [...names.map((name) => [name, truncate(name, 40)]), ["", "nothing"]];
}

// The cluster if there is one, because clusters have names; else the label, else the first column that is not the name.
function defaultColor() {
  const columns = page.runs.flatMap((run) => run.columns);
  const withRole = (role) => columns.find((column) => column.role === role);
  return (withRole("cluster") ?? withRole("label") ?? columns.find(({ role }) => role !== "name"))?.name ?? "";
}

// The entry that had the focus has it again, so that a user of the keyboard can continue from there.
function renderLegend() {
  const legend = byId("legend");
  const focused = Array.from(legend.children).indexOf(document.activeElement);
  const { scrollTop } = legend;
  legend.replaceChildren(...legendContent());
  legend.scrollTop = scrollTop;
  if (focused >= 0) legend.children[Math.min(focused, legend.children.length - 1)]?.focus();
}

function legendContent() {
  const { coloring } = page;
  if (coloring.kind === "number") return scaleLegend(coloring);
  const showAll = page.only ? [button(`${page.only.label}: show all`, {}, () => recolor(page.color))] : [];
  const entries = coloring.entries.flatMap((entry, bin) => (entry.size ? [legendEntry(entry, bin)] : []));
  return [...showAll, ...(entries.length > MANY_ENTRIES ? allOrNone() : []), ...entries];
}

// With many groups, hiding most of them one by one would take too long.
function allOrNone() {
  const setAll = (hidden) => () => {
    page.hiddenBins = new Set(hidden ? page.coloring.entries.keys() : []);
    return redraw();
  };
  return [button("Show all", { class: "all" }, setAll(false)), button("Hide all", { class: "all" }, setAll(true))];
}

function swatch(coloring, bin) {
  return colorDot(coloring.colors[bin], coloring.markers?.[bin]);
}

function scaleLegend(coloring) {
  const bar = make("span", { class: "scale", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${SCALE.join(",")})`;
  const low = (coloring.clippedLow ? "≤ " : "") + formatQuantity(coloring.low, coloring.unit),
    high = (coloring.clippedHigh ? "≥ " : "") + formatQuantity(coloring.high, coloring.unit);
  return [make("span", {}, low), bar, make("span", {}, high)];
}

function legendEntry(entry, bin) {
  return button(
    [
      colorDot(entry.color, entry.marker),
      make("span", { class: "label" }, truncate(entry.label, MAX_LEGEND_LABEL)),
      page.runs.length > 1 ? "" : make("span", { class: "note" }, formatCount(entry.size)),
    ],
    { class: "entry", "aria-pressed": String(!page.hiddenBins.has(bin)), title: "Show or hide these nodes" },
    () => toggleBin(bin),
  );
}

function toggleBin(bin) {
  if (!page.hiddenBins.delete(bin)) page.hiddenBins.add(bin);
  return redraw();
}

// Shows one cluster alone.
async function isolateCluster(run, cluster) {
  const column = run.columns.find(({ role }) => role === "cluster");
  const code = column.values.indexOf(cluster);
  const passes = (row) => column.codes[row] === code;
  await recolor(column.name, { run, label: `Only cluster ${cluster}`, value: cluster, passes });
  byId("projection").scrollIntoView();
}

function isVisible(plot, row) {
  if (page.only?.run === plot.run && !page.only.passes(row)) return false;
  return !page.hiddenBins.has(page.coloring.bins[plot.run.index][row]) && passesFilters(row);
}
