"use strict";
// A large run: the map starts with a sample of its nodes, on the density of all. The explorer gets others when they are
// asked for, and its server filters and selects among all nodes; a report has the nodes nearest to those of the sample.

const DENSITY_COLOR = 0x888888; // a gray that is visible on a light and on a dark page
const DENSITY_OPACITY = 0.55; // of the densest cell
const MAX_CORNERS = 2000; // of a lasso, as in parameters.py

// The values of a category can grow, so the code of a missing value must not be the one after the last value.
function growableColumn(column) {
  if (column.kind === "number") return column;
  const codes = Int32Array.from(column.codes, (code) => (code === column.missingCode ? -1 : code));
  return { ...column, codes, missingCode: -1 };
}

// An answer of the server about a node, with the rows of the page instead of those of the server. Nodes that the page did
// not have are added to the run.
function answerInPage(run, answer) {
  addNodes(run, answer.nodes);
  answer.nodes.rows.forEach((serverRow) => run.offMap.delete(run.pageRows.get(serverRow)));
  // A node that the page does not have is only compared with others, so any number that is no row serves.
  const pageRow = (serverRow) => run.pageRows.get(serverRow) ?? -1 - serverRow;
  const inPage = (facts) => ({ ...facts, edges: facts.edges.map(pageRow) });
  return {
    row: pageRow(answer.row),
    facts: inPage(answer.facts),
    neighbors: answer.neighbors.map((found) => ({ ...found, row: pageRow(found.row), facts: inPage(found.facts) })),
  };
}

function addNodes(run, raw) {
  const ids = decodeIds(raw.ids);
  const [x, y] = [decodeArray(raw.projection.x), decodeArray(raw.projection.y)];
  const added = raw.columns.map(decodeColumn);
  const isNew = raw.rows.map((serverRow) => !run.pageRows.has(serverRow));
  const onlyNew = (values) => Array.from(values).filter((_, index) => isNew[index]);
  if (!isNew.some(Boolean)) return;
  for (const [index, serverRow] of raw.rows.entries()) {
    if (!isNew[index]) continue;
    run.pageRows.set(serverRow, run.n);
    run.rows?.set(ids[index], run.n);
    run.serverRows.push(serverRow);
    run.ids.push(ids[index]);
    run.n++;
  }
  run.x = joined(Float32Array, run.x, onlyNew(x));
  run.y = joined(Float32Array, run.y, onlyNew(y));
  run.columns.forEach((column, index) => extendColumn(column, added[index], onlyNew));
  if (page.coloring) page.coloring = colorBy(page.runs, page.color);
}

function extendColumn(column, added, onlyNew) {
  if (column.kind === "number") {
    const numbers = added.numbers ?? Array.from(added.codes, () => NaN); // a category if it is too large for a number
    column.numbers = joined(Float64Array, column.numbers, onlyNew(numbers));
    return;
  }
  const codeOf = new Map(column.values.map((value, code) => [value, code]));
  const codes = onlyNew(added.codes).map((code) => {
    const value = added.values[code] ?? null;
    if (value === null) return column.missingCode;
    if (!codeOf.has(value)) codeOf.set(value, column.values.push(value) - 1);
    return codeOf.get(value);
  });
  column.codes = joined(Int32Array, column.codes, codes);
}

function joined(Type, first, second) {
  const both = new Type(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

// The number of nodes in a text about the map.
function sampleNote(run) {
  if (!run.sample) return "";
  const { view, sample } = run;
  const shown = formatCount(view ? view.rows.length : nPoints(run));
  const which = view ? `the ${formatCount(view.total)} filtered nodes` : `${formatCount(sample.total)} nodes`;
  const others = page.live
    ? "Search finds every node and adds it to the map. The legend, filters, selections and exports cover all nodes."
    : "Search finds these and the nodes nearest to them; “afgrl explore” and “afgrl search” find every node.";
  return ` Showing ${shown} of ${which} as points, on the density of all of them in gray. ${others}`;
}

function nPoints(run) {
  return run.n - run.offMap.size;
}

// The filters of the panel and of the legend, and the cluster shown alone, as the server takes them.
function serverFilters(run) {
  const filters = Array.from(page.filters, ([column, { low, high, codes }]) =>
    codes ? { column: column.name, codes: Array.from(codes) } : { column: column.name, low, high },
  );
  if (page.only) filters.push({ column: clusterColumn(run).name, codes: [serverCode(clusterColumn(run), page.only.value)] });
  if (page.hiddenBins.size) filters.push({ column: page.color, codes: legendCodes(columnNamed(run, page.color)) });
  return filters;
}

// The server numbers the most frequent values of a column, then has a number for all rarer ones, then for no value.
function serverCode(column, value) {
  const code = column.all.values.indexOf(value);
  return code < 0 ? column.all.values.length : code;
}

// The codes whose groups the legend does not hide. Its last bin is "no value", the one before it can be "others".
function legendCodes(column) {
  const { values } = column.all;
  const { entries, binOf } = page.coloring;
  const bins = [...values.map((value) => binOf.get(value) ?? entries.length - 2), entries.length - 2, entries.length - 1];
  return bins.flatMap((bin, code) => (page.hiddenBins.has(bin) ? [] : [code]));
}

// Asks for the nodes that pass the filters. Sets `run.view`: how many there are, and the rows of a sample of them; null
// without filters. Returns false if a later question was asked meanwhile.
async function filterOnServer(run) {
  const filters = serverFilters(run);
  const question = (run.question = {});
  if (!filters.length) {
    run.view = null;
    run.density = run.fullDensity;
    return true;
  }
  const answer = await postJson("/api/filter", { filters });
  if (question !== run.question) return false;
  const before = run.n;
  addNodes(run, answer.nodes);
  for (let row = before; row < run.n; row++) run.offMap.add(row);
  run.view = { total: answer.total, rows: Int32Array.from(answer.nodes.rows, (row) => run.pageRows.get(row)) };
  run.density = decodeDensity(answer.density);
  return true;
}

function sampledRows(run) {
  return run.view?.rows ?? Int32Array.from(run.ids.keys()).filter((row) => !run.offMap.has(row));
}

// The nodes that the filters show, inside a lasso or box if there is one, as a question to the server.
function whereShown(run, shape = null) {
  return { filters: serverFilters(run), ...(shape && { inside: corners(shape) }) };
}

// Plotly describes a box by its ranges and a lasso by its points.
function corners({ range, lassoPoints }) {
  if (range) {
    const { x, y } = range;
    return [[x[0], y[0]], [x[1], y[0]], [x[1], y[1]], [x[0], y[1]]];
  }
  const step = Math.ceil(lassoPoints.x.length / MAX_CORNERS);
  return lassoPoints.x.map((x, index) => [x, lassoPoints.y[index]]).filter((_, index) => index % step === 0);
}

function decodeDensity(raw) {
  return { ...raw, cells: decodeArray(raw.cells) };
}

// The density of all nodes as an image below the points, for Plotly's layout.
function densityImages(run) {
  if (!run.density) return [];
  const { width, height, low, extent, cells } = run.density;
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  new Uint32Array(image.data.buffer).fill(DENSITY_COLOR);
  for (let cell = 0; cell < cells.length; cell++) image.data[4 * cell + 3] = cells[cell] * DENSITY_OPACITY;
  context.putImageData(image, 0, 0);
  return [
    {
      source: canvas.toDataURL(),
      xref: "x",
      yref: "y",
      x: low[0],
      y: low[1] + extent[1],
      sizex: extent[0],
      sizey: extent[1],
      sizing: "stretch",
      layer: "below",
    },
  ];
}
