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
  const explanation = "Each card lists the features that distinguish the cluster most, and its most central nodes.";
  return [
    make("p", { class: "note" }, `${chosen}${of} ${explanation}`),
    make(
      "div",
      { class: "cards" },
      clusters.map((cluster) => clusterCard(run, cluster)),
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

function clusterCard(run, cluster) {
  const short = (number) => formatNumber(Number(Number(number).toPrecision(3)));
  const features = (cluster.features ?? [])
    .slice(0, MAX_CARD_FEATURES)
    .map((feature) => [truncate(feature.name, 28), short(feature.here), short(feature.elsewhere)]);
  const nodes = (cluster.closest ?? [])
    .slice(0, MAX_CARD_NODES)
    .map((id) => button(truncate(labelOfId([run], String(id)), 24), { class: "chip" }, () => chooseNode(String(id))));
  const showLabel = `Show cluster ${cluster.cluster} in the projection`;
  return make(
    "article",
    { class: "card" },
    make(
      "h3",
      {},
      `Cluster ${cluster.cluster}`,
      make("span", { class: "note" }, plural(cluster.size, "node")),
      button("Show", { class: "link", "aria-label": showLabel }, () => isolateCluster(run, String(cluster.cluster))),
    ),
    features.length ? table(["feature", "mean here", "mean elsewhere"], features, (index) => index > 0) : null,
    nodes.length ? make("p", { class: "chips" }, make("span", { class: "note" }, "Central nodes: "), nodes) : null,
  );
}
