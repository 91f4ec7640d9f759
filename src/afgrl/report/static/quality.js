"use strict";
// The section on quality: what `afgrl quality` measured without labels.

const QUALITY_NOTE =
  "Measured without labels, beside vectors that need no training. Link AUC: edges hidden before training against pairs " +
  "without an edge; modularity, conductance and entropy: of k-means clusters on the edges; rank: effective rank; cosine: " +
  "to the mean vector, 1 means collapse; hubness: skewness of how often a node is a neighbor.";

const STABILITY_MEASURES = { neighbors: "neighbors", clusters: "clusters" };

const INFORMATION = {
  both: "features and neighbors",
  features: "features only",
  neighbors: "neighbors only",
  nothing: "neither",
};

function renderQuality(allRuns) {
  const runs = allRuns.filter((run) => run.quality);
  if (!runs.length) return;
  const several = runs.length > 1;
  showSection(
    "quality",
    make("p", { class: "note" }, QUALITY_NOTE),
    ...runs.flatMap((run) => [
      several ? make("h3", {}, runTag(run)) : null,
      make("p", { class: "verdict" }, run.quality.verdict),
      measuresTable(run),
      make("div", { class: "columns" }, [stabilityTable(run), probeTable(run), informationTable(run)]),
    ]),
  );
}

function fixed(value, digits) {
  return value === null || value === undefined ? null : value.toFixed(digits);
}

function measuresTable(run) {
  const { columns, rows } = run.quality;
  const cells = (row) => [row.name, ...row.cells.map((value, index) => fixed(value, columns[index].digits))];
  return make(
    "div",
    {},
    table(
      `Measures without labels of ${run.name}`,
      ["vectors", ...columns.map(({ title }) => title)],
      rows.map((row) => ({ class: row.kind, cells: cells(row) })),
      (index) => index > 0,
    ),
    make("p", { class: "note" }, sizes(run)),
  );
}

function sizes(run) {
  const { n_clusters, links, nodes, samples } = run.quality;
  const parts = [`${n_clusters} clusters.`];
  if (links) parts.push(`${formatCount(links.scored)} hidden edges.`);
  for (const [title, rows] of [
    ["rank", samples.rank_nodes],
    ["hubness", samples.neighbor_nodes],
  ]) {
    if (rows < nodes) parts.push(`The ${title} is that of ${formatCount(rows)} random nodes.`);
  }
  return parts.join(" ");
}

function stabilityTable(run) {
  const { stability } = run.quality;
  if (!stability) return null;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const row = (name, suffix, found) => [
    `${run.quality.names[name] ?? name}${suffix}`,
    ...Object.keys(STABILITY_MEASURES).map((measure) => fixed(mean(found[measure]), 3)),
  ];
  const rows = [
    ...Object.entries(stability.edges).map(([name, found]) => row(name, "", found)),
    ...Object.entries(stability.seeds).map(([name, found]) => row(name, ", another seed", found)),
  ];
  const headings = ["vectors", ...Object.values(STABILITY_MEASURES)];
  const kept = `${Math.round(100 * stability.kept_share)} %`;
  return make(
    "div",
    {},
    make("h3", {}, "Stability"),
    table("Stability", headings, rows, (index) => index > 0),
    make(
      "p",
      { class: "note" },
      `With ${kept} of the edges, or another seed: share of common nearest neighbors, and adjusted Rand index of clusters.`,
    ),
  );
}

function probeTable(run) {
  const { labels } = run.quality;
  if (!labels) return null;
  const rows = Object.entries(labels.accuracy ?? {}).map(([name, { mean, low, high }]) => [
    run.quality.names[name] ?? name,
    fixed(mean, 1),
    `${fixed(low, 1)} to ${fixed(high, 1)}`,
  ]);
  const headings = ["vectors", "accuracy %", "95 % interval"];
  return make(
    "div",
    {},
    make("h3", {}, "Probe"),
    rows.length ? table("Probe accuracy", headings, rows, (index) => index > 0) : null,
    make("p", { class: "note" }, labels.sentence),
  );
}

function informationTable(run) {
  const rows = Object.entries(INFORMATION).map(([kind, title]) => [
    title,
    `${fixed(100 * (run.quality.information[kind] ?? 0), 1)} %`,
  ]);
  return make(
    "div",
    {},
    make("h3", {}, "What decides a vector"),
    table("What decides a vector", ["decided by", "share of nodes"], rows, (index) => index === 1),
  );
}
