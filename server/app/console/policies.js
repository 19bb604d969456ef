// Policies with their conditions; and one policy with its spec.

import { h } from "./dom.js";
import { RequestError, get } from "./api.js";
import { link, search } from "./links.js";
import { code, conditions, object, pairs, section, state } from "./parts.js";
import { listGrid, pageOf, searchField } from "./lists.js";

const COLUMNS = [
  { name: "Policy", class: "mono", width: "minmax(12rem, 2fr)", sort: "name", value: (p) => `${p.namespace}/${p.name}`, of: (p) => `${p.namespace}/${p.name}` },
  { name: "Kind", sort: "kind", width: "minmax(10rem, 1fr)", value: (p) => p.kind, of: (p) => p.kind },
  { name: "Status", sort: "status", width: "9rem", value: (p) => p.status, of: (p) => state(p.status) },
  { name: "Host", class: "mono", sort: "host", width: "minmax(0, 2fr)", value: (p) => p.host, of: (p) => p.host || "–" },
  { name: "Registry", sort: "registry", value: (p) => p.registry, of: (p) => p.registry },
  { name: "Conditions", sort: "conditions", width: "minmax(0, 2fr)", value: (p) => -(p.conditions ?? []).length, of: (p) => [...new Set([p.code, ...(p.conditions ?? []).map((one) => one.code)].filter(Boolean))].map((one) => [code(one), " "]) },
];

export const policies = {
  render(route, data, context) {
    const query = { search: route.query.search };
    return {
      title: "Policies",
      words: ["get", "policies", "-o", "wide"],
      document: `/debug/policies${search({ ...query, limit: 1000 })}`,
      body: [
        searchField(route, context, "Search policies"),
        listGrid(route, context, {
          label: "Policies", id: "policies", columns: COLUMNS, page: pageOf("/debug/policies", query),
          href: (p) => link("policies", [p.kind, p.namespace, p.name]),
          level: (p) => ((p.conditions ?? []).length > 0 || p.status !== "Served" ? "warn" : ""),
          empty: query.search ? "No policy matches." : "No policy is served.",
        }),
      ],
    };
  },
};

export const policy = {
  async load({ parts }, { signal }) {
    const list = await get(`/debug/policies${search({ name: parts.join("/") })}`, signal);
    if (list.items.length === 0) throw new RequestError(404, `No registry declares ${parts.join(" ")}.`);
    return list.items[0];
  },
  render({ parts }, one) {
    return {
      title: `${one.namespace}/${one.name}`,
      note: one.kind,
      up: link("policies"),
      upName: "Policies",
      words: ["get", "policies", parts.join("/"), "-o", "yaml"],
      document: `/debug/policies${search({ name: parts.join("/") })}`,
      body: [facts(one), (one.conditions ?? []).length > 0 ? section("Conditions", conditions(one.conditions)) : null, spec(one)],
    };
  },
};

function facts(one) {
  const selector = Object.entries(one.selector ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");
  return pairs([
    ["Status", state(one.status)],
    ["Reason", one.reason ? [code(one.code), " ", one.reason] : "", "long"],
    ["Host", one.host ? h("a", { href: link("services", [], { search: one.host.split(",")[0] }) }, one.host) : ""],
    ["Selects", one.selector === undefined ? "" : selector || "all workloads"],
    ["Only reports", one.dryRun ? "yes: a dry run" : ""],
    ["Registry", h("a", { href: link("registries", [one.registry]) }, one.registry)],
    ["Freshness", one.freshness ? state(one.freshness) : ""],
    ["Source", object(one.source)],
    ["Created", one.created],
  ]);
}

function spec(one) {
  if (one.spec === undefined || one.spec === null) return null;
  return section("Spec", h("pre", { tabindex: "0", "aria-label": "Spec" }, JSON.stringify(one.spec, null, 2)), "as it is served");
}
