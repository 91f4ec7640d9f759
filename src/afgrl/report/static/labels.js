"use strict";
// Text on the map: the names of groups at their centers, and the names of the clusters' central nodes. A text that would
// cover another one is left out until there is room, so zooming in shows more.

const MAX_GROUP_NAME = 90; // characters
const MAX_COUNTED_POINTS = 3000; // by the search for places that cover few points; of more, every second, third … one
const PIXELS_PER_POINT = 20; // by how much farther from its group a text may be to cover one point less
// Where a name can be, in widths and heights of the text from its group's center; then where the id of a node can be.
const DOWN = [0, -0.7, 0.7, -1, 1, -1.3, 1.3, -1.6, 1.6];
const NAME_SHIFTS = DOWN.flatMap((down) => [0, -0.25, 0.25, -0.5, 0.5].map((across) => [across, down]));
const ID_SHIFTS = [[0, 0.9], [0, -0.9], [0.8, 0], [-0.8, 0]];
const MAX_DISTANCE = 80; // pixels from a group's center to the middle of its name
const TEXT_MARGIN = 4; // pixels between two texts

function clusterColumn(run) {
  return run.columns.find(({ role }) => role === "cluster");
}

function clusterCard(run, value) {
  return run.clusters?.clusters.find(({ cluster }) => String(cluster) === value);
}

// The value of a group as a user knows it: a cluster has a name, other values are their own name.
function groupLabel(run, column, value) {
  return (column.role === "cluster" && clusterCard(run, value)?.name) || value;
}

// The same, short enough for a list in which names would repeat.
function groupName(run, column, row) {
  const text = cellText(column, row);
  return column.role === "cluster" && text !== null ? `cluster ${text}` : text;
}

// The column whose groups the map names: the one that colors it if it has groups, else the clusters.
function namedColumn(run) {
  const column = columnNamed(run, page.color);
  return column?.kind === "category" ? column : clusterColumn(run);
}

// The marks of a plot, most important first: names of groups, largest first, then central nodes.
function mapTexts(plot) {
  const { run, shown } = plot;
  const column = namedColumn(run);
  if (!page.showsNames || !column || column.values.length > MAX_GROUPS) return [];
  const rowsOf = column.values.map(() => []);
  for (const row of shown) rowsOf[column.codes[row]]?.push(row);
  const groups = rowsOf.map((rows, code) => ({ rows, code })).filter(({ rows }) => rows.length);
  groups.sort((a, b) => b.rows.length - a.rows.length);
  const names = groups.map(({ rows, code }) => {
    const element = make("span", { class: "group-name" }, breakable(groupText(groupLabel(run, column, column.values[code]))));
    // The color tells which of two groups near a name it belongs to.
    if (column.name === page.color) element.style.borderColor = page.coloring.colors[page.coloring.bins[run.index][rows[0]]];
    return { at: centerRow(run, rows), shifts: NAME_SHIFTS, element };
  });
  return [...names, ...centralNodes(run, new Set(shown))];
}

// A line does not end between a number and its percent sign.
function groupText(label) {
  return truncate(label, MAX_GROUP_NAME).replaceAll(" %", "\u00a0%");
}

// The row closest to the median of a group, so that its name is on the group even if that has two parts.
function centerRow(run, rows) {
  const median = (values) => Float32Array.from(rows, (row) => values[row]).sort()[rows.length >> 1];
  const [x, y] = [median(run.x), median(run.y)];
  let best = rows[0],
    bestDistance = Infinity;
  for (const row of rows) {
    const distance = (run.x[row] - x) ** 2 + (run.y[row] - y) ** 2;
    if (distance < bestDistance) [best, bestDistance] = [row, distance];
  }
  return best;
}

function centralNodes(run, shown) {
  const cards = run.clusters?.clusters ?? [];
  const ids = [...new Set(cards.flatMap(({ center, closest }) => [center ?? closest[0], closest[0]]).map(String))];
  return ids.flatMap((id) => {
    const row = rowOf(run, id);
    if (row === undefined || !shown.has(row)) return [];
    const element = make("span", { class: "central-node" }, truncate(nodeTag(run, row), 24));
    return [{ at: row, shifts: ID_SHIFTS, element }];
  });
}

function showMapTexts(plot) {
  plot.texts = mapTexts(plot);
  plot.textLayer.replaceChildren(...plot.texts.map(({ element }) => element));
  for (const text of plot.texts) {
    fitToLines(text.element);
    const { width, height } = text.element.getBoundingClientRect();
    Object.assign(text, { width, height });
  }
  placeTexts(plot);
}

// A box with several lines is as wide as it may be; this makes it as wide as its longest line.
function fitToLines(element) {
  const lines = document.createRange();
  lines.selectNodeContents(element);
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  const padding = parseFloat(paddingLeft) + parseFloat(paddingRight);
  element.style.width = `${Math.ceil(lines.getBoundingClientRect().width + padding)}px`;
}

// Places the texts in order, each where it covers few points and is near what it names. A text that would leave the map
// or cover an earlier one everywhere is hidden.
function placeTexts(plot) {
  if (!plot.drawn) return;
  const { x, y } = currentView(plot);
  const { clientWidth, clientHeight } = plot.textLayer;
  const placed = chosenBoxes(plot);
  const acrossOf = (row) => (clientWidth * (plot.run.x[row] - x[0])) / (x[1] - x[0]);
  const downOf = (row) => (clientHeight * (y[1] - plot.run.y[row])) / (y[1] - y[0]);
  const step = Math.ceil(plot.shown.length / MAX_COUNTED_POINTS);
  const counted = plot.shown.filter((_, index) => index % step === 0);
  const points = Array.from(counted, (row) => [acrossOf(row), downOf(row)]);
  for (const text of plot.texts) {
    const { element } = text;
    const boxes = possibleBoxes(text, acrossOf(text.at), downOf(text.at), clientWidth, clientHeight);
    const near = boxes.filter(({ distance }, index) => index === 0 || distance <= MAX_DISTANCE);
    const free = near.filter((candidate) => !placed.some((other) => overlap(candidate, other)));
    const box = cheapest(free, ({ distance, ...sides }) => distance + PIXELS_PER_POINT * step * countInside(points, sides));
    element.style.visibility = box ? "visible" : "hidden";
    if (!box) continue;
    placed.push(box);
    element.style.left = `${box.left}px`;
    element.style.top = `${box.top}px`;
  }
}

// Boxes within the map for a text about a point, with the distance of their middle from it; none if it is out of view.
function possibleBoxes({ width, height, shifts }, across, down, mapWidth, mapHeight) {
  if (across < 0 || across > mapWidth || down < 0 || down > mapHeight) return [];
  return shifts.map(([right, below]) => {
    const left = Math.min(Math.max(across + (right - 0.5) * width, 2), mapWidth - width - 2);
    const top = Math.min(Math.max(down + (below - 0.5) * height, 2), mapHeight - height - 2);
    const distance = Math.hypot(left + width / 2 - across, top + height / 2 - down);
    return { left, top, right: left + width + TEXT_MARGIN, bottom: top + height + TEXT_MARGIN, distance };
  });
}

function countInside(points, { left, top, right, bottom }) {
  let n = 0;
  for (const [x, y] of points) if (x > left && x < right && y > top && y < bottom) n++;
  return n;
}

function cheapest(items, cost) {
  let [best, lowest] = [undefined, Infinity];
  for (const item of items) {
    const own = cost(item);
    if (own < lowest) [best, lowest] = [item, own];
  }
  return best;
}

// The label and the ring of the chosen node are above all texts, so no text goes below them.
function chosenBoxes(plot) {
  const frame = plot.textLayer.getBoundingClientRect();
  return Array.from(plot.overlay.querySelectorAll(".tag, .ring.chosen"), (element) => {
    const box = element.getBoundingClientRect();
    const [left, top] = [box.left - frame.left, box.top - frame.top];
    return { left, top, right: left + box.width + TEXT_MARGIN, bottom: top + box.height + TEXT_MARGIN };
  });
}

function overlap(a, b) {
  return a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
}
