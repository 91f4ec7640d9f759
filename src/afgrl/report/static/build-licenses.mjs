// Writes THIRD-PARTY-LICENSES.txt: the license of every npm package of which the bundle contains a part.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const PACKAGE = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//;
const LICENSE_FILE = /^(licen[cs]e|copying)/i;
const HEAD = `Licenses of the npm packages inside plotly-gl2d-strict.min.js. The license of plotly.js itself is in
plotly-LICENSE.txt. build-plotly.mjs writes this file; packages with the same text share it.
`;

export function writeLicenses(metafile, file) {
  const [{ inputs }] = Object.values(metafile.outputs);
  const used = Object.entries(inputs).filter(([path, part]) => part.bytesInOutput > 0 && !path.endsWith(".css"));
  const folders = new Set(used.map(([path]) => path.match(PACKAGE)?.[1]).filter(Boolean));
  const packages = [...folders].map(described).sort((a, b) => (a.title < b.title ? -1 : 1));
  const titles = new Map();
  for (const { title, text } of packages) titles.set(text, [...(titles.get(text) ?? []), title]);
  const sections = [...titles].map(([text, names]) => names.join("\n") + "\n\n" + text);
  writeFileSync(file, [HEAD, ...sections].join(`\n${"-".repeat(80)}\n`));
}

function described(folder) {
  const { name, version, license, author } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const title = `${name} ${version} (${license})`;
  const found = readdirSync(folder).find((entry) => LICENSE_FILE.test(entry));
  if (found) return { title, text: readFileSync(`${folder}/${found}`, "utf8").replaceAll("\r\n", "\n").trim() + "\n" };
  if (license !== "MIT") throw new Error(`${name} has no license file`);
  const plotly = readFileSync("LICENSE", "utf8");
  const person = (author?.name ?? author ?? "its contributors").replace(/ *<.*/, "");
  const head = "The package has no license file; its package.json names the MIT license, whose text is:\n\n";
  return {
    title: `${title}, by ${person}`,
    text: head + plotly.slice(plotly.indexOf("Permission")).trim() + "\n",
  };
}
