"use strict";
// The panel of the chosen node: its columns, its edges, and its nearest nodes with the reasons why they are similar.

const MAX_LISTED_EDGES = 12;
const MAX_ANNOUNCED = 3; // nearest nodes

async function chooseNode(id) {
  showError("");
  page.chosen = id;
  if (!byId("node").contains(document.activeElement)) page.opener = document.activeElement;
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
  announceNode(matches);
}

// Empties the panel. The focus goes back to what opened it.
function closeNode() {
  const hadFocus = byId("node").contains(document.activeElement);
  page.chosen = null;
  renderNode([]);
  page.plots.forEach((plot) => markNodes(plot, null));
  const opener = page.opener?.isConnected && page.opener !== document.body ? page.opener : byId("search-box");
  if (hadFocus) opener.focus();
}

// Escape closes the panel from everywhere. In the search box it first closes the list, or empties the box.
function closeNodeOnEscape(event) {
  const isForBox = event.target.id === "search-box" && event.target.value !== "";
  if (event.key === "Escape" && page.chosen !== null && !isForBox) closeNode();
}

function announceNode(matches) {
  const first = matches.findIndex(Boolean);
  if (first < 0) return;
  const run = page.runs[first];
  const { row, facts, neighbors } = matches[first];
  const nearest = neighbors.slice(0, MAX_ANNOUNCED).map((neighbor) => nodeTag(run, neighbor.row));
  announce(`Node ${nodeLabel(run, row)}: ${plural(facts.degree, "edge")}. Nearest nodes: ${nearest.join(", ")}.`);
}

// `matches` has {row, facts, neighbors} for each run that contains the chosen node, null for the others.
// The focus stays in the panel if it was there: on the number of neighbors, or on the name of the new node.
function renderNode(matches) {
  page.matches = matches;
  const panel = byId("node");
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : null;
  panel.replaceChildren(...nodeContent(matches));
  if (focused !== null) (byId(focused) ?? byId("node-title"))?.focus();
}

function nodeContent(matches) {
  const first = matches.findIndex(Boolean);
  if (first < 0) return hint();
  const common = commonNeighbors(matches);
  return [
    nodeHeading(page.runs[first], matches[first].row),
    columnList(page.runs[first], matches[first].row),
    ...edgeList(page.runs[first], matches[first].facts),
    make(
      "h3",
      {},
      page.live ? [neighborCountInput(), " nearest nodes"] : nearestTitle(matches[first]),
      make("span", { class: "note" }, "cosine similarity"),
    ),
    ...matches.flatMap((match, index) => neighborsInRun(page.runs[index], match, common)),
    common.size ? make("p", { class: "note" }, `Bold: among the nearest in every run (${common.size}).`) : "",
  ];
}

function nearestTitle({ neighbors }) {
  return neighbors.length ? `${neighbors.length} nearest nodes` : "Nearest nodes are in this file for points of the map";
}

// The name with the id beside it, or the id.
function nodeHeading(run, row) {
  const name = nodeName(run, row);
  const id = name === null ? [] : [make("span", { class: "note" }, truncate(run.ids[row], 60))];
  const title = make("h3", { class: "name", id: "node-title", tabindex: "-1" }, truncate(name ?? run.ids[row], 200), ...id);
  return make("div", { class: "node-heading" }, title, button("Close", { "aria-label": "Close this node" }, closeNode));
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
      make("dt", {}, breakable(truncate(column.name, 40))),
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
  const isPart = run.sample && !page.live; // linked nodes that are not in the file are missing, not only common ones
  const fewest = degree > listed.length && !isPart;
  const more = fewest ? ` The ${listed.length} with the fewest edges of their own are listed.` : "";
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
        { class: "neighbors", "aria-label": "Nearest nodes" },
        match.neighbors.map((neighbor) => neighborItem(run, match, neighbor, common)),
      )
    : make("p", { class: "note" }, run.sample ? "The sample lacks this node." : "This run does not contain the node.");
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
