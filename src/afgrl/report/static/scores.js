"use strict";
// Scores and clusters.

function scoreText(cell, { digits }) {
  if (!cell) return null;
  return cell.mean.toFixed(digits) + (digits === 2 && cell.n > 1 ? ` ± ${cell.std.toFixed(2)}` : "");
}

// The rows of all runs: trained first, then what needs no training, said once where runs agree on it.
function scoreRows(runs) {
  const rows = runs.flatMap((run) => run.scores.rows.map((row) => ({ ...row, run })));
  const seen = new Set();
  const once = rows.filter((row) => {
    const same = JSON.stringify([row.run.scores.dataset, row.name, row.cells]);
    const first = row.kind !== "baseline" || !seen.has(same);
    seen.add(same);
    return first;
  });
  const twice = (row) => once.filter((other) => other.kind === "baseline" && other.name === row.name).length > 1;
  const named = once.map((row) =>
    row.kind === "baseline" && twice(row) ? { ...row, name: `${row.name}, ${row.run.name}` } : row,
  );
  return [...named.filter((row) => row.kind !== "baseline"), ...named.filter((row) => row.kind === "baseline")];
}

function scoreName(row, many) {
  if (!many) return row.name;
  if (row.kind === "trained") return row.run.name;
  return row.kind === "paper" ? `${row.run.name} (paper)` : row.name;
}

function renderScores(all) {
  const runs = all.filter((run) => run.scores);
  if (!runs.length) return;
  const rows = scoreRows(runs);
  const { headings } = runs[0].scores;
  const many = runs.length > 1;
  const cells = (row) => ({
    look: row.kind,
    cells: [
      many && row.kind === "trained" ? runTag(row.run) : scoreName(row, many),
      ...row.cells.map((cell, place) => scoreText(cell, headings[place])),
    ],
  });
  const paper = rows.some((row) => row.kind === "paper");
  showSection(
    "scores",
    make(
      "p",
      { class: "note" },
      "No label had a part in any choice: the last epoch's vectors, for every task. Below, what needs no training." +
        (paper
          ? " The paper's own protocol picks the epoch with labels, so its figures are higher than a user would see."
          : ""),
    ),
    table(["vectors", ...headings.map(({ title }) => title)], rows.map(cells), (place) => place > 0),
    make("p", { class: "note" }, [...new Set(runs.map((run) => `Splits: ${run.scores.splits}.`))].join(" ")),
    make("div", { class: "panels" }, scorePanels(rows, headings, many)),
  );
}

function scorePanels(rows, headings, many) {
  return headings.flatMap(({ title, charted }, place) => {
    if (!charted) return [];
    const dots = rows
      .filter((row) => row.cells[place])
      .map((row) => ({
        name: scoreName(row, many),
        trained: row.kind === "trained",
        color: row.kind === "baseline" ? theme().faint : runColor(row.run),
        ...row.cells[place],
      }));
    return dots.length ? [panel(title, dotChart(`${title} of trained and untrained vectors`, dots, title), null)] : [];
  });
}

// `choose(id)` selects a node, `isolate(run, cluster)` shows one cluster on the map.
function renderClusters(all, choose, isolate) {
  const runs = all.filter((run) => run.clusters);
  if (!runs.length) return;
  for (const run of runs) {
    const { k, criterion, tried = [], clusters } = run.clusters;
    const chart =
      tried.length > 1
        ? lineChart(
            `${criterion} by number of clusters`,
            [
              {
                name: criterion,
                color: runColor(run),
                x: tried.map((one) => one.k),
                y: tried.map((one) => one.value),
              },
            ],
            "clusters",
            plotText(criterion),
          )
        : null;
    const sentence =
      tried.length > 1 ? `${k} clusters, the number chosen by ${criterion}.` : `${plural(k, "cluster")}.`;
    const several = runs.length > 1;
    const parts = [
      make(
        "p",
        { class: "note" },
        `${sentence} Each with the features in which it differs most from the other nodes, and its most central nodes.`,
      ),
      make(
        "div",
        { class: "cards" },
        clusters.map((cluster) => clusterCard(run, cluster, choose, isolate)),
      ),
      chart
        ? make(
            "details",
            {},
            make("summary", {}, "How the number of clusters was chosen"),
            panel(criterion, chart, null),
          )
        : "",
    ];
    showSection("clusters", ...(several ? [make("details", {}, make("summary", {}, runTag(run)), ...parts)] : parts));
  }
}

function clusterCard(run, cluster, choose, isolate) {
  const short = (number) => figure(Number(Number(number).toPrecision(3)));
  const features = (cluster.features ?? [])
    .slice(0, 4)
    .map((feature) => [brief(feature.name, 28), short(feature.here), short(feature.elsewhere)]);
  const nodes = (cluster.closest ?? [])
    .slice(0, 4)
    .map((id) => button(brief(String(id), 24), { class: "chip" }, () => choose(String(id))));
  return make(
    "article",
    { class: "card" },
    make(
      "h3",
      {},
      `Cluster ${cluster.cluster}`,
      make("span", { class: "note" }, plural(cluster.size, "node")),
      button("Show", { class: "link", "aria-label": `Show cluster ${cluster.cluster} on the map` }, () =>
        isolate(run, String(cluster.cluster)),
      ),
    ),
    features.length ? table(["feature", "here", "elsewhere"], features, (place) => place > 0) : null,
    nodes.length ? make("p", { class: "chips" }, make("span", { class: "note" }, "Central: "), nodes) : null,
  );
}
