"use strict";
// Line charts and dot charts, in the colors of the page.

const CHART_CONFIG = { displayModeBar: false, responsive: true, showTips: false, scrollZoom: false };
const chartDrawers = []; // called again when the color scheme changes

function theme() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: color("text"),
    muted: color("muted"),
    border: color("border"),
    background: color("background"),
    accent: color("accent"),
  };
}

// Escapes the tags, entities and %{names} that Plotly would interpret.
function plotlyText(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");
}

function runColor(run) {
  return PALETTE[run.index % PALETTE.length];
}

function axis(title, options = {}) {
  const { muted, border } = theme();
  return {
    title: { text: title, font: { size: 12, color: muted }, standoff: 8 },
    tickfont: { size: 11, color: muted },
    gridcolor: border,
    linecolor: border,
    zeroline: false,
    automargin: true,
    fixedrange: true,
    ...options,
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
    hoverlabel: { bgcolor: theme().background, font: { color: theme().text }, bordercolor: theme().border },
  };
}

// A log axis labeled in full at 1, 2 and 5 times each power of ten; Plotly would label the 2 and the 5 with one digit.
function logAxis(values) {
  const positive = values.filter((value) => value > 0);
  const low = Math.min(...positive),
    high = Math.max(...positive);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of high / low > 300 ? [1] : [1, 2, 5]) ticks.push(Number(`${digit}e${power}`));
  }
  return { type: "log", tickvals: ticks, ticktext: ticks.map(formatNumber) };
}

// `lines`: [{name, color, x, y, dash}]; `title` is the accessible name of the chart.
function lineChart(title, lines, xTitle, yTitle, yOptions = {}) {
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
      hovertemplate: `${plotlyText(line.name)}<br>${xTitle} %{x}<br>${yTitle} %{y:.4~g}<extra></extra>`,
    }));
  const draw = () => Plotly.react(holder, traces(), chartLayout(axis(xTitle), axis(yTitle, yOptions)), CHART_CONFIG);
  return { holder, draw };
}

// `rows`: [{name, color, mean, std, n, trained}] from top to bottom: a dot per mean, with an error bar if n > 1.
function dotChart(title, rows, xTitle) {
  const holder = make("div", { class: "chart dots", role: "img", "aria-label": title });
  holder.style.height = `${70 + 26 * rows.length}px`;
  const label = (row) => plotlyText(truncate(row.name, 26));
  const traces = () => [
    {
      type: "scatter",
      mode: "markers",
      x: rows.map((row) => row.mean),
      y: rows.map((_, index) => index),
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
        color: theme().muted,
      },
      hovertemplate: "%{x:.4~g}<extra></extra>",
    },
  ];
  const ticks = {
    tickvals: rows.map((_, index) => index),
    ticktext: rows.map(label),
    range: [rows.length - 0.5, -0.5],
    showgrid: false,
  };
  const draw = () => {
    const layout = chartLayout(
      axis(xTitle, { nticks: 5 }),
      axis("", { ...ticks, tickfont: { size: 12, color: theme().text } }),
    );
    return Plotly.react(holder, traces(), layout, CHART_CONFIG);
  };
  return { holder, draw };
}

// A chart with a title and a sentence that explains it.
function panel(title, chart, explanation = null) {
  chartDrawers.push(chart.draw);
  return make(
    "figure",
    { class: "panel" },
    make("figcaption", {}, title),
    chart.holder,
    explanation && make("p", { class: "note" }, explanation),
  );
}

function drawCharts() {
  return Promise.all(chartDrawers.map((draw) => draw()));
}
