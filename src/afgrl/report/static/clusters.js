"use strict";
// The section on clusters: a card for each cluster.

const MAX_CARD_FEATURES = 4;
const MAX_CARD_NODES = 4;

function renderClusters(allRuns) {
  const runs = allRuns.filter((run) => run.clusters);
  for (const run of runs) {
    const content = clusterContent(run);
    const folded = () => make("details", {}, make("summary", {}, runTag(run)), ...content);
    showSection("clusters", ...(runs.length > 1 ? [folded()] : content));
  }
}

function clusterContent(run) {
  const { k, clustered, criterion, tried = [], clusters } = run.clusters;
  const chosen =
    tried.length > 1 ? `${k} clusters; this number was chosen by ${criterion}.` : `${plural(k, "cluster")}.`;
  const of = clustered ? ` k-means on the ${clustered}.` : "";
  const explanation =
    "Each card lists what distinguishes the cluster most, as means and shares of nodes here and elsewhere.";
  return [
    make("p", { class: "note" }, `${chosen}${of} ${explanation}`),
    make(
      "div",
      { class: "cards" },
      clusters.map((cluster) => renderCard(run, cluster)),
    ),
    tried.length > 1
      ? make(
          "details",
          {},
          make("summary", {}, "How the number of clusters was chosen"),
          panel(criterion, criterionChart(run)),
        )
      : "",
  ];
}

function criterionChart(run) {
  const { criterion, tried } = run.clusters;
  const line = {
    name: criterion,
    color: runColor(run),
    x: tried.map(({ k }) => k),
    y: tried.map(({ value }) => value),
  };
  return lineChart(`${criterion} by number of clusters`, [line], "clusters", plotlyText(criterion));
}

function renderCard(run, cluster) {
  const { edges = { total: 0 } } = cluster;
  const features = (cluster.features ?? []).slice(0, MAX_CARD_FEATURES).map((feature) => [
    make("span", {}, breakable(feature.name)),
    ...meanTexts(feature),
  ]);
  const nodes = (cluster.closest ?? [])
    .slice(0, MAX_CARD_NODES)
    .map((id) => button(truncate(labelOfId([run], String(id)), 60), { class: "chip" }, () => chooseNode(String(id))));
  const showLabel = `Show cluster ${cluster.cluster} in the projection`;
  const tableName = `What distinguishes cluster ${cluster.cluster}`;
  const inside = edges.total ? `, ${formatCount(edges.inside)} of ${plural(edges.total, "edge")} inside` : "";
  const mark = groupMark(clusterColumn(run)?.values.indexOf(String(cluster.cluster)) ?? 0);
  return make(
    "article",
    { class: "card" },
    make(
      "h3",
      {},
      colorDot(mark.color, mark.marker),
      make("span", {}, breakable(cluster.name ?? `Cluster ${cluster.cluster}`)),
      button("Show", { class: "link", "aria-label": showLabel }, () => isolateCluster(run, String(cluster.cluster))),
    ),
    make("p", { class: "note" }, `Cluster ${cluster.cluster}: ${plural(cluster.size, "node")}${inside}.`),
    features.length ? table(tableName, ["", "here", "elsewhere"], features, (index) => index > 0) : null,
    nodes.length ? make("p", { class: "chips" }, make("span", { class: "note" }, "Central nodes: "), nodes) : null,
  );
}

// Means and shares as texts; runs of earlier versions have only numbers.
function meanTexts({ texts, here, elsewhere }) {
  return texts ?? [here, elsewhere].map((number) => formatNumber(Number(Number(number).toPrecision(3))));
}
