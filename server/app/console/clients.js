// Connected clients, with what they were sent and acknowledged; and one client with its resources.

import { h } from "./dom.js";
import { RequestError, get } from "./api.js";
import { ago, count, duration } from "./format.js";
import { link, search } from "./links.js";
import { nothing, pairs, section, state, table } from "./parts.js";
import { listGrid, pageIn, pageOf, searchField } from "./lists.js";

const nackOf = (client) => client.types.map((type) => type.nack).find(Boolean) ?? "";
const versions = (client) => client.types.map((type) => `${type.type} ${short(type.sent)}/${short(type.acked)}`).join("  ");
const short = (version) => (version ? version.slice(0, 8) : "–");
const latest = (client) => client.types.map((type) => type.ackedMillisAgo).filter((age) => age !== undefined).sort((a, b) => a - b)[0];

const COLUMNS = [
  { name: "Client", class: "mono", width: "minmax(14rem, 2fr)", sort: "id", value: (c) => c.id, of: (c) => c.id },
  { name: "State", width: "8rem", sort: "state", value: (c) => c.state, of: (c) => state(c.state) },
  { name: "Kind", width: "6rem", sort: "kind", value: (c) => c.kind, of: (c) => c.kind },
  { name: "Sent / acknowledged", class: "mono", width: "minmax(0, 2fr)", of: versions },
  { name: "Acknowledged", class: "num", width: "8rem", sort: "acked", value: (c) => latest(c) ?? Infinity, of: (c) => ago(latest(c), c.loaded) },
  { name: "Connected", class: "num", width: "7rem", sort: "age", value: (c) => c.connectedMillis, of: (c) => duration(c.connectedMillis + performance.now() - c.loaded) },
  { name: "Rejected because", width: "minmax(0, 2fr)", of: (c) => nackOf(c) || (c.notes ?? []).join(" ") },
];

export const clients = {
  render(route, data, context) {
    const query = { search: route.query.search };
    return {
      title: "Clients",
      words: ["get", "clients", "-o", "wide"],
      document: `/debug/clients${search({ ...query, limit: 1000 })}`,
      body: [
        searchField(route, context, "Search clients"),
        listGrid(route, context, {
          label: "Clients", id: "clients", columns: COLUMNS, page: pageOf("/debug/clients", query),
          href: (c) => link("clients", [c.id]), level: (c) => (c.state === "ERROR" ? "bad" : ""),
          empty: query.search ? "No client matches." : "No client is connected.",
        }),
      ],
    };
  },
};

export const client = {
  async load({ parts: [id] }, { signal, before }) {
    const list = await get(`/debug/clients${search({ name: id, limit: 20 })}`, signal);
    if (list.items.length === 0) throw new RequestError(404, `${id} is not connected. The page follows changes: it shows the client once it connects.`);
    // The list of resources can be long: it is requested again only after something was sent or answered.
    const stamp = JSON.stringify(list.items.map((one) => [one.connection, one.types.map((type) => [type.sent, type.acked, type.state, type.sentGeneration, type.ackedGeneration])]));
    const resources = before?.stamp === stamp ? before.resources : await get(`/debug/resources${search({ client: id })}`, signal);
    return { list, stamp, resources };
  },
  render(route, { list, resources, stamp }, context) {
    const [id] = route.parts;
    return {
      title: id,
      note: "client",
      up: link("clients"),
      upName: "Clients",
      words: ["get", "resources", id, "-o", "wide"],
      document: `/debug/resources${search({ client: id })}`,
      body: [list.items.map((one) => stream(one, list.loaded, list.items.length > 1)), resourceList(route, resources, stamp, context)],
    };
  },
};

function stream(one, loaded, several) {
  const facts = pairs([
    ["State", state(one.state)],
    ["Connected for", duration(one.connectedMillis + performance.now() - loaded)],
    ["Kind", [one.kind, one.agent].filter(Boolean).join(", ")],
    ["Protocol", one.protocol],
    ["Peer", one.peer],
    ["Identity", one.identity ? `${one.identity}, proved by ${one.proof}` : ""],
    ["Namespace", one.namespace],
    ["Cluster", one.cluster],
    ["Network", one.network],
    ["Locality", one.locality],
    ["Notes", (one.notes ?? []).join(" ")],
  ]);
  const columns = [
    { name: "Type", of: (type) => type.type },
    { name: "State", of: (type) => state(type.state) },
    { name: "Subscribed", class: "num", of: (type) => (type.wildcard ? "all" : count(type.names)) },
    { name: "Sent", class: "mono", of: (type) => type.sent || "–" },
    { name: "Sent at", class: "num", of: (type) => ago(type.sentMillisAgo, loaded) },
    { name: "Acknowledged", class: "mono", of: (type) => type.acked || "–" },
    { name: "Acknowledged at", class: "num", of: (type) => ago(type.ackedMillisAgo, loaded) },
    { name: "Held", class: "num", of: (type) => count(type.held) },
    { name: "Rejected because", class: "wide", of: (type) => [type.nack, (type.nackedNames ?? []).length > 0 ? ` (${type.nackedNames.join(", ")})` : ""] },
  ];
  return section(several ? `Stream ${one.connection}` : "Versions", [facts, table("Sent and acknowledged versions", columns, one.types, (type) => type.type)]);
}

const RESOURCES = [
  { name: "Name", class: "mono", width: "minmax(14rem, 3fr)", sort: "name", value: (r) => r.name, of: (r) => r.name },
  { name: "Type", width: "5rem", sort: "type", value: (r) => r.type, of: (r) => r.type },
  { name: "State", width: "8rem", sort: "state", value: (r) => r.state, of: (r) => state(r.state) },
  { name: "Version", class: "mono", width: "10rem", of: (r) => r.version ?? "" },
  { name: "Bytes", class: "num", width: "6rem", sort: "bytes", value: (r) => r.bytes ?? 0, of: (r) => (r.bytes === undefined ? "–" : count(r.bytes)) },
  { name: "Note", width: "minmax(0, 2fr)", of: (r) => r.error || r.note || (r.rules ?? []).map((rule) => `${rule.kind} ${rule.namespace}/${rule.name}`).join(", ") },
];

function resourceList(route, resources, stamp, context) {
  const text = (route.query.search ?? "").toLowerCase();
  const rows = text ? resources.items.filter((one) => `${one.type} ${one.name} ${one.state}`.toLowerCase().includes(text)) : resources.items;
  if (resources.items.length === 0) return section("Resources", nothing("Nothing was sent to this client yet.", "wait"));
  return section("Resources", [
    searchField(route, context, "Search resources"),
    listGrid(route, { ...context, version: stamp }, { label: "Resources", id: `resources ${route.parts[0]}`, columns: RESOURCES, page: pageIn(rows), level: (r) => (r.state === "ERROR" ? "bad" : "") }),
  ]);
}
