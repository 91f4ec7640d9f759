// Makes plotly-gl2d-strict.min.js inside an unpacked npm package plotly.js; README.md here says how.
import { writeFileSync } from "node:fs";
import { build } from "esbuild";
import { environmentPlugin } from "esbuild-plugin-environment";
import { glsl } from "esbuild-plugin-glsl";

const entry = "lib/index-gl2d-strict.js";
writeFileSync(
  entry,
  `
var Plotly = require("./core");
Plotly.register([require("../src/traces/scattergl/strict")]);
module.exports = Plotly;
`,
);
await build({
  entryPoints: [entry],
  outfile: "plotly-gl2d-strict.min.js",
  banner: { js: "/* plotly.js 3.7.0 (scatter and scattergl, strict), (c) Plotly, Inc., MIT: plotly-LICENSE.txt */" },
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  target: "es2016",
  loader: { ".css": "empty" }, // of geographic maps, which are not in it
  // What follows is as in the package's own esbuild-config.js.
  plugins: [glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
});
