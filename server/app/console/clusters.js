// Kubernetes clusters: state, end of the credential, and declarations.

import { h } from "./dom.js";
import { RequestError, get } from "./api.js";
import { ago, count, duration, until } from "./format.js";
import { link, search } from "./links.js";
import { code, nothing, pairs, section, state, table } from "./parts.js";

export const clusters = {
  title: "Clusters",
  load: (route, { signal }) => get("/debug/clusters", signal),
  render(route, list) {
    return {
      title: "Clusters",
      words: ["get", "clusters", "-o", "wide"],
      document: "/debug/clusters",
      body: [
        list.items.length === 0 ? nothing("No Kubernetes cluster is configured or declared.", "info") : table("Clusters", columns(list.loaded), list.items, (one) => one.name),
        sources(list.metadata.sources ?? []),
      ],
    };
  },
};

function columns(loaded) {
  return [
    { name: "Cluster", of: (one) => h("a", { href: link("clusters", [one.name]) }, one.name) },
    { name: "State", of: (one) => state(one.state) },
    { name: "Since", class: "num", of: (one) => ago(one.sinceMillisAgo, loaded) },
    { name: "Confirmed", class: "num", of: (one) => ago(one.confirmedMillisAgo, loaded) },
    { name: "Credential ends", class: "num", of: (one) => (one.credentialExpires ? until(one.credentialExpires) : "–") },
    { name: "Services", class: "num", of: (one) => count(one.services) },
    { name: "Endpoints", class: "num", of: (one) => count(one.endpoints) },
    { name: "Declared by", of: (one) => one.source },
    { name: "Reason", class: "wide", of: (one) => [code(one.code), " ", one.reason] },
  ];
}

function sources(list) {
  if (list.length === 0) return null;
  const columns = [
    { name: "Source", of: (one) => one.name },
    { name: "State", of: (one) => state(one.state) },
    { name: "Objects", class: "num", of: (one) => count(one.objects) },
    { name: "Reason", class: "wide", of: (one) => [code(one.code), " ", one.reason, (one.faults ?? []).map((fault) => h("div", { key: fault.object }, fault.object, ": ", fault.message))] },
  ];
  return section("Sources of declarations", table("Sources of declarations", columns, list, (one) => one.name));
}

export const cluster = {
  async load({ parts: [name] }, { signal }) {
    const list = await get(`/debug/clusters${search({ name })}`, signal);
    if (list.items.length === 0) throw new RequestError(404, `No cluster ${name} is configured or declared.`);
    return { one: list.items[0], loaded: list.loaded };
  },
  render({ parts: [name] }, { one, loaded }) {
    return {
      title: name,
      note: "cluster",
      up: link("clusters"),
      upName: "Clusters",
      words: ["cluster", "describe", name],
      document: `/debug/clusters${search({ name })}`,
      body: [facts(one, loaded), trouble(one), claims(one), registries(one)],
    };
  },
};

function facts(one, loaded) {
  return pairs([
    ["State", state(one.state)],
    ["Reason", one.reason ? [code(one.code), " ", one.reason] : "", "long"],
    ["Since", one.sinceMillisAgo === undefined ? "" : ago(one.sinceMillisAgo, loaded)],
    ["Confirmed", one.confirmedMillisAgo === undefined ? "" : ago(one.confirmedMillisAgo, loaded)],
    ["Next try", one.retryInMillis === undefined ? "" : `in ${duration(one.retryInMillis)}`],
    ["Declared by", one.source],
    ["Credential ends", one.credentialExpires ? `${until(one.credentialExpires)} (${one.credentialExpires})` : ""],
    ["Token renewed", one.renewal ? until(one.renewal) : ""],
    ["Rotations", one.rotations ? count(one.rotations) : ""],
    ["Identity", one.unverified ? "cannot be read" : one.identity],
    ["Answers in its place", one.foundIdentity],
    ["Staleness policy", one.staleness],
    ["Serves", `${count(one.services)} services, ${count(one.endpoints)} endpoints, ${count(one.workloads)} workloads, ${count(one.gateways)} gateways`],
  ]);
}

function trouble(one) {
  const list = one.conditions ?? [];
  if (list.length === 0) return null;
  const columns = [{ name: "Kind", of: (c) => c.kind }, { name: "Code", of: (c) => code(c.code) ?? "–" }, { name: "What", class: "wide", of: (c) => c.message }];
  return section("Conditions", table("Conditions", columns, list));
}

function claims(one) {
  const list = one.claims ?? [];
  if (list.length === 0) return null;
  const columns = [
    { name: "Object", of: (claim) => claim.object },
    { name: "Outcome", of: (claim) => state(claim.outcome) },
    { name: "Faults", class: "wide", of: (claim) => (claim.faults ?? []).map((fault, i) => h("div", { key: i }, code(fault.code), " ", fault.message)) },
  ];
  return section("Declarations", table("Declarations", columns, list, (claim) => claim.object));
}

function registries(one) {
  const parts = one.registries.flatMap((registry) => (registry.parts ?? []).map((part) => ({ registry, part })));
  if (parts.length === 0) return null;
  const columns = [
    { name: "Registry", of: ({ registry }) => h("a", { href: link("registries", [registry.name]) }, registry.name) },
    { name: "Watched kind", of: ({ part }) => part.name },
    { name: "State", of: ({ part }) => state(part.state) },
    { name: "Reason", class: "wide", of: ({ part }) => part.reason ?? "" },
  ];
  return section("Watches", table("Watches", columns, parts, ({ registry, part }) => `${registry.name} ${part.name}`));
}
