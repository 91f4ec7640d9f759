"use strict";
// The section on scores: trained vectors and untrained baselines.

const LAST_EPOCH_NOTE =
  "Last-epoch evaluation: the vectors of the last epoch are used for every task; no label was used to choose them.";
const BEST_EPOCH_NOTE =
  "Best-epoch evaluation (uses labels to choose the epoch): each task has its own best epoch, as in the paper, so these " +
  "scores are higher than you can expect without labels.";
const BASELINE_NOTE =
  "Gain over untrained baselines: compare the trained vectors with the other rows, which need no training.";

const READOUT_NOTE =
  "Clustering readout: what `afgrl cluster` clusters, the vectors smoothed over the graph. NMI without it is that of the " +
  "vectors themselves.";

const BEST_MARK = "*"; // the best value of a column

function renderScores(allRuns, bestRun) {
  const runs = allRuns.filter((run) => run.scores);
  if (!runs.length) return;
  const rows = scoreRows(runs);
  const { headings } = runs[0].scores;
  const several = runs.length > 1;
  const best = bestOfColumns(rows, headings);
  const tableRow = (row) => ({
    class: row.kind,
    cells: [
      several && row.kind === "trained" ? runTag(row.run) : scoreRowName(row, several),
      ...row.cells.map((cell, index) =>
        isBest(row, index, best) ? make("strong", {}, BEST_MARK + scoreText(cell, headings[index])) : scoreText(cell, headings[index]),
      ),
    ],
  });
  const has = (kind) => rows.some((row) => row.kind === kind);
  const hasReadout = rows.some((row) => headings.some(({ title }, index) => /readout/.test(title) && row.cells[index]));
  const notes = [
    LAST_EPOCH_NOTE,
    has("best-epoch") && BEST_EPOCH_NOTE,
    has("baseline") && BASELINE_NOTE,
    hasReadout && READOUT_NOTE,
  ];
  const { sentence, commands } = several ? { sentence: bestRun } : (runs[0].scores.best ?? {});
  const splits = [...new Set(runs.map((run) => `Splits: ${run.scores.splits}.`))];
  showSection(
    "scores",
    ...notes.filter(Boolean).map((note) => make("p", { class: "note" }, note)),
    table("Scores", ["vectors", ...headings.map(({ title }) => title)], rows.map(tableRow), (index) => index > 0),
    sentence && make("p", {}, sentence),
    ...Object.entries(commands ?? {}).map(([name, command]) => make("p", {}, `${name}: `, make("code", {}, command))),
    make("p", { class: "note" }, (best.some(Boolean) ? `${BEST_MARK} best of its column. ` : "") + splits.join(" ")),
    make("div", { class: "panels" }, scorePanels(rows, headings, several)),
  );
}

// The rows of all runs: trained vectors first, then the baselines. Equal baselines of several runs are listed once.
function scoreRows(runs) {
  const rows = runs.flatMap((run) => run.scores.rows.map((row) => ({ ...row, run })));
  const seen = new Set();
  const distinct = rows.filter((row) => {
    const key = JSON.stringify([row.run.scores.dataset, row.name, row.cells]);
    const isNew = row.kind !== "baseline" || !seen.has(key);
    seen.add(key);
    return isNew;
  });
  const trained = distinct.filter((row) => row.kind !== "baseline");
  const baselines = distinct.filter((row) => row.kind === "baseline");
  const isAmbiguous = ({ name }) => baselines.filter((row) => row.name === name).length > 1;
  const named = (row) => (isAmbiguous(row) ? { ...row, name: `${row.name}, ${row.run.name}` } : row);
  return [...trained, ...baselines.map(named)];
}

// The best value of each column as it is shown. Labels chose the vectors of the best epoch, and scores of several graphs
// cannot be compared: both have no mark.
function bestOfColumns(rows, headings) {
  const compared = rows.filter(({ kind }) => kind !== "best-epoch");
  if (new Set(compared.map(({ run }) => run.scores.dataset)).size > 1) return headings.map(() => null);
  return headings.map(({ digits }, index) => {
    const shown = compared.filter(({ cells }) => cells[index]).map(({ cells }) => Number(cells[index].mean.toFixed(digits)));
    return shown.length > 1 ? { value: Math.max(...shown), digits } : null;
  });
}

function isBest(row, index, best) {
  if (row.kind === "best-epoch" || !row.cells[index] || !best[index]) return false;
  return Number(row.cells[index].mean.toFixed(best[index].digits)) === best[index].value;
}

function scoreRowName(row, several) {
  if (!several || row.kind === "baseline") return row.name;
  return row.kind === "trained" ? row.run.name : `${row.run.name}, best epoch`;
}

function scoreText(cell, { digits }) {
  if (!cell) return null;
  return cell.mean.toFixed(digits) + (digits === 2 && cell.n > 1 ? ` ± ${cell.std.toFixed(2)}` : "");
}

function scorePanels(rows, headings, several) {
  return headings.flatMap(({ title, charted }, index) => {
    if (!charted) return [];
    const dots = rows
      .filter((row) => row.cells[index])
      .map((row) => ({
        name: scoreRowName(row, several),
        trained: row.kind === "trained",
        color: row.kind === "baseline" ? theme().muted : runColor(row.run),
        ...row.cells[index],
      }));
    return dots.length ? [panel(title, dotChart(`${title} of trained and untrained vectors`, dots, title))] : [];
  });
}
