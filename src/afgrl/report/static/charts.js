"use strict";
// Charts of lines and of scores, in the page's own colors.

const CHART_OPTIONS = { displayModeBar: false, responsive: true, showTips: false, scrollZoom: false };
const drawings = []; // drawn again when the page turns dark or light

function theme() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: color("ink"),
    faint: color("faint"),
    line: color("line"),
    ground: color("ground"),
    accent: color("accent"),
  };
}

// Plotly reads tags, entities and %{names} in its texts; this is how they stay letters.
function plotText(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");
}

function runColor(run) {
  return PALETTE[run.place % PALETTE.length];
}

function axis(title, more = {}) {
  const { faint, line } = theme();
  return {
    title: { text: title, font: { size: 12, color: faint }, standoff: 8 },
    tickfont: { size: 11, color: faint },
    gridcolor: line,
    linecolor: line,
    zeroline: false,
    automargin: true,
    fixedrange: true,
    ...more,
  };
}

function chartLayout(xaxis, yaxis) {
  return {
    xaxis,
    yaxis,
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    margin: { l: 48, r: 12, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif" },
    hoverlabel: { bgcolor: theme().ground, font: { color: theme().ink }, bordercolor: theme().line },
  };
}

// Full numbers at 1, 2 and 5 of each power of ten; Plotly would write the 2 and the 5 alone.
function powerTicks(values) {
  const known = values.filter((value) => value > 0);
  const low = Math.min(...known),
    high = Math.max(...known);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of high / low > 300 ? [1] : [1, 2, 5]) ticks.push(Number(`${digit}e${power}`));
  }
  return { type: "log", tickvals: ticks, ticktext: ticks.map(figure) };
}

// `lines`: [{name, color, x, y, dash}]. The name of the chart is its accessible one.
function lineChart(title, lines, xTitle, yTitle, more = {}) {
  const holder = make("div", { class: "chart", role: "img", "aria-label": title });
  const traces = () =>
    lines.map((line) => ({
      type: "scatter",
      mode: line.y.length < 60 && !line.dash ? "lines+markers" : "lines",
      x: line.x,
      y: line.y,
      connectgaps: true,
      marker: { size: 4 },
      line: { color: line.color, width: 2, dash: line.dash ?? "solid" },
      hovertemplate: `${plotText(line.name)}<br>${xTitle} %{x}<br>${yTitle} %{y:.4~g}<extra></extra>`,
    }));
  const draw = () => Plotly.react(holder, traces(), chartLayout(axis(xTitle), axis(yTitle, more)), CHART_OPTIONS);
  return { holder, draw };
}

// `rows`: [{name, color, mean, std, trained}], the first on top: a dot and its spread.
function dotChart(title, rows, xTitle) {
  const holder = make("div", { class: "chart dots", role: "img", "aria-label": title });
  holder.style.height = `${70 + 26 * rows.length}px`;
  const label = (row) => plotText(brief(row.name, 26));
  const traces = () => [
    {
      type: "scatter",
      mode: "markers",
      x: rows.map((row) => row.mean),
      y: rows.map((_, place) => place),
      marker: {
        size: 10,
        color: rows.map((row) => row.color),
        symbol: rows.map((row) => (row.trained ? "circle" : "circle-open")),
        line: { width: 2 },
      },
      error_x: {
        type: "data",
        array: rows.map((row) => (row.n > 1 ? row.std : null)),
        thickness: 1.5,
        width: 4,
        color: theme().faint,
      },
      hovertemplate: "%{x:.4~g}<extra></extra>",
    },
  ];
  const ticks = {
    tickvals: rows.map((_, place) => place),
    ticktext: rows.map(label),
    range: [rows.length - 0.5, -0.5],
    showgrid: false,
  };
  const draw = () => {
    const layout = chartLayout(
      axis(xTitle, { nticks: 5 }),
      axis("", { ...ticks, tickfont: { size: 12, color: theme().ink } }),
    );
    return Plotly.react(holder, traces(), layout, CHART_OPTIONS);
  };
  return { holder, draw };
}

// A chart with a title and a sentence on what to look for.
function panel(title, chart, sentence) {
  drawings.push(chart.draw);
  return make(
    "figure",
    { class: "panel" },
    make("figcaption", {}, title),
    chart.holder,
    sentence ? make("p", { class: "note" }, sentence) : null,
  );
}

function drawCharts() {
  return Promise.all(drawings.map((draw) => draw()));
}
