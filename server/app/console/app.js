// Starts the console: shows the view of the link, follows the stream of changes, and keeps the state of the page.

import { h, patch } from "./dom.js";
import { get } from "./api.js";
import { askToken } from "./dialogs.js";
import { clock, duration } from "./format.js";
import { HELP, showHelp, takeKeys } from "./keys.js";
import { link, parse } from "./links.js";
import { follow } from "./live.js";
import { code, nothing, state, tools } from "./parts.js";
import { viewOf } from "./views.js";

// Shortest time between two requests of a view after changes.
const PAUSE = 50;

const main = document.getElementById("main");
const status = document.getElementById("status");
const current = { route: null, view: null, data: null, error: null, version: 0, total: null, busy: null };

function say(text) {
  status.textContent = text;
}

/** Names that forms and filters offer; requested once and after that from here for some seconds. */
function names(path) {
  let known = null;
  let at = -Infinity;
  return async (signal) => {
    if (performance.now() - at > 5000) {
      known = (await get(path, signal)).items;
      at = performance.now();
    }
    return known;
  };
}

const registryItems = names("/debug/registries");
const clientItems = names("/debug/clients?limit=500");

const context = {
  get version() { return current.version; },
  get total() { return current.total; },
  go(query) {
    const { route } = current;
    const next = link(route.view, route.parts, { ...route.query, ...query });
    history.replaceState(null, "", next);
    navigate();
  },
  report(error, total) {
    if (error) return fail(error);
    if (total === undefined || total === current.total) return;
    current.total = total;
    render();
  },
  refresh: () => load(),
  say,
};

function navigate() {
  const route = parse(location.hash);
  const before = current.route;
  const same = before && before.view === route.view && before.parts.join("/") === route.parts.join("/");
  current.route = route;
  if (same) {
    if (JSON.stringify(before.query) === JSON.stringify(route.query)) return;
    current.total = null;
  } else {
    Object.assign(current, { view: viewOf(route), data: null, error: null, total: null });
    scrollTo(0, 0);
  }
  mark(route);
  const shown = load();
  if (!before || same) return;
  const focused = document.activeElement;
  shown.then(() => {
    // The operator may have moved on meanwhile.
    const is = document.activeElement;
    if (is === focused || is === document.body || is === null) document.getElementById("title")?.focus({ preventScroll: true });
  });
}

// One request of the view at a time; a change that arrives meanwhile causes another one after it.
async function load() {
  current.busy?.abort();
  const stop = new AbortController();
  current.busy = stop;
  const { route, view } = current;
  const slow = setTimeout(render, 150);
  try {
    const found = view.load ? await view.load(route, {
      signal: stop.signal,
      before: current.data,
      registries: async (signal) => (await registryItems(signal)).map((one) => one.name),
      clients: async (signal) => [...new Set((await clientItems(signal)).map((one) => one.id))],
    }) : null;
    if (stop.signal.aborted) return;
    Object.assign(current, { data: found, error: null });
  } catch (error) {
    if (stop.signal.aborted) return;
    fail(error);
  } finally {
    clearTimeout(slow);
    if (current.busy === stop) current.busy = null;
  }
  render();
}

async function fail(error) {
  if (error.status === 401) {
    if (await askToken(error.message === "" ? null : error.message)) {
      stream.retry();
      current.version += 1;
      load();
    }
    return;
  }
  // An outage has its banner; what was shown stays.
  if (error.status === undefined && current.data !== null) return;
  current.error = error;
  render();
}

function render() {
  const { route, view, data, error } = current;
  if (error) return show({ title: route.parts.at(-1) ?? view.title ?? "Not available", body: [h("p", { class: "failure", role: "alert" }, state(error.status === 404 ? "Not found" : "Failed", error.status === 404 ? "off" : "bad"), " ", code(error.code), " ", error.message || "The server does not answer.")] });
  if (view.load && data === null) return show({ title: route.parts.at(-1) ?? view.title ?? "Not available", body: nothing("Loading…", "wait") });
  show(view.render(route, data, context));
}

function show({ title, note, up, upName, words, document: path, body }) {
  context.up = up;
  document.title = title ? `${title} · Tributary` : "Tributary";
  patch(main, [
    h("header", { class: "view", key: "view" },
      up ? h("p", { class: "up" }, h("a", { href: up }, `← ${upName}`)) : null,
      h("h1", { id: "title", tabindex: "-1" }, title),
      note ? h("p", { class: "muted note" }, note) : null,
      words ? tools(words, path) : null),
    h("div", { class: "content", key: `content ${current.route.view} ${current.route.parts.join("/")}` }, body),
  ]);
}

function mark(route) {
  for (const item of document.querySelectorAll("nav a")) {
    if (item.dataset.view === route.view) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
}

let following = false;
let again = false;

// While the view is requested, further changes are counted as one; a view that takes long is requested less often.
async function changed(event) {
  patch(document.getElementById("generation"), [`generation ${event.generation}`]);
  current.version += 1;
  again = true;
  if (following) return;
  following = true;
  while (again) {
    again = false;
    const began = performance.now();
    await load();
    const took = performance.now() - began;
    await new Promise((done) => setTimeout(done, Math.max(PAUSE, took)));
  }
  following = false;
}

let streamState = null;

function connection(next) {
  const before = streamState;
  streamState = next;
  if (next.connected && before?.connected) return;
  if (next.connected && before) {
    say("Connected again.");
    current.version += 1;
    load();
  }
  if (next.error?.status === 401) fail(next.error);
  banner();
}

function banner() {
  const place = document.getElementById("banner");
  const live = document.getElementById("live");
  patch(live, [streamState?.connected ? state("Live", "ok") : state("Not live", "bad")]);
  place.hidden = streamState === null || streamState.connected;
  if (place.hidden) return patch(place, []);
  const left = Math.max(0, streamState.retryAt - Date.now());
  patch(place, [
    h("p", {}, state(`Disconnected since ${clock(streamState.since)}`, "bad"), " The last known state is shown."),
    h("p", { class: "muted", "aria-hidden": "true" }, left > 0 ? `Next try in ${duration(left + 999)}.` : "Trying…"),
    h("button", { type: "button", onclick: () => stream.retry() }, "Try now"),
  ]);
}

// Ages grow between changes.
setInterval(() => {
  if (document.hidden) return;
  if (streamState && !streamState.connected) banner();
  if (current.view && !current.error && (current.data !== null || !current.view.load)) render();
}, 1000);

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("tributary-theme", root.dataset.theme);
  say(`${dark ? "Light" : "Dark"} colours.`);
}

document.getElementById("theme").onclick = theme;
document.getElementById("help").onclick = () => showHelp(HELP);
document.getElementById("skip").onclick = (event) => {
  event.preventDefault();
  document.getElementById("title")?.focus();
};
addEventListener("hashchange", navigate);
takeKeys(() => context.up);
navigate();
const stream = follow(changed, connection);

