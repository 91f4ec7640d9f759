"use strict";
// Text on the map: the names of groups at their centers, and the names of the clusters' central nodes. A text that would
// cover another one is left out until there is room, so zooming in shows more.

const MAX_GROUP_NAME = 90; // characters
const LARGE_GROUP = 100; // nodes; the name of a smaller group would hide it, so it is next to it
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
  const names = groups.map(({ rows, code }) => ({
    at: centerRow(run, rows),
    shifts: rows.length < LARGE_GROUP ? [-1, 1, 0, -2, 2] : [0, -1, 1, -2, 2], // in heights of the text
    element: make("span", { class: "group-name" }, groupText(groupLabel(run, column, column.values[code]))),
  }));
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
    return [{ at: row, shifts: [0.9, -0.9], element }];
  });
}

function showMapTexts(plot) {
  plot.texts = mapTexts(plot);
  plot.textLayer.replaceChildren(...plot.texts.map(({ element }) => element));
  for (const text of plot.texts) {
    const { width, height } = text.element.getBoundingClientRect();
    Object.assign(text, { width, height });
  }
  placeTexts(plot);
}

// Places the texts in order: a name at the center of its group, or above or below it; the id of a node next to its point.
// A text that would leave the map or cover an earlier one everywhere is hidden.
function placeTexts(plot) {
  if (!plot.drawn) return;
  const { x, y } = currentView(plot);
  const { clientWidth, clientHeight } = plot.textLayer;
  const placed = chosenBox(plot);
  for (const { at, element, width, height, shifts } of plot.texts) {
    const across = (clientWidth * (plot.run.x[at] - x[0])) / (x[1] - x[0]);
    const down = (clientHeight * (y[1] - plot.run.y[at])) / (y[1] - y[0]);
    const isInView = across >= 0 && across <= clientWidth && down >= 0 && down <= clientHeight;
    const left = Math.min(Math.max(across - width / 2, 2), clientWidth - width - 2);
    const boxes = shifts.map((shift) => {
      const top = Math.min(Math.max(down - height / 2 + shift * height, 2), clientHeight - height - 2);
      return { left, top, right: left + width + TEXT_MARGIN, bottom: top + height + TEXT_MARGIN };
    });
    const box = isInView ? boxes.find((candidate) => !placed.some((other) => overlap(candidate, other))) : undefined;
    element.style.visibility = box ? "visible" : "hidden";
    if (!box) continue;
    placed.push(box);
    element.style.left = `${box.left}px`;
    element.style.top = `${box.top}px`;
  }
}

// The label of the chosen node is above all texts, so no text goes below it.
function chosenBox(plot) {
  const tag = plot.overlay.querySelector(".tag")?.getBoundingClientRect();
  if (!tag) return [];
  const frame = plot.textLayer.getBoundingClientRect();
  const [left, top] = [tag.left - frame.left, tag.top - frame.top];
  return [{ left, top, right: left + tag.width + TEXT_MARGIN, bottom: top + tag.height + TEXT_MARGIN }];
}

function overlap(a, b) {
  return a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
}
