"use strict";
// Opens the runs, and ties the map, the panel and the sections together.

const page = {
  runs: [],
  maps: [],
  source: STORED,
  live: false,
  color: "",
  painting: null,
  hidden: new Set(),
  only: null,
  passes: () => true,
  selected: null,
  wanted: 10,
  selection: null,
};

async function start() {
  const payload = await loadPayload();
  page.live = payload.live;
  page.source = payload.live ? SERVER : STORED;
  page.runs = payload.runs.map(openRun);
  renderTop(page.runs, page.live);
  renderClusters(page.runs, choose, isolate);
  renderTraining(page.runs);
  renderScores(page.runs);
  renderData(page.runs);
  renderSettings(page.runs);
  renderNavigation();
  prepareMap();
  await recolor(defaultColor());
  await drawCharts();
  document.documentElement.dataset.ready = "yes";
}

function prepareMap() {
  const { runs } = page;
  byId("map-note").textContent = mapNote(runs[0].map.name);
  byId("search").append(...searchBox((text) => page.source.find(runs[0], text).then(alsoElsewhere(text)), choose));
  byId("color").append(...colorChoices().map(([value, text]) => make("option", { value }, text)));
  byId("color").addEventListener("change", (event) => recolor(event.target.value));
  page.maps = runs.map((run) => {
    const holder = make("div", {
      class: "plot",
      role: "application",
      "aria-label": `Map of ${run.name}: ${plural(run.n, "node")}. The search box finds nodes by keyboard.`,
    });
    const cover = make("div", { class: "cover", "aria-hidden": "true" });
    byId("maps").append(
      make(
        "figure",
        { class: "map" },
        runs.length > 1 ? make("figcaption", {}, runTag(run)) : null,
        make("div", { class: "frame" }, holder, cover),
      ),
    );
    return createMap(run, holder, cover, {
      click: (row) => choose(run.ids[row]),
      selected: (rows) => takeSelection(rows),
    });
  });
  document.body.classList.toggle("several", runs.length > 1);
  renderTools();
  if (page.live) prepareLive();
  renderNode([]);
  if (runs.length > 4) watchMaps();
}

function mapNote(name) {
  const known = {
    tsne: "By t-SNE: nodes next to each other are alike. Sizes of groups and distances between them mean little.",
    pca: "By principal components: the two directions in which the vectors differ most.",
  };
  return known[name] ?? `By the map kept as ${name}.`;
}

// Ids that only other runs have are suggested too.
function alsoElsewhere(text) {
  return (ids) => [...new Set([...ids, ...page.runs.slice(1).flatMap((run) => findIds(run, text, 12))])].slice(0, 12);
}

function colorChoices() {
  const names = [...new Set(page.runs.flatMap((run) => run.columns.map((column) => column.name)))];
  return [...names.map((name) => [name, brief(name, 40)]), ["", "nothing"]];
}

function defaultColor() {
  const columns = page.runs.flatMap((run) => run.columns);
  const first =
    columns.find((column) => column.role === "label") ??
    columns.find((column) => column.role === "cluster") ??
    columns[0];
  return first?.name ?? "";
}

async function recolor(name, only = null) {
  page.color = name;
  page.only = only;
  byId("color").value = name;
  page.hidden.clear();
  page.painting = paint(page.runs, name);
  await redraw();
}

async function redraw() {
  renderLegend();
  for (const map of page.maps) {
    map.shown = Int32Array.from(map.run.ids.keys()).filter((row) => visible(map, row));
  }
  const inView = page.maps.filter((map) => map.drawn || page.maps.length <= 4);
  await Promise.all(inView.map((map) => drawMap(map, page.painting)));
  page.selection?.show(null, page.maps[0].shown);
  if (page.selected !== null) renderNode(page.found);
}

function renderLegend() {
  const { painting } = page;
  if (painting.kind === "number") {
    const bar = make("span", { class: "scale", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${SCALE.join(",")})`;
    const low = (painting.cutLow ? "≤ " : "") + figure(painting.from),
      high = (painting.cutHigh ? "≥ " : "") + figure(painting.to);
    return byId("legend").replaceChildren(make("span", {}, low), bar, make("span", {}, high));
  }
  const entry = (one, bin) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = one.color;
    return button(
      [
        swatch,
        make("span", { class: "label" }, brief(one.label, 28)),
        page.runs.length > 1 ? "" : make("span", { class: "note" }, count(one.size)),
      ],
      { class: "entry", "aria-pressed": String(!page.hidden.has(bin)), title: "Show or hide" },
      () => toggle(bin),
    );
  };
  const back = page.only ? [button(`${page.only.label}: show all`, {}, () => recolor(page.color))] : [];
  const entries = painting.entries.map((one, bin) => (one.size ? entry(one, bin) : null)).filter(Boolean);
  byId("legend").replaceChildren(...back, ...entries);
}

function toggle(bin) {
  if (!page.hidden.delete(bin)) page.hidden.add(bin);
  return redraw();
}

// Shows one cluster alone, which may be one that the legend counts among the others.
async function isolate(run, cluster) {
  const column = run.columns.find((own) => own.role === "cluster");
  const code = column.values.indexOf(cluster);
  const passes = (row) => column.codes[row] === code;
  await recolor(column.name, { run, label: `Only cluster ${cluster}`, passes });
  byId("map").scrollIntoView();
}

function visible(map, row) {
  if (page.only?.run === map.run && !page.only.passes(row)) return false;
  return !page.hidden.has(page.painting.bins[map.run.place][row]) && page.passes(row);
}

async function choose(id) {
  complain("");
  page.selected = id;
  const found = await Promise.all(
    page.runs.map(async (run) => {
      const row = rowOf(run, id);
      return row === undefined ? null : { row, neighbors: await page.source.nearest(run, row, page.wanted) };
    }),
  ).catch((error) => complain(error.message));
  if (!found || page.selected !== id) return;
  renderNode(found);
  page.maps.forEach((map, place) => {
    if (found[place]) reveal(map, found[place].row);
    markNodes(map, found[place]?.row ?? null, found[place]?.neighbors ?? []);
  });
}

function renderNode(found) {
  page.found = found;
  const first = found.findIndex(Boolean);
  if (first < 0) return byId("node").replaceChildren(...hint());
  const near = found.map((own, place) => new Set(own?.neighbors.map(({ row }) => page.runs[place].ids[row])));
  const shared =
    found.length > 1 ? new Set([...near[first]].filter((id) => near.every((ids) => ids.has(id)))) : new Set();
  const lists = found.flatMap((own, place) => {
    const run = page.runs[place];
    const colorOf = (row) => page.painting.colors[page.painting.bins[place][row]];
    const column = columnNamed(run, page.color);
    const valueOf = (row) => (column && cellText(column, row)) ?? "";
    const head = found.length > 1 ? [make("h4", {}, runTag(run))] : [];
    return [
      ...head,
      own
        ? neighborList(run, own.neighbors, colorOf, valueOf, choose, shared)
        : make("p", { class: "note" }, "This run has no such node."),
    ];
  });
  const nearest = make(
    "h3",
    {},
    page.live
      ? [countOfNeighbors(page.wanted, wantNeighbors), " nearest nodes"]
      : `${found[first].neighbors.length} nearest nodes`,
    make("span", { class: "note" }, "cosine"),
  );
  byId("node").replaceChildren(
    make("h3", { class: "name" }, brief(page.selected, 200)),
    columnList(page.runs[first], found[first].row),
    nearest,
    ...lists,
    shared.size ? make("p", { class: "note" }, `Bold: near in every run (${shared.size}).`) : "",
  );
}

function wantNeighbors(wanted) {
  page.wanted = wanted;
  return choose(page.selected);
}

function renderTools() {
  const each = (action) => () => page.maps.filter((map) => map.drawn).forEach(action);
  const modes = page.live
    ? [
        ["pan", "Pan"],
        ["select", "Box"],
        ["lasso", "Lasso"],
      ]
    : [];
  const mode = ([tool, text]) =>
    button(text, { "data-tool": tool, "aria-pressed": String(tool === "pan") }, () => {
      page.maps.forEach((map) => setTool(map, tool));
      document
        .querySelectorAll("[data-tool]")
        .forEach((own) => own.setAttribute("aria-pressed", String(own.dataset.tool === tool)));
    });
  byId("tools").append(
    ...modes.map(mode),
    button(
      "+",
      { "aria-label": "Zoom in" },
      each((map) => zoomBy(map, 0.7)),
    ),
    button(
      "−",
      { "aria-label": "Zoom out" },
      each((map) => zoomBy(map, 1 / 0.7)),
    ),
    button("Reset", { "aria-label": "Show the whole map" }, each(resetView)),
  );
}

function prepareLive() {
  const [run] = page.runs;
  page.selection = selectionPanel(run, choose, () => redraw());
  byId("side").append(
    page.selection.element,
    filterPanel(run, (passes) => {
      page.passes = passes;
      redraw();
    }),
  );
}

function takeSelection(rows) {
  page.selection?.show(rows, page.maps[0].shown);
}

function watchMaps() {
  const watcher = new IntersectionObserver((seen) =>
    seen.forEach(({ target, isIntersecting }) => {
      const map = page.maps.find((own) => own.holder === target);
      if (isIntersecting) drawMap(map, page.painting);
      else eraseMap(map);
    }),
  );
  page.maps.forEach((map) => watcher.observe(map.holder));
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
start().catch((error) => {
  complain(`The page could not be built: ${error.message}`);
  throw error;
});
