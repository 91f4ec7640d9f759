"use strict";
// The section on training: what was logged during it.

const COLLAPSED_SPREAD = 0.05;
const COLLAPSED_RANK = 1.5;

const TRAINING_CHARTS = [
  {
    names: ["loss"],
    title: "Loss",
    y: "loss",
    log: true,
    explanation:
      "The loss should fall and then level off. It is also low when the vectors collapse, so check the spread and the " +
      "effective rank.",
  },
  {
    names: ["spread"],
    title: "Spread",
    y: "spread",
    explanation:
      "1 minus the squared length of the mean of all unit vectors: 0 means that all vectors point in one direction " +
      "(collapse).",
  },
  {
    names: ["rank"],
    title: "Effective rank",
    y: "dimensions",
    explanation: "The number of dimensions that the vectors effectively use; a fall toward 1 means collapse.",
  },
  {
    names: ["drift"],
    title: "Drift",
    y: "mean cosine distance",
    explanation:
      "The mean cosine distance of the vectors to their values before training; near 0 means that training changed " +
      "little.",
  },
  {
    names: ["local", "global"],
    title: "Positives",
    y: "share",
    explanation:
      "The share of positive pairs that are adjacent in the graph (local, solid line) and that are in the same cluster " +
      "(global, dashed line); a pair can be both.",
  },
];

function renderTraining(runs) {
  const panels = TRAINING_CHARTS.flatMap((chart) => trainingPanel(runs, chart));
  if (!panels.length) return;
  const key = runs.length > 1 ? make("p", { class: "key" }, runs.map(runTag)) : null;
  showSection("training", key, make("div", { class: "panels" }, panels));
}

// A list with the panel, empty if no run logged the values.
function trainingPanel(runs, { names, title, y, log, explanation }) {
  const lines = names.flatMap((name, index) =>
    runs
      .filter((run) => run.history[name])
      .map((run) => ({
        name: runs.length > 1 ? `${run.name}, ${name}` : name,
        color: runColor(run),
        x: run.history.epoch,
        y: run.history[name],
        dash: index ? "dash" : null,
      })),
  );
  if (!lines.length) return [];
  const values = lines.flatMap((line) => line.y);
  const positive = values.every((value) => value === null || value > 0);
  const yOptions = log ? (positive ? logAxis(values) : {}) : { rangemode: "tozero" };
  const unit = [...new Set(runs.map(stepName))].sort().join(" or ");
  return [panel(title, lineChart(`${title} by ${unit}`, lines, unit, y, yOptions), explanation)];
}

function collapseWarnings(run) {
  const last = (name) => (run.history[name] ?? []).filter((value) => value !== null).slice(-1)[0];
  if (last("spread") < COLLAPSED_SPREAD)
    return [
      "The vectors have collapsed: after the last epoch nearly all point in one direction " +
        `(spread below ${COLLAPSED_SPREAD}).`,
    ];
  if (last("rank") < COLLAPSED_RANK)
    return [
      "The vectors have collapsed onto a line: after the last epoch they use one dimension " +
        `(effective rank below ${COLLAPSED_RANK}).`,
    ];
  return [];
}
