// Builds plotly-gl2d-strict.min.js and THIRD-PARTY-LICENSES.txt inside the unpacked npm package plotly.js; README.md describes the steps.
import { writeFileSync } from "node:fs";
import { build } from "esbuild";
import { environmentPlugin } from "esbuild-plugin-environment";
import { glsl } from "esbuild-plugin-glsl";
import { writeLicenses } from "./build-licenses.mjs";

const entry = "lib/index-gl2d-strict.js";
writeFileSync(
  entry,
  `
var Plotly = require("./core");
Plotly.register([require("../src/traces/scattergl/strict")]);
module.exports = Plotly;
`,
);
const { metafile } = await build({
  metafile: true,
  entryPoints: [entry],
  outfile: "plotly-gl2d-strict.min.js",
  banner: { js: "/* plotly.js 3.7.0 (scatter and scattergl, strict), (c) Plotly, Inc., MIT: plotly-LICENSE.txt */" },
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  target: "es2016",
  loader: { ".css": "empty" }, // the style of geographic maps, which are not included
  // The rest is copied from the package's esbuild-config.js.
  plugins: [glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
});
writeLicenses(metafile, "THIRD-PARTY-LICENSES.txt");
