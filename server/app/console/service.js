// One service: its declarations by registry, ports, conflicts, policies that concern it, and its endpoints.

import { h } from "./dom.js";
import { RequestError, get } from "./api.js";
import { count } from "./format.js";
import { link, search } from "./links.js";
import { conditions, health, object, pairs, section, state, table } from "./parts.js";
import { listGrid, pageOf, searchField } from "./lists.js";

const same = (a, b) => a.toLowerCase() === b.toLowerCase();

export const service = {
  async load({ parts: [namespace, host] }, { signal }) {
    const [list, policies] = await Promise.all([
      get(`/debug/services${search({ host, limit: 100 })}`, signal),
      get(`/debug/policies${search({ host, limit: 100 })}`, signal),
    ]);
    const found = list.items.find((one) => one.namespace === namespace && same(one.host, host));
    if (!found) throw new RequestError(404, `No registry declares ${host} in namespace ${namespace}. The page follows changes: it shows the service once one does.`);
    return { found, others: list.items.filter((one) => one !== found), policies: policies.items };
  },
  render(route, data, context) {
    const [namespace, host] = route.parts;
    const { found } = data;
    return {
      title: host,
      note: `service in namespace ${namespace}`,
      up: link("services"),
      upName: "Services",
      words: ["get", "services", `${namespace}/${host}`, "-o", "yaml"],
      document: `/debug/services${search({ host, namespace })}`,
      body: [facts(found), conflicts(found, data.others), ports(found), declarations(found), policies(data.policies), endpoints(route, context)],
    };
  },
};

function facts(found) {
  return pairs([
    ["Endpoints", health(found.endpoints)],
    ["Resolution", found.resolution],
    ["Addresses", found.addresses.join(", ")],
    ["Aliases", (found.aliases ?? []).join(", ")],
    ["Precedence", found.precedence === 0 ? "" : `${found.precedence}: another namespace's service of this host precedes it`],
    ["Outside the mesh", found.meshExternal ? "yes" : ""],
  ]);
}

function conflicts(found, others) {
  const list = found.conditions ?? [];
  const also = others.map((one) => h("li", { key: one.namespace }, h("a", { href: link("services", [one.namespace, one.host]) }, one.namespace)));
  return [
    list.length > 0 ? section("Conflicts", conditions(list), count(list.length)) : null,
    also.length > 0 ? section("Also declared in", h("ul", { class: "inline" }, also)) : null,
  ];
}

function ports(found) {
  const columns = [
    { name: "Port", of: (port) => port.number },
    { name: "Name", of: (port) => port.name },
    { name: "Protocol", of: (port) => port.protocol },
    { name: "Endpoints", of: (port) => health(port.endpoints) },
  ];
  return section("Ports", table("Ports", columns, found.ports, (port) => port.number));
}

function declarations(found) {
  const columns = [
    { name: "Registry", of: (one) => h("a", { href: link("registries", [one.registry]) }, one.registry) },
    { name: "Object", class: "wide", of: (one) => object(one.object) },
    { name: "Scope", of: (one) => one.scope },
    { name: "Visible to", of: (one) => (one.exportTo.includes("*") ? "all namespaces" : one.exportTo.join(", ")) },
  ];
  return section("Declarations", table("Declarations", columns, found.declarations, (one) => `${one.registry} ${one.scope} ${one.object.kind} ${one.object.namespace} ${one.object.name}`),
    "merged in this order");
}

function policies(list) {
  if (list.length === 0) return null;
  const columns = [
    { name: "Policy", of: (one) => h("a", { href: link("policies", [one.kind, one.namespace, one.name]) }, `${one.namespace}/${one.name}`) },
    { name: "Kind", of: (one) => one.kind },
    { name: "Status", of: (one) => state(one.status) },
    { name: "Conditions", class: "wide", of: (one) => (one.conditions ?? []).map((condition) => condition.code).join(", ") },
  ];
  return section("Policies", table("Policies", columns, list, (one) => `${one.kind} ${one.namespace} ${one.name}`));
}

const COLUMNS = [
  { name: "Endpoint", class: "mono", width: "minmax(12rem, 2fr)", sort: "endpoint", value: (e) => e.endpoint, of: (e) => e.endpoint },
  { name: "Port", class: "num", width: "5rem", sort: "port", value: (e) => e.port, of: (e) => e.port },
  { name: "Health", width: "9rem", sort: "health", value: (e) => e.health, of: (e) => (e.held ? state("held") : state(e.health)) },
  { name: "Weight", class: "num", width: "5rem", sort: "weight", value: (e) => e.weight, of: (e) => e.weight },
  { name: "Locality", sort: "locality", value: (e) => e.locality, of: (e) => e.locality || "–" },
  { name: "Network", value: (e) => e.network, of: (e) => e.network || "–" },
  { name: "Registry", sort: "registry", value: (e) => e.registry, of: (e) => e.registry },
  { name: "Freshness", sort: "freshness", value: (e) => e.freshness, of: (e) => state(e.freshness) },
  { name: "Source", width: "minmax(0, 1.5fr)", of: (e) => `${e.source.kind} ${e.source.namespace ? `${e.source.namespace}/` : ""}${e.source.name}` },
];

function endpoints(route, context) {
  const [namespace, host] = route.parts;
  return section("Endpoints", [
    searchField(route, context, "Search endpoints", h("a", { href: link("why-not", [], { host }), key: "why", class: "button" }, "Why is one missing?")),
    listGrid(route, context, {
      label: "Endpoints", id: `endpoints ${namespace} ${host}`, columns: COLUMNS,
      page: pageOf("/debug/endpoints", { host, namespace, search: route.query.search }),
      href: (e) => link("endpoints", [e.endpoint], { host }),
      empty: route.query.search ? "No endpoint matches." : "The service has no endpoint.",
    }),
  ]);
}
