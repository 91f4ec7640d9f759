"use strict";
// The map of a run: Plotly draws the points; rings, the tip and the tools are the page's own.

function pointSize(map) {
  const { n } = map.run;
  const size = n < 2500 ? 7 : n < 10000 ? 5 : n < 50000 ? 3.5 : 2.5;
  return map.holder.clientWidth < 500 ? size * 0.7 : size;
}

// `events` has click(row), selected(rows or null). Plotly draws in `holder`, marks lie on `cover`. `shown` are the rows
// that are drawn, in drawing order.
function createMap(run, holder, cover, events) {
  const shown = Int32Array.from(run.ids.keys());
  const map = { run, holder, cover, events, shown, tool: "pan", drawn: false, marks: [], home: homeView(run) };
  listenToFingers(map);
  return map;
}

function homeView(run) {
  const axis = (values) => {
    let low = Infinity,
      high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const margin = (high - low || 1) * 0.04;
    return [low - margin, high + margin];
  };
  return { x: axis(run.x), y: axis(run.y) };
}

function layoutOf(map) {
  const hidden = { visible: false, showspikes: false };
  return {
    dragmode: map.tool,
    hovermode: "closest",
    hoverdistance: 14,
    showlegend: false,
    margin: { l: 0, r: 0, t: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: { ...hidden, range: map.home.x },
    yaxis: { ...hidden, range: map.home.y, scaleanchor: "x", scaleratio: 1 },
    newselection: { line: { color: theme().accent, width: 2, dash: "solid" } },
  };
}

const MAP_OPTIONS = {
  scrollZoom: true,
  displayModeBar: false,
  responsive: true,
  showTips: false,
  doubleClick: false,
  plotGlPixelRatio: Math.min(2, window.devicePixelRatio || 1),
};

function traceOf(map, painting) {
  const { run, shown } = map;
  const bins = painting.bins[run.place];
  const pick = (values) => Float32Array.from(shown, (row) => values[row]);
  return {
    x: pick(run.x),
    y: pick(run.y),
    colors: Array.from(shown, (row) => painting.colors[bins[row]]),
  };
}

async function drawMap(map, painting) {
  const { x, y, colors } = traceOf(map, painting);
  if (map.drawn) {
    await Plotly.restyle(map.holder, { x: [x], y: [y], "marker.color": [colors], selectedpoints: null }, [0]);
    await Plotly.relayout(map.holder, { selections: [] });
    return;
  }
  const marker = { size: pointSize(map), color: colors, opacity: 0.85, line: { width: 0 } };
  const trace = {
    type: "scattergl",
    mode: "markers",
    x,
    y,
    marker,
    hoverinfo: "none",
    unselected: { marker: { opacity: 0.14 } },
  };
  map.drawn = true;
  await Plotly.newPlot(map.holder, [trace], layoutOf(map), MAP_OPTIONS);
  listen(map);
  placeMarks(map);
}

// Browsers hold a few WebGL canvases at a time, so of many maps only those in view are kept drawn.
function eraseMap(map) {
  if (map.drawn) Plotly.purge(map.holder);
  map.drawn = false;
}

function listen(map) {
  const { holder } = map;
  holder.on("plotly_hover", (event) => showTip(map.run, map.shown[event.points[0].pointIndex], event.event));
  holder.on("plotly_unhover", hideTip);
  holder.on("plotly_relayouting", () => {
    hideTip();
    placeMarks(map);
  });
  holder.on("plotly_afterplot", () => placeMarks(map));
  holder.on("plotly_click", (event) => {
    hideTip(); // a finger leaves no other way
    if (map.pinched) return;
    map.events.click(map.shown[event.points[0].pointIndex]);
  });
  holder.on("plotly_selected", (event) => {
    if (event) map.events.selected(Array.from(event.points, (point) => map.shown[point.pointIndex]));
  });
  holder.on("plotly_deselect", () => map.events.selected(null));
  holder.on("plotly_doubleclick", () => map.pinched || resetView(map));
}

// A ring around the chosen node with its name, and smaller ones around the nodes nearest to it. They lie over the
// canvas, so that choosing a node does not draw all the others again.
function markNodes(map, row, neighbors) {
  const size = pointSize(map);
  const ring = (at, kind, width) => {
    const element = make("span", { class: `ring ${kind}` });
    element.style.width = element.style.height = `${width}px`;
    return { at, element };
  };
  map.marks = neighbors.map((neighbor) => ring(neighbor.row, "near", size + 6));
  if (row !== null) {
    map.marks.push(ring(row, "chosen", size + 12));
    map.marks.push({ at: row, element: make("span", { class: "tag" }, brief(map.run.ids[row], 30)) });
  }
  map.cover.replaceChildren(...map.marks.map((mark) => mark.element));
  placeMarks(map);
}

function placeMarks(map) {
  if (!map.drawn) return;
  const { x, y } = ranges(map);
  for (const { at, element } of map.marks) {
    element.style.left = `${(100 * (map.run.x[at] - x[0])) / (x[1] - x[0])}%`;
    element.style.top = `${(100 * (y[1] - map.run.y[at])) / (y[1] - y[0])}%`;
  }
}

function ranges(map) {
  const { xaxis, yaxis } = map.holder._fullLayout;
  return { x: xaxis.range.slice(), y: yaxis.range.slice() };
}

function view(map, x, y) {
  return Plotly.relayout(map.holder, { "xaxis.range": x, "yaxis.range": y });
}

function zoomBy(map, factor) {
  const { x, y } = ranges(map);
  const around = ([low, high]) => {
    const middle = (low + high) / 2,
      half = ((high - low) / 2) * factor;
    return [middle - half, middle + half];
  };
  return view(map, around(x), around(y));
}

function resetView(map) {
  return map.drawn && view(map, map.home.x.slice(), map.home.y.slice());
}

// Moves the view so that a node can be seen, and leaves it alone if it can be seen already.
function reveal(map, row) {
  if (!map.drawn) return;
  const { x, y } = ranges(map);
  const inside = (value, [low, high]) => value > low && value < high;
  const around = (value, [low, high]) => [value - (high - low) / 2, value + (high - low) / 2];
  const at = [map.run.x[row], map.run.y[row]];
  if (!inside(at[0], x) || !inside(at[1], y)) view(map, around(at[0], x), around(at[1], y));
}

function setTool(map, tool) {
  map.tool = tool;
  if (map.drawn) Plotly.relayout(map.holder, { dragmode: tool });
}

function showTip(run, row, pointer) {
  const tip = byId("tip");
  const cells = run.columns.slice(0, 8).flatMap((column) => {
    const text = cellText(column, row);
    return text === null ? [] : [make("dt", {}, brief(column.name, 24)), make("dd", {}, brief(text, 60))];
  });
  tip.replaceChildren(make("strong", {}, brief(run.ids[row], 60)), make("dl", {}, cells));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = pointer.clientX + 16 + width > window.innerWidth ? pointer.clientX - width - 16 : pointer.clientX + 16;
  const top = Math.min(pointer.clientY + 12, window.innerHeight - height - 8);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}
