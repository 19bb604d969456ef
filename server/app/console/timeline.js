// Timeline: changes as they happen, the newest first.

import { h } from "./dom.js";
import { get } from "./api.js";
import { clock, counted, objectName } from "./format.js";
import { link } from "./links.js";
import { code, state } from "./parts.js";
import { choice, listGrid, pageIn } from "./lists.js";

// Entries that a page keeps.
const MOST = 5000;

const COLUMNS = [
  { name: "Time", class: "num", width: "6rem", of: (e) => clock(e.at) },
  { name: "Severity", width: "7rem", of: (e) => state(e.severity) },
  { name: "Kind", width: "9rem", of: (e) => e.kind },
  { name: "Registry", width: "8rem", of: (e) => (e.registry ? h("a", { href: link("registries", [e.registry]), tabindex: "-1" }, e.registry) : "–") },
  { name: "Object", width: "minmax(0, 1fr)", of: (e) => objectName(e.object) },
  { name: "What", width: "minmax(12rem, 3fr)", of: (e) => [code(e.code), e.code ? " " : "", e.message, hosts(e)] },
];

const hosts = (e) => ((e.hosts ?? []).length === 0 ? null : h("span", { class: "muted" }, ` ${e.hosts.join(", ")}${e.moreHosts > 0 ? ` and ${e.moreHosts} more` : ""}`));

export const timeline = {
  title: "Timeline",
  async load(route, { signal, before }) {
    const last = before?.last;
    const list = await get(`/debug/timeline?limit=1000${last === undefined ? "" : `&after=${last}`}`, signal);
    const fresh = list.items.filter((one) => last === undefined || one.sequence > last);
    // a state that settles is added after later changes, so the time decides
    const items = [...fresh, ...(before?.items ?? [])].sort((a, b) => (a.at === b.at ? b.sequence - a.sequence : a.at < b.at ? 1 : -1));
    return { items: items.slice(0, MOST), last: fresh.reduce((most, one) => Math.max(most, one.sequence), last ?? 0) || undefined };
  },
  render(route, { items, last }, context) {
    const { kind, registry } = route.query;
    const values = (of) => [...new Set(items.map(of).filter(Boolean))].sort();
    const rows = items.filter((one) => (!kind || one.kind === kind) && (!registry || one.registry === registry));
    return {
      title: "Timeline",
      note: "changes since the server started, the newest first",
      words: ["get", "timeline"],
      document: "/debug/timeline",
      body: [
        h("div", { class: "filters", key: "filters" },
          choice(route, context, "kind", "Kind", values((one) => one.kind)), choice(route, context, "registry", "Registry", values((one) => one.registry)),
          h("span", { class: "muted num", role: "status" }, counted(rows.length, "change"))),
        listGrid(route, { ...context, version: last ?? 0 }, { label: "Changes", id: "timeline", columns: COLUMNS, page: pageIn(rows), empty: "Nothing has changed.", sort: undefined, onSort: undefined }),
      ],
    };
  },
};
