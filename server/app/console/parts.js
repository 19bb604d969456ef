// Parts that several views use: states, badges, tables, pairs of names and values, commands.

import { h } from "./dom.js";
import { count, objectName, quote } from "./format.js";
import { token } from "./api.js";
import { showDocument } from "./dialogs.js";

// Shapes, so that a state can be told without its colour.
const SHAPES = {
  ok: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 2.5l6 11H2zM8 7v3M8 11.6v.4",
  bad: "M4 4l8 8M12 4l-8 8",
  info: "M8 7v5M8 4v.5",
  wait: "M8 4v4l2.5 2M14 8a6 6 0 1 1-12 0a6 6 0 0 1 12 0",
  off: "M6 4v8M10 4v8",
};

/** Icon of a level: `ok`, `warn`, `bad`, `info`, `wait` or `off`. */
export function icon(level) {
  const shape = h("svg:path", { d: SHAPES[level] ?? SHAPES.info });
  return h("svg:svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, shape);
}

/** Level of a state, of a severity or of a verdict, whatever document it is from. */
export function levelOf(state) {
  const word = String(state ?? "").toLowerCase().split(":")[0].trim();
  return LEVELS[word] ?? "info";
}

const LEVELS = {
  live: "ok", synced: "ok", pass: "ok", ok: "ok", served: "ok", healthy: "ok", used: "ok", merged: "ok", ready: "ok",
  syncing: "wait", pending: "wait", "not sent": "wait", removing: "wait", unknown: "wait", possible: "info", info: "info",
  stale: "warn", warn: "warn", warning: "warn", held: "warn", "held back": "warn", kept: "warn", duplicate: "warn", draining: "warn",
  quarantined: "warn", notused: "info", degraded: "warn", paused: "off", absent: "off", separate: "info",
  unreachable: "bad", authfailed: "bad", forbidden: "bad", broken: "bad", failed: "bad", refused: "bad", conflict: "bad",
  error: "bad", drop: "bad", dropped: "bad", unhealthy: "bad", notserved: "bad", unusable: "bad", "not ready": "bad",
};

/** State as a shape with its name. */
export function state(text, level) {
  const kind = level ?? levelOf(text);
  return h("span", { class: `state ${kind}` }, icon(kind), h("span", {}, text || "–"));
}

/** Healthy of all endpoints; the level shows where some are missing. */
export function health(counts) {
  const { healthy = 0, total = 0 } = counts ?? {};
  const level = total === 0 ? "off" : healthy === total ? "ok" : healthy === 0 ? "bad" : "warn";
  const label = `${count(healthy)} of ${count(total)} endpoints are healthy`;
  return h("span", { class: `state ${level}`, title: label }, icon(level), h("span", { class: "num" }, `${count(healthy)} / ${count(total)}`));
}

/** Code of the table of codes. */
export function code(text) {
  return text ? h("code", { class: "code" }, text) : null;
}

/** Object of a source with its position. */
export function object(of) {
  if (!of) return null;
  const registry = of.registry ? h("a", { href: `#/registries/${encodeURIComponent(of.registry)}` }, of.registry) : null;
  return h("span", { class: "object" }, objectName(of), of.position ? h("span", { class: "muted" }, ` ${of.position}`) : null,
    registry ? [" in ", registry] : null);
}

/** Table of rows. `columns` are `{name, class, of}`, where `of` makes the content of a cell; the first is the row's header. */
export function table(label, columns, rows, keyOf) {
  const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: headClass(column) }, column.name)));
  const cell = (column, row, i) =>
    i === 0 ? h("th", { scope: "row", class: column.class }, column.of(row)) : h("td", { class: column.class }, column.of(row));
  const body = rows.map((row, n) => h("tr", { key: keyOf?.(row) ?? n }, columns.map((column, i) => cell(column, row, i))));
  return h("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": label, key: `table ${label}` },
    h("table", {}, h("caption", { class: "hidden" }, label), h("thead", {}, head), h("tbody", {}, body)));
}

// Text in a head is not set as code.
export const headClass = (column) => (column.class === "mono" ? undefined : column.class);

/** Names with values; those without a value are left out. A third word, `long`, gives a value more room. */
export function pairs(values) {
  const shown = values.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return h("dl", { class: "pairs" }, shown.map(([name, value, width]) => h("div", { key: name, class: width }, h("dt", {}, name), h("dd", {}, value))));
}

/** Section with a heading. */
export function section(title, content, note) {
  return h("section", { key: `section ${title}` },
    h("h2", {}, title, note === undefined ? null : h("span", { class: "note" }, note)), content);
}

/** Line that stands where nothing is to be shown. */
export function nothing(text, level = "ok") {
  return h("p", { class: "nothing" }, state(text, level));
}

/** Conditions with their codes and objects. */
export function conditions(list) {
  return h("ul", { class: "conditions" }, (list ?? []).map((one, i) => h("li", { key: `${one.code} ${i}` },
    icon("warn"), h("div", {}, code(one.code), " ", one.message,
      (one.objects ?? []).length > 0 ? h("div", { class: "muted" }, one.objects.join(" · ")) : null))));
}

/** Command line that gives what a view shows, and a link to the document behind it. */
export function tools(words, document) {
  const line = command(words);
  return h("div", { class: "tools", key: "tools" },
    h("code", { class: "command", id: "command" }, line),
    h("button", { type: "button", id: "copy", onclick: () => copy(line) }, "Copy as command"),
    document ? h("a", { href: document, class: "button", onclick: (event) => open(event, document) }, "JSON") : null);
}

/** Command line of the program for this server. */
export function command(words) {
  if (words[0] === "curl") return words.map(quote).join(" ");
  const server = location.origin === "http://127.0.0.1:15014" ? [] : ["--server", location.origin];
  return ["tributary", ...words, ...server].map(quote).join(" ");
}

/** Copies the text and reports it. */
export async function copy(text) {
  const status = document.getElementById("status");
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied.";
  } catch {
    status.textContent = "The browser did not allow the copy; select the text instead.";
  }
}

// A link cannot carry the token: with one, the document is shown in the page.
function open(event, document) {
  if (!token()) return;
  event.preventDefault();
  showDocument(document);
}
