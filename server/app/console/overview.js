// Overview: what is wrong first, then the registries with their freshness. The counts are links.

import { h } from "./dom.js";
import { get } from "./api.js";
import { ago, count, objectName, since } from "./format.js";
import { link, viewLink } from "./links.js";
import { code, levelOf, nothing, section, state, table } from "./parts.js";

export const overview = {
  title: "Overview",
  load: (route, { signal }) => get("/debug/overview", signal),
  render(route, data) {
    return {
      title: "Overview",
      words: ["get", "overview"],
      document: "/debug/overview",
      body: [tiles(data), findings(data), registries(data)],
    };
  },
};

function tiles({ counts, ready, loaded, server }) {
  const { endpoints = {}, clients = {} } = counts;
  const sum = (of) => Object.values(of).reduce((a, b) => a + b, 0);
  const synced = clients.synced ?? clients.SYNCED ?? 0;
  const healthy = endpoints.healthy ?? endpoints.HEALTHY ?? 0;
  const all = [endpoints.total ?? sum(endpoints), clients.total ?? sum(clients)];
  const tile = (name, to, value, detail, level) =>
    h("li", { key: name }, h("a", { href: link(to), class: `tile ${level ?? ""}` },
      h("span", { class: "value num" }, value), h("span", { class: "name" }, name), detail ? h("span", { class: "muted" }, detail) : null));
  return h("section", { key: "counts", "aria-label": "Counts" }, h("ul", { class: "tiles" },
    tile("services", "services", count(counts.services), null),
    tile("endpoints", "services", count(all[0]), `${count(healthy)} healthy`),
    tile("clients", "clients", count(all[1]), `${count(synced)} synced`, synced < all[1] ? "warn" : null),
    tile("registries", "registries", count(counts.registries), ready ? "server ready" : "server not ready", ready ? null : "bad"),
    tile("clusters", "clusters", count(counts.clusters), null),
    tile("held removals", "held", count(counts.heldRemovals), null, counts.heldRemovals > 0 ? "warn" : null),
    tile("problems", "registries", count(counts.problems), null, counts.problems > 0 ? "warn" : null),
    tile("policies", "policies", count(counts.policies), null)),
  h("p", { class: "muted" }, `${server?.name ?? ""} runs version ${server?.version ?? ""} and started ${ago(server?.uptimeMillis, loaded)}.`));
}

function findings({ findings, moreFindings, ready }) {
  if (findings.length === 0) return section("What is wrong", nothing(ready ? "Nothing is wrong." : "No finding, and the server is not ready.", ready ? "ok" : "warn"));
  const item = (one, i) => h("li", { key: `${one.code} ${one.object?.kind} ${one.object?.name} ${i}`, class: `finding ${levelOf(one.severity)}` },
    state(one.severity), h("div", {},
      h("div", { class: "what" }, one.view ? h("a", { href: viewLink(one.view) }, one.title) : one.title, " ", code(one.code)),
      h("div", {}, h("span", { class: "object" }, objectName(one.object)), one.message ? [" ", one.message] : null),
      one.next ? h("div", { class: "muted" }, `Next: ${one.next}`) : null),
    h("time", { class: "muted num" }, one.since ? since(one.since) : ""));
  return section("What is wrong", [
    h("ul", { class: "findings" }, findings.map(item)),
    moreFindings > 0 ? h("p", { class: "muted" }, `and ${count(moreFindings)} more`) : null,
  ], count(findings.length + (moreFindings ?? 0)));
}

function registries({ registries, loaded }) {
  if (registries.length === 0) return section("Registries", nothing("No registry is configured.", "warn"));
  const columns = [
    { name: "Name", of: (r) => h("a", { href: link("registries", [r.name]) }, r.name) },
    { name: "Kind", of: (r) => r.kind },
    { name: "State", of: (r) => state(r.state) },
    { name: "Confirmed", class: "num", of: (r) => ago(r.confirmedMillisAgo, loaded) },
    { name: "Services", class: "num", of: (r) => count(r.services) },
    { name: "Endpoints", class: "num", of: (r) => count(r.endpoints) },
    { name: "Held", class: "num", of: (r) => count(r.held) },
    { name: "Problems", class: "num", of: (r) => count(r.problems) },
    { name: "Reason", class: "wide", of: (r) => r.reason ?? "" },
  ];
  return section("Registries", table("Registries", columns, registries, (r) => r.name));
}

