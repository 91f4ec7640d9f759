"use strict";
// Everything on the page but the map: what the data is, what training did, scores, settings.

function dataFacts(run) {
  const { data } = run;
  const facts = [["nodes", count(data.nodes ?? run.n)]];
  if (data.edges !== undefined) facts.push(["edges", count(data.edges)]);
  if (data.features !== undefined) facts.push(["features", count(data.features)]);
  if (data.isolated) facts.push(["without an edge", count(data.isolated)]);
  return facts;
}

function trainingFacts(run) {
  const facts = [
    ["dimensions", count(run.width)],
    ["method", run.order.method ?? "–"],
  ];
  const epochs = (run.history.epoch ?? []).slice(-1)[0];
  if (epochs !== undefined) facts.push(["epochs", count(epochs)]);
  if (run.settings.seed !== undefined) facts.push(["seed", String(run.settings.seed)]);
  return facts;
}

function sourceName(run) {
  return run.data.name || run.order.source || "vectors saved from Python";
}

function renderTop(runs, live) {
  const title = runs.length > 1 ? `${runs.length} runs compared` : runs[0].name;
  document.title = `${title} · afgrl`;
  const fact = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  const facts = (run) => make("dl", { class: "facts" }, [...dataFacts(run), ...trainingFacts(run)].map(fact));
  byId("top").append(
    make(
      "div",
      { class: "bar" },
      make("p", { class: "brand" }, live ? "afgrl explore" : "afgrl report"),
      make("nav", { "aria-label": "Sections", id: "sections" }),
    ),
    make("div", { class: "title" }, make("h1", {}, title), runs.length > 1 ? "" : facts(runs[0])),
    runs.length > 1 ? overview(runs) : "",
    warnings(runs) ?? "",
  );
}

function renderNavigation() {
  const parts = Array.from(document.querySelectorAll("main > section")).filter((section) => !section.hidden);
  byId("sections").replaceChildren(
    ...parts.map((section) => make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)),
  );
}

function overview(runs) {
  const facts = (run) => new Map([["data", sourceName(run)], ...dataFacts(run), ...trainingFacts(run)]);
  const all = runs.map(facts);
  const heads = [...new Set(all.flatMap((own) => [...own.keys()]))];
  const rows = runs.map((run, place) => [runTag(run), ...heads.map((head) => all[place].get(head))]);
  return table(["run", ...heads], rows, (place) => place > 1 && heads[place - 1] !== "method");
}

function runTag(run) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = runColor(run);
  return make("span", { class: "run" }, swatch, brief(run.name, 40));
}

// What must not be overlooked: suspicious data, and vectors that have collapsed.
function warnings(runs) {
  const said = new Map(); // a sentence → the runs it is about
  for (const run of runs) {
    const own = (run.data.notes ?? []).filter((note) => note.kind === "suspicious").map((note) => note.text);
    for (const text of [...own, ...collapse(run)]) said.set(text, [...(said.get(text) ?? []), run.name]);
  }
  const sentence = ([text, names]) => (names.length < runs.length ? `${names.join(", ")}: ${text}` : text);
  return said.size
    ? make(
        "ul",
        { class: "warnings" },
        Array.from(said, (entry) => make("li", {}, sentence(entry))),
      )
    : null;
}

function collapse(run) {
  const last = (name) => (run.history[name] ?? []).filter((value) => value !== null).slice(-1)[0];
  if (last("spread") < 0.05)
    return ["The vectors have collapsed: at the end of training nearly all point one way (spread below 0.05)."];
  if (last("rank") < 1.5)
    return ["The vectors have collapsed onto a line: at the end of training they fill one dimension (rank below 1.5)."];
  return [];
}

const DATA_FACTS = {
  density: "share of features that are not 0",
  components: "parts that no edge joins",
  largest_component: "nodes in the largest part",
  mean_degree: "neighbors of a node, mean",
  largest_degree: "neighbors of a node, most",
  classes: "classes",
  labeled: "nodes with a label",
  homophily: "share of edges within a class",
};

function renderData(runs) {
  const titles = {
    understood: "What was understood",
    repaired: "What was repaired",
    suspicious: "What looks suspicious",
  };
  const more = (run) =>
    Object.entries(DATA_FACTS).flatMap(([key, name]) =>
      (run.data[key] ?? null) === null ? [] : [[name, figure(run.data[key])]],
    );
  const known = runs.flatMap((run) => {
    const facts = [...dataFacts(run), ...more(run)];
    if (!Object.keys(run.data).length) return [];
    return [
      make(
        "div",
        {},
        make("h3", {}, runs.length > 1 ? runTag(run) : sourceName(run)),
        table(null, facts, (place) => place === 1),
      ),
    ];
  });
  const parts = runs.flatMap((run) =>
    Object.entries(titles).flatMap(([kind, title]) => {
      const notes = (run.data.notes ?? []).filter((note) => note.kind === kind);
      if (!notes.length) return [];
      const head = runs.length > 1 ? `${run.name}: ${title.toLowerCase()}` : title;
      return [
        make(
          "div",
          {},
          make("h3", {}, head),
          make(
            "ul",
            { class: "notes" },
            notes.map((note) => make("li", {}, note.text)),
          ),
        ),
      ];
    }),
  );
  if (known.length + parts.length) showSection("data", make("div", { class: "columns" }, known, parts));
}

function showSection(id, ...content) {
  const section = byId(id);
  section.append(...content.filter(Boolean));
  section.hidden = false;
}

const HISTORY = [
  {
    names: ["loss"],
    title: "Loss",
    y: "loss",
    say: "It should fall and level off. A collapsed training has a low loss too, so look at spread and rank.",
  },
  {
    names: ["spread"],
    title: "Spread",
    y: "spread",
    from: 0,
    say: "0: all vectors point one way, which is collapse. It should stay well above 0.",
  },
  {
    names: ["rank"],
    title: "Rank",
    y: "dimensions in use",
    from: 0,
    say: "How many dimensions the vectors fill. A fall towards 1 is collapse.",
  },
  {
    names: ["drift"],
    title: "Drift",
    y: "1 − cosine to the start",
    from: 0,
    say: "How far vectors have turned since before training. Near 0: training changed little.",
  },
  {
    names: ["local", "global"],
    title: "Positives",
    y: "share",
    from: 0,
    say: "Of the pairs drawn together: those that are adjacent (local, solid), those in one cluster (global, dashed).",
  },
];

function renderTraining(runs) {
  const panels = HISTORY.flatMap(({ names, title, y, from, say }) => {
    const lines = names.flatMap((name, place) =>
      runs
        .filter((run) => run.history[name])
        .map((run) => ({
          name: runs.length > 1 ? `${run.name}, ${name}` : name,
          color: runColor(run),
          x: run.history.epoch,
          y: run.history[name],
          dash: place ? "dash" : null,
        })),
    );
    if (!lines.length) return [];
    const log = title === "Loss" && lines.every((line) => line.y.every((value) => value === null || value > 0));
    const more = log ? powerTicks(lines.flatMap((line) => line.y)) : from === undefined ? {} : { rangemode: "tozero" };
    return [panel(title, lineChart(`${title} by epoch`, lines, "epoch", y, more), say)];
  });
  if (!panels.length) return;
  const key = runs.length > 1 ? make("p", { class: "key" }, runs.map(runTag)) : null;
  showSection("training", key, make("div", { class: "panels" }, panels));
}

function renderSettings(runs) {
  const named = [...new Set(runs.flatMap((run) => Object.keys({ ...run.order, ...run.settings })))];
  const value = (run, name) => JSON.stringify(run.settings[name] ?? run.order[name]) ?? "–";
  const differs = (name) => new Set(runs.map((run) => value(run, name))).size > 1;
  const rows = (names) =>
    names.map((name) => [name, ...runs.map((run) => make("code", {}, brief(value(run, name), 80)))]);
  const heads = ["setting", ...runs.map((run) => (runs.length > 1 ? runTag(run) : "value"))];
  const different = named.filter(differs),
    alike = named.filter((name) => !differs(name));
  const folded = make(
    "details",
    {},
    make(
      "summary",
      {},
      runs.length > 1 ? `${alike.length} settings that are the same` : `All ${alike.length} settings`,
    ),
    table(heads, rows(alike)),
  );
  const commands = runs.filter((run) => run.command).map((run) => commandLine(run, runs.length > 1));
  showSection(
    "settings",
    commands.length ? make("h3", {}, "To repeat it") : null,
    ...commands,
    runs.length > 1 ? make("h3", {}, different.length ? "Settings that differ" : "All settings are the same") : null,
    different.length ? table(heads, rows(different)) : null,
    folded,
    versions(runs, heads),
  );
}

function commandLine(run, named) {
  const words = make("code", {}, run.command);
  const copy = button("Copy", { "aria-label": `Copy the command that repeats ${run.name}` }, async () => {
    window.getSelection().selectAllChildren(words); // some browsers give a file no clipboard
    await navigator.clipboard?.writeText(run.command);
    copy.textContent = navigator.clipboard ? "Copied" : "Selected";
  });
  return make("div", { class: "command" }, named ? runTag(run) : null, words, copy);
}

function versions(runs, heads) {
  const flat = runs.map(({ environment: { versions: packages, ...rest } }) => ({ ...rest, ...packages }));
  const names = [...new Set(flat.flatMap(Object.keys))];
  if (!names.length) return null;
  const rows = names.map((name) => [name, ...flat.map((own) => String(own[name] ?? "–"))]);
  return make("details", {}, make("summary", {}, "Versions and machine"), table(["", ...heads.slice(1)], rows));
}
