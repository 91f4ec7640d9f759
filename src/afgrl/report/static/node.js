"use strict";
// The panel of the chosen node: its columns, its edges, and its nearest nodes with the reasons why they are similar.

const MAX_LISTED_EDGES = 12;

async function chooseNode(id) {
  showError("");
  page.chosen = id;
  const matches = await Promise.all(
    page.runs.map((run) => page.source.node(run, id, page.nNeighbors)),
  ).catch((error) => showError(error.message));
  if (!matches || page.chosen !== id) return;
  renderNode(matches);
  renderProjectionNote();
  page.plots.forEach((plot, index) => {
    const match = matches[index];
    if (match) reveal(plot, match.row);
    markNodes(plot, match);
  });
}

// `matches` has {row, facts, neighbors} for each run that contains the chosen node, null for the others.
function renderNode(matches) {
  page.matches = matches;
  const first = matches.findIndex(Boolean);
  if (first < 0) return byId("node").replaceChildren(...hint());
  const common = commonNeighbors(matches);
  byId("node").replaceChildren(
    nodeHeading(page.runs[first], matches[first].row),
    columnList(page.runs[first], matches[first].row),
    ...edgeList(page.runs[first], matches[first].facts),
    make(
      "h3",
      {},
      page.live ? [neighborCountInput(), " nearest nodes"] : `${matches[first].neighbors.length} nearest nodes`,
      make("span", { class: "note" }, "cosine similarity"),
    ),
    ...matches.flatMap((match, index) => neighborsInRun(page.runs[index], match, common)),
    common.size ? make("p", { class: "note" }, `Bold: among the nearest in every run (${common.size}).`) : "",
  );
}

// The name with the id beside it, or the id.
function nodeHeading(run, row) {
  const name = nodeName(run, row);
  const id = name === null ? [] : [make("span", { class: "note" }, truncate(run.ids[row], 60))];
  return make("h3", { class: "name" }, truncate(name ?? run.ids[row], 200), ...id);
}

function hint() {
  return [
    make("h3", {}, "Node"),
    make(
      "p",
      { class: "note" },
      "Click a point or search for an id to see a node's columns and its most similar nodes.",
    ),
  ];
}

// Ids that are among the nearest nodes in every run; none if there is only one run.
function commonNeighbors(matches) {
  if (matches.length < 2) return new Set();
  const idSets = matches.map((match, index) => new Set(match?.neighbors.map(({ row }) => page.runs[index].ids[row])));
  return idSets.reduce((common, ids) => new Set([...common].filter((id) => ids.has(id))));
}

function columnList(run, row) {
  const cells = run.columns.flatMap((column) => {
    const text = cellText(column, row);
    return [
      make("dt", {}, truncate(column.name, 40)),
      make("dd", { class: text === null ? "empty" : null }, text ?? "no value"),
    ];
  });
  return make("dl", { class: "cells" }, cells);
}

// The nodes that an edge links to the chosen one, which the map shows as lines.
function edgeList(run, { degree, edges }) {
  const chip = (row) =>
    make("li", {}, button(truncate(nodeLabel(run, row), 40), { class: "chip" }, () => chooseNode(run.ids[row])));
  const listed = edges.slice(0, MAX_LISTED_EDGES);
  const notDrawn = edges.length < degree ? `; the map shows ${formatCount(edges.length)} of them` : "";
  const more = degree > listed.length ? ` The ${listed.length} with the fewest edges of their own are listed.` : "";
  return [
    make("h3", {}, degree ? plural(degree, "edge") : "No edges"),
    degree ? make("p", { class: "note" }, `Lines on the map${notDrawn}.${more}`) : "",
    make("ul", { class: "selected", "aria-label": "Linked nodes" }, listed.map(chip)),
  ];
}

function neighborsInRun(run, match, common) {
  const heading = page.runs.length > 1 ? [make("h4", {}, runTag(run))] : [];
  const list = match
    ? make(
        "ol",
        { class: "neighbors" },
        match.neighbors.map((neighbor) => neighborItem(run, match, neighbor, common)),
      )
    : make("p", { class: "note" }, "This run does not contain the node.");
  return [...heading, list];
}

// A button that chooses the neighbor, and below it what the two nodes have in common and what differs.
function neighborItem(run, match, neighbor, common) {
  const { row, similarity } = neighbor;
  const id = run.ids[row];
  const column = columnNamed(run, page.color);
  const { shared, different } = explainPair(run, match.row, match.facts, neighbor);
  const reason = (heading, texts) =>
    texts.length ? make("p", { class: "reason" }, make("b", {}, `${heading}: `), texts.join(" · ")) : null;
  return make(
    "li",
    { class: common.has(id) ? "common" : null },
    button(
      [
        swatch(page.coloring, page.coloring.bins[run.index][row]),
        make("span", { class: "id" }, truncate(nodeLabel(run, row), 80)),
        make("span", { class: "column-value" }, truncate((column && groupName(run, column, row)) ?? "", 30)),
        make("span", { class: "similarity" }, similarity.toFixed(4)),
      ],
      { class: "neighbor", title: truncate(nodeLabel(run, row), 200) },
      () => chooseNode(id),
    ),
    reason("Shared", shared),
    reason("Different", different),
  );
}

function neighborCountInput() {
  const input = make("input", {
    type: "number",
    min: "1",
    max: "100",
    value: String(page.nNeighbors),
    id: "neighbor-count",
    "aria-label": "Number of nearest nodes",
  });
  input.addEventListener("change", () => {
    if (!input.reportValidity()) return;
    page.nNeighbors = Number(input.value);
    chooseNode(page.chosen);
  });
  return input;
}
