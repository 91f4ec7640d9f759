"use strict";
// Loads the runs, and connects the plots, the panels and the sections.

const MAX_DRAWN_PLOTS = 4; // with more runs, only the plots in view are drawn

const page = {
  runs: [],
  plots: [],
  source: STORED_SOURCE,
  live: false, // true in the explorer
  color: "", // name of the column that colors the nodes
  coloring: null,
  hiddenBins: new Set(), // of the legend
  showsNames: true, // on the map
  only: null, // the cluster shown alone: {run, label, passes}
  filters: new Map(), // column → filter
  chosen: null, // id
  opener: null, // what had the focus when the node was chosen
  matches: [], // the chosen node in each run
  nNeighbors: 10,
  selection: null, // panel of the explorer
};

async function start() {
  const payload = await loadPayload();
  page.live = payload.live;
  if (page.live) hideToken();
  page.source = payload.live ? SERVER_SOURCE : STORED_SOURCE;
  page.runs = payload.runs.map(decodeRun);
  renderHeader(page.runs, page.live);
  renderClusters(page.runs);
  renderTraining(page.runs);
  renderScores(page.runs, payload.best);
  renderQuality(page.runs);
  renderData(page.runs);
  renderSettings(page.runs);
  renderNavigation();
  renderProjection();
  await recolor(defaultColor());
  await drawCharts();
  document.documentElement.dataset.ready = "yes";
}

// The server's picture of a large run is on the screen until the points are.
function removePicture() {
  byId("picture")?.remove();
}

function renderProjection() {
  const { runs } = page;
  renderProjectionNote();
  const what = runs.some((run) => run.nameColumn) ? "id or name" : "id";
  byId("search").append(...searchBox(suggestIds, chooseNode, what, (id) => labelOfId(runs, id)));
  byId("color").append(...colorChoices().map(([value, text]) => make("option", { value }, text)));
  byId("color").addEventListener("change", (event) => recolor(event.target.value));
  page.plots = runs.map(addPlot);
  document.body.classList.toggle("several", runs.length > 1);
  renderTools();
  document.addEventListener("keydown", closeNodeOnEscape);
  if (page.live) renderExplorerPanels();
  renderNode([]);
  if (runs.length > MAX_DRAWN_PLOTS) drawPlotsInView();
}

function renderProjectionNote() {
  const [run] = page.runs;
  byId("projection-note").textContent = projectionNote(run.projection.name) + sampleNote(run);
}

function projectionNote(name) {
  const notes = {
    tsne: "t-SNE: nearby points are similar nodes. Group sizes and distances between groups carry little meaning.",
    pca: "PCA: the two directions in which the vectors vary most. Distances are meaningful, but groups can overlap.",
  };
  return notes[name] ?? `The stored projection “${name}”.`;
}

// Ids of the first run, and ids that only the other runs contain.
async function suggestIds(text) {
  const [first, ...others] = page.runs;
  const ids = [...(await page.source.search(first, text)), ...others.flatMap((run) => searchIds(run, text))];
  return [...new Set(ids)].slice(0, MAX_SUGGESTIONS);
}

function addPlot(run) {
  const keys = "Arrow keys move the view, plus and minus zoom, 0 shows all nodes. The search box finds nodes.";
  const label = `2-D projection of ${run.name}: ${plural(run.n, "node")}. ${keys}`;
  const holder = make("div", { class: "plot", role: "application", tabindex: "0", "aria-label": label });
  // What the layers show is also in the panel of the chosen node and in the cards of the clusters.
  const lines = makeSvg("svg", { class: "overlay lines", "aria-hidden": "true" });
  const [textLayer, overlay] = ["overlay texts", "overlay"].map((name) =>
    make("div", { class: name, "aria-hidden": "true" }),
  );
  byId("plots").append(
    make(
      "figure",
      { class: "projection" },
      page.runs.length > 1 ? make("figcaption", {}, runTag(run)) : null,
      make("div", { class: "frame" }, holder, lines, textLayer, overlay),
    ),
  );
  return createPlot(run, holder, { lines, textLayer, overlay }, {
    click: (row) => chooseNode(run.ids[row]),
    selected: (rows, shape) => page.selection?.select(rows, shape),
  });
}

async function redraw() {
  renderLegend();
  const asksServer = page.live && page.runs[0].sample;
  if (asksServer && !(await filterOnServer(page.runs[0]))) return;
  for (const plot of page.plots) {
    const { run } = plot;
    plot.shown = asksServer ? sampledRows(run) : sampledRows(run).filter((row) => isVisible(plot, row));
    plot.nFiltered = run.n;
  }
  renderProjectionNote();
  const wanted = page.plots.filter((plot) => plot.drawn || page.plots.length <= MAX_DRAWN_PLOTS);
  await Promise.all(wanted.map((plot) => drawPlot(plot, page.coloring)));
  page.selection?.select(null);
  if (page.chosen === null) return;
  renderNode(page.matches);
  if (asksServer) markNodes(page.plots[0], page.matches[0] ?? null); // nodes added as marks are points now
}

function renderTools() {
  const onEach = (action) => () => page.plots.filter((plot) => plot.drawn).forEach(action);
  const dragTools = page.live ? { pan: "Pan", select: "Box", lasso: "Lasso" } : {};
  const dragButton = ([tool, text]) =>
    button(text, { "data-tool": tool, "aria-pressed": String(tool === "pan") }, () => {
      page.plots.forEach((plot) => setTool(plot, tool));
      for (const other of document.querySelectorAll("[data-tool]"))
        other.setAttribute("aria-pressed", String(other.dataset.tool === tool));
    });
  const zoomIn = onEach((plot) => zoomBy(plot, ZOOM_STEP));
  const zoomOut = onEach((plot) => zoomBy(plot, 1 / ZOOM_STEP));
  byId("tools").append(
    ...Object.entries(dragTools).map(dragButton),
    button("+", { "aria-label": "Zoom in" }, zoomIn),
    button("−", { "aria-label": "Zoom out" }, zoomOut),
    namesButton(),
    button("Reset", { "aria-label": "Show all nodes" }, onEach(resetView)),
  );
}

function namesButton() {
  const toggle = button("Names", { "aria-pressed": "true", title: "Show or hide the names on the map" }, () => {
    page.showsNames = !page.showsNames;
    toggle.setAttribute("aria-pressed", String(page.showsNames));
    page.plots.filter((plot) => plot.drawn).forEach(showMapTexts);
  });
  return toggle;
}

function drawPlotsInView() {
  const observer = new IntersectionObserver((changes) =>
    changes.forEach(({ target, isIntersecting }) => {
      const plot = page.plots.find(({ holder }) => holder === target);
      if (isIntersecting) drawPlot(plot, page.coloring);
      else erasePlot(plot);
    }),
  );
  page.plots.forEach((plot) => observer.observe(plot.holder));
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
start().catch((error) => {
  showError(`The page could not be loaded: ${error.message}`);
  throw error;
});
