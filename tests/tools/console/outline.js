// The outline of a view: roles and names as assistive technology receives them, without values that differ from run to run.
// It is compared with a file; UPDATE_DOCS=1 writes the file instead.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

function mask(text) {
  const lines = text
    .replace(new RegExp(`\\b${os.hostname()}\\b`, "g"), "SERVER")
    .replace(/[^\s"']*\/\.tmp\w+/g, "…")
    .replace(/(?<![\w/])\/[\w./-]*\/(?=[\w-]+\.\w+)/g, "…/")
    .replace(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/g, "#")
    .replace(/TRB\d{4}|\[level=\d\]|\d[\d.,:]*/g, (found) => (/^\d/.test(found) ? "#" : found))
    .replace(/# (s|min|h|d)\b/g, "# TIME")
    .split("\n");
  return withoutFindings(lines).filter((line, i, all) => line !== all[i - 1]).join("\n");
}

// Which findings there are depends on how long the server runs.
function withoutFindings(lines) {
  const first = lines.findIndex((line) => line.includes('heading "What is wrong'));
  const last = lines.findIndex((line) => line.includes('heading "Registries'));
  return first < 0 || last < first ? lines : [...lines.slice(0, first + 1), ...lines.slice(last)];
}

/** Compares the outline of a view with its file. */
async function compareOutline(page, name, folder) {
  const text = `${mask(await page.locator(name === "overview" ? "body" : "#main").ariaSnapshot())}\n`;
  const file = path.join(folder, `${name}.txt`);
  if (process.env.UPDATE_DOCS) return fs.writeFileSync(file, text);
  const golden = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
  if (golden === text) return;
  const [a, b] = [golden.split("\n"), text.split("\n")];
  const at = a.findIndex((line, i) => line !== b[i]);
  throw new Error(`the outline of ${name} differs from tests/suites/console/${name}.txt at line ${at + 1}; run with UPDATE_DOCS=1 if it should\n` +
    `- ${a.slice(at, at + 4).join("\n- ")}\n+ ${b.slice(at, at + 4).join("\n+ ")}`);
}

module.exports = { compareOutline, mask };
