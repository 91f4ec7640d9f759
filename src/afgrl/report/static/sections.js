"use strict";
// The header and the sections on data and settings.

function showSection(id, ...content) {
  const section = byId(id);
  section.append(...content.filter(Boolean));
  section.hidden = false;
}

function runTag(run) {
  return make("span", { class: "run" }, colorDot(runColor(run)), truncate(run.name, 40));
}

function sourceName(run) {
  return run.data.name || run.spec.source || "saved from Python";
}

function dataFacts(run) {
  const { data } = run;
  const facts = [["nodes", formatCount(data.nodes ?? run.sample?.total ?? run.n)]];
  if (data.edges !== undefined) facts.push(["edges", formatCount(data.edges)]);
  if (data.features !== undefined) facts.push(["features", formatCount(data.features)]);
  if (data.isolated) facts.push(["isolated nodes", formatCount(data.isolated)]);
  return facts;
}

function trainingFacts(run) {
  const facts = [
    ["dimensions", formatCount(run.width)],
    ["method", run.spec.method ?? "–"],
  ];
  const lastStep = (run.history.epoch ?? []).slice(-1)[0];
  if (lastStep !== undefined) facts.push([`${stepName(run)}s`, formatCount(lastStep)]);
  if (run.settings.seed !== undefined) facts.push(["seed", String(run.settings.seed)]);
  return facts;
}

function renderHeader(runs, live) {
  const title = runs.length > 1 ? `Comparison of ${runs.length} runs` : runs[0].name;
  document.title = `${title} · afgrl`;
  const fact = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  const facts = (run) => make("dl", { class: "facts" }, [...dataFacts(run), ...trainingFacts(run)].map(fact));
  byId("header").append(
    make(
      "div",
      { class: "bar" },
      make("p", { class: "brand" }, live ? "afgrl explore" : "afgrl report"),
      make("nav", { "aria-label": "Sections", id: "navigation" }),
    ),
    make("div", { class: "title" }, make("h1", {}, title), runs.length > 1 ? "" : facts(runs[0])),
    runs.length > 1 ? comparisonTable(runs) : "",
    warnings(runs) ?? "",
  );
}

function renderNavigation() {
  const sections = Array.from(document.querySelectorAll("main > section")).filter((section) => !section.hidden);
  byId("navigation").replaceChildren(
    ...sections.map((section) => make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)),
  );
}

function comparisonTable(runs) {
  const facts = runs.map((run) => new Map([["data", sourceName(run)], ...dataFacts(run), ...trainingFacts(run)]));
  const names = [...new Set(facts.flatMap((ofRun) => [...ofRun.keys()]))];
  const rows = runs.map((run, index) => [runTag(run), ...names.map((name) => facts[index].get(name))]);
  return table("Runs", ["run", ...names], rows, (index) => index > 1 && names[index - 1] !== "method");
}

// Warnings of the ingest report, and collapsed vectors.
function warnings(runs) {
  const runsOf = new Map(); // warning → names of the runs it applies to
  for (const run of runs) {
    const ingest = (run.data.messages ?? []).filter(({ level }) => level === "warning").map(({ text }) => text);
    for (const text of [...ingest, ...collapseWarnings(run)]) runsOf.set(text, [...(runsOf.get(text) ?? []), run.name]);
  }
  if (!runsOf.size) return null;
  const item = ([text, names]) => make("li", {}, names.length < runs.length ? `${names.join(", ")}: ${text}` : text);
  return make("ul", { class: "warnings" }, Array.from(runsOf, item));
}

const DATA_FACTS = {
  density: "share of nonzero feature values",
  components: "connected components",
  largest_component: "nodes in the largest component",
  mean_degree: "mean degree",
  largest_degree: "largest degree",
  classes: "classes",
  labeled: "labeled nodes",
  homophily: "share of edges within a class (homophily)",
};

function renderData(runs) {
  const blocks = runs.flatMap((run) => [
    ...(Object.keys(run.data).length ? [dataBlock(run, runs.length > 1)] : []),
    ...(run.data.messages?.length ? [ingestReport(run, runs.length > 1)] : []),
  ]);
  if (blocks.length) showSection("data", make("div", { class: "columns" }, blocks));
}

function dataBlock(run, severalRuns) {
  const format = (value) => (Number.isInteger(value) ? formatCount(value) : formatNumber(value));
  const known = Object.entries(DATA_FACTS).filter(([key]) => (run.data[key] ?? null) !== null);
  const more = known.map(([key, name]) => [name, format(run.data[key])]);
  return make(
    "div",
    {},
    make("h3", {}, severalRuns ? runTag(run) : sourceName(run)),
    table(`Data of ${run.name}`, null, [...dataFacts(run), ...more], (index) => index === 1),
  );
}

// How the data was read: info, what was fixed, warnings.
function ingestReport(run, severalRuns) {
  const rows = run.data.messages.map(({ level, text }) => [make("span", { class: `level ${level}` }, level), text]);
  return make(
    "div",
    {},
    make("h3", {}, severalRuns ? `Ingest report of ${run.name}` : "Ingest report"),
    table(`Ingest report of ${run.name}`, null, rows),
  );
}

function renderSettings(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys({ ...run.spec, ...run.settings })))];
  const value = (run, name) => JSON.stringify(run.settings[name] ?? run.spec[name]) ?? "–";
  const isDifferent = (name) => new Set(runs.map((run) => value(run, name))).size > 1;
  const rows = (shown) =>
    shown.map((name) => [name, ...runs.map((run) => make("code", {}, truncate(value(run, name), 80)))]);
  const several = runs.length > 1;
  const headings = (first) => [first, ...runs.map((run) => (several ? runTag(run) : "value"))]; // new elements per table
  const different = names.filter(isDifferent),
    equal = names.filter((name) => !isDifferent(name));
  const commands = runs.filter((run) => run.command).map((run) => commandLine(run, several));
  const equalTitle = several ? `Settings with equal values (${equal.length})` : `All ${equal.length} settings`;
  showSection(
    "settings",
    commands.length ? make("h3", {}, several ? "Commands that repeat the runs" : "Command that repeats the run") : null,
    ...commands,
    several ? make("h3", {}, different.length ? "Settings that differ" : "All settings are equal") : null,
    different.length ? table("Settings that differ", headings("setting"), rows(different)) : null,
    make("details", {}, make("summary", {}, equalTitle), table(equalTitle, headings("setting"), rows(equal))),
    environmentTable(runs, headings("")),
  );
}

function commandLine(run, named) {
  const code = make("code", {}, run.command);
  const copy = button("Copy", { "aria-label": `Copy the command that repeats ${run.name}` }, async () => {
    window.getSelection().selectAllChildren(code); // some browsers give local files no access to the clipboard
    await navigator.clipboard?.writeText(run.command);
    copy.textContent = navigator.clipboard ? "Copied" : "Selected";
  });
  return make("div", { class: "command" }, named ? runTag(run) : null, code, copy);
}

function environmentTable(runs, headings) {
  const environments = runs.map(({ environment: { versions, ...rest } }) => ({ ...rest, ...versions }));
  const names = [...new Set(environments.flatMap(Object.keys))];
  if (!names.length) return null;
  const rows = names.map((name) => [name, ...environments.map((own) => String(own[name] ?? "–"))]);
  return make("details", {}, make("summary", {}, "Versions and machine"), table("Versions and machine", headings, rows));
}
