"use strict";
// The interactive plot of a run's 2-D projection. Plotly draws the points; rings, tooltip and tools are drawn here.

const MAX_TOOLTIP_COLUMNS = 8;
const ZOOM_STEP = 0.7;
const KEY_STEP = 0.15; // share of the view by which an arrow key moves it
const PLOT_CONFIG = {
  scrollZoom: true,
  displayModeBar: false,
  responsive: true,
  showTips: false,
  doubleClick: false,
  plotGlPixelRatio: Math.min(2, window.devicePixelRatio || 1),
};

// `events` has click(row) and selected(rows or null). Plotly draws into `holder`; marks and texts are placed in layers
// above it: lines (an SVG element), textLayer, overlay.
// `shown` are the drawn rows, in drawing order, of the first `nFiltered` rows; later ones were added to a sample since.
function createPlot(run, holder, layers, events) {
  const shown = Int32Array.from(run.ids.keys());
  const state = { tool: "pan", drawn: false, nFiltered: run.n, marks: [], edges: [], texts: [] };
  const plot = { run, holder, ...layers, events, shown, ...state, fullView: fullView(run) };
  listenToTouch(plot);
  holder.addEventListener("keydown", (event) => moveByKey(plot, event));
  return plot;
}

function fullView(run) {
  const range = (values) => {
    let low = Infinity,
      high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const margin = (high - low || 1) * 0.04;
    return [low - margin, high + margin];
  };
  return { x: range(run.x), y: range(run.y) };
}

function pointSize(plot) {
  const n = nPoints(plot.run);
  const size = n < 2500 ? 7 : n < 10000 ? 5 : n < 50000 ? 3.5 : 2.5;
  return plot.holder.clientWidth < 500 ? size * 0.7 : size;
}

function plotLayout(plot) {
  const hidden = { visible: false, showspikes: false };
  return {
    dragmode: plot.tool,
    hovermode: "closest",
    hoverdistance: 14,
    showlegend: false,
    margin: { l: 0, r: 0, t: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: { ...hidden, range: plot.fullView.x },
    yaxis: { ...hidden, range: plot.fullView.y, scaleanchor: "x", scaleratio: 1 },
    images: densityImages(plot.run),
    newselection: { line: { color: theme().accent, width: 2, dash: "solid" } },
  };
}

async function drawPlot(plot, coloring) {
  const { run, shown } = plot;
  const bins = coloring.bins[run.index];
  const x = Float32Array.from(shown, (row) => run.x[row]);
  const y = Float32Array.from(shown, (row) => run.y[row]);
  const colors = Array.from(shown, (row) => coloring.colors[bins[row]]);
  const usesMarkers = new Set(coloring.markers).size > 1; // a list of markers takes longer to draw than one for all
  const symbol = usesMarkers ? Array.from(shown, (row) => coloring.markers[bins[row]]) : MARKERS[0];
  if (plot.drawn) {
    const changes = { x: [x], y: [y], "marker.color": [colors], "marker.symbol": [symbol], selectedpoints: null };
    await Plotly.restyle(plot.holder, changes, [0]);
    await Plotly.relayout(plot.holder, { selections: [], ...(run.sample && { images: densityImages(run) }) });
    showMapTexts(plot);
    return;
  }
  const trace = {
    type: "scattergl",
    mode: "markers",
    x,
    y,
    marker: { size: pointSize(plot), color: colors, symbol, opacity: 0.85, line: { width: 0 } },
    hoverinfo: "none",
    unselected: { marker: { opacity: 0.14 } },
  };
  plot.drawn = true;
  removePicture();
  await Plotly.newPlot(plot.holder, [trace], plotLayout(plot), PLOT_CONFIG);
  listenToPlotly(plot);
  showMapTexts(plot);
  placeMarks(plot);
}

// Browsers limit the number of WebGL canvases, so a page with many plots keeps only the visible ones drawn.
function erasePlot(plot) {
  if (plot.drawn) Plotly.purge(plot.holder);
  plot.drawn = false;
}

function listenToPlotly(plot) {
  const { holder } = plot;
  const rowOfPoint = (point) => plot.shown[point.pointIndex];
  holder.on("plotly_hover", (event) => showTooltip(plot.run, rowOfPoint(event.points[0]), event.event));
  holder.on("plotly_unhover", hideTooltip);
  holder.on("plotly_relayouting", () => {
    hideTooltip();
    placeMarks(plot);
  });
  holder.on("plotly_afterplot", () => placeMarks(plot));
  holder.on("plotly_click", (event) => {
    hideTooltip(); // on a touch screen no other event hides it
    if (!plot.pinching) plot.events.click(rowOfPoint(event.points[0]));
  });
  holder.on("plotly_selected", (event) => {
    const isDrawnByUser = event?.range || event?.lassoPoints; // a redraw that clears the shape is also an event
    if (isDrawnByUser) plot.events.selected(Array.from(event.points, rowOfPoint), event);
  });
  holder.on("plotly_deselect", () => plot.events.selected(null));
  holder.on("plotly_doubleclick", () => plot.pinching || resetView(plot));
}

// A ring and a label at the chosen node, smaller rings at its nearest nodes, and a line for each of its edges. They are
// above the points, so that choosing a node does not redraw all of them. `match` is null without a chosen node.
function markNodes(plot, match) {
  const size = pointSize(plot);
  const ring = (at, kind, diameter) => {
    const element = make("span", { class: `ring ${kind}` });
    element.style.width = element.style.height = `${diameter}px`;
    return { at, element };
  };
  const nAdded = plot.run.n - plot.nFiltered;
  plot.marks = Array.from({ length: nAdded }, (_, index) => addedPoint(plot, plot.nFiltered + index));
  const named = match ? [match.row, ...match.neighbors.map(({ row }) => row)] : [];
  plot.marks.push(...named.filter((row) => plot.run.offMap.has(row)).map((row) => addedPoint(plot, row)));
  plot.marks.push(...(match?.neighbors ?? []).map((neighbor) => ring(neighbor.row, "near", size + 6)));
  plot.edges = (match?.facts.edges ?? []).map((end) => ({ from: match.row, to: end, element: makeSvg("line") }));
  if (match) {
    const label = truncate(nodeTag(plot.run, match.row), 30);
    plot.marks.push(ring(match.row, "chosen", size + 12));
    plot.marks.push({ at: match.row, element: make("span", { class: "tag" }, label) });
  }
  plot.overlay.replaceChildren(...plot.marks.map((mark) => mark.element));
  plot.lines.replaceChildren(...plot.edges.map((edge) => edge.element));
  placeMarks(plot);
}

// A node that is not in the sample: a mark, in the explorer until the points are drawn again, which would end a selection.
function addedPoint(plot, row) {
  const element = swatch(page.coloring, page.coloring.bins[plot.run.index][row]);
  element.classList.add("added");
  return { at: row, element };
}

function placeMarks(plot) {
  if (!plot.drawn) return;
  const { x, y } = currentView(plot);
  const across = (row) => `${(100 * (plot.run.x[row] - x[0])) / (x[1] - x[0])}%`;
  const down = (row) => `${(100 * (y[1] - plot.run.y[row])) / (y[1] - y[0])}%`;
  for (const { at, element } of plot.marks) {
    element.style.left = across(at);
    element.style.top = down(at);
  }
  for (const { from, to, element } of plot.edges) {
    const ends = { x1: across(from), y1: down(from), x2: across(to), y2: down(to) };
    for (const [name, value] of Object.entries(ends)) element.setAttribute(name, value);
  }
  placeTexts(plot);
}

function currentView(plot) {
  const { xaxis, yaxis } = plot.holder._fullLayout;
  return { x: xaxis.range.slice(), y: yaxis.range.slice() };
}

function setView(plot, x, y) {
  return Plotly.relayout(plot.holder, { "xaxis.range": x, "yaxis.range": y });
}

function resetView(plot) {
  return plot.drawn && setView(plot, plot.fullView.x.slice(), plot.fullView.y.slice());
}

function zoomBy(plot, factor) {
  const { x, y } = currentView(plot);
  const scaled = ([low, high]) => {
    const middle = (low + high) / 2,
      half = ((high - low) / 2) * factor;
    return [middle - half, middle + half];
  };
  return setView(plot, scaled(x), scaled(y));
}

// The keys of the map, as its accessible name lists them.
function moveByKey(plot, event) {
  if (!plot.drawn || event.ctrlKey || event.metaKey || event.altKey) return;
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const zooms = { "+": ZOOM_STEP, "=": ZOOM_STEP, "-": 1 / ZOOM_STEP };
  const { x, y } = currentView(plot);
  const moved = ([low, high], step) => [low, high].map((end) => end + step * KEY_STEP * (high - low));
  if (event.key in steps) setView(plot, moved(x, steps[event.key][0]), moved(y, steps[event.key][1]));
  else if (event.key in zooms) zoomBy(plot, zooms[event.key]);
  else if (event.key === "0") resetView(plot);
  else return;
  event.preventDefault(); // the page does not scroll
}

// Moves the view to a node that is outside of it.
function reveal(plot, row) {
  if (!plot.drawn) return;
  const { x, y } = currentView(plot);
  const isInside = (value, [low, high]) => value > low && value < high;
  const centered = (value, [low, high]) => [value - (high - low) / 2, value + (high - low) / 2];
  const [atX, atY] = [plot.run.x[row], plot.run.y[row]];
  if (!isInside(atX, x) || !isInside(atY, y)) setView(plot, centered(atX, x), centered(atY, y));
}

function setTool(plot, tool) {
  plot.tool = tool;
  if (plot.drawn) Plotly.relayout(plot.holder, { dragmode: tool });
}

function showTooltip(run, row, pointer) {
  const tooltip = byId("tooltip");
  const cells = run.columns.slice(0, MAX_TOOLTIP_COLUMNS).flatMap((column) => {
    const value = cellText(column, row);
    const text = value === null ? null : groupLabel(run, column, value);
    return text === null ? [] : [make("dt", {}, truncate(column.name, 24)), make("dd", {}, truncate(text, 60))];
  });
  tooltip.replaceChildren(make("strong", {}, truncate(nodeLabel(run, row), 60)), make("dl", {}, cells));
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const left = pointer.clientX + 16 + width > window.innerWidth ? pointer.clientX - width - 16 : pointer.clientX + 16;
  const top = Math.min(pointer.clientY + 12, window.innerHeight - height - 8);
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

function hideTooltip() {
  byId("tooltip").hidden = true;
}
