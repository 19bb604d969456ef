// Registries: state, scopes, problems; and one registry with its collections.

import { h } from "./dom.js";
import { RequestError, get } from "./api.js";
import { ago, count, duration } from "./format.js";
import { link, search } from "./links.js";
import { code, conditions, nothing, object, pairs, section, state, table } from "./parts.js";

export const registries = {
  title: "Registries",
  load: (route, { signal }) => get("/debug/registries", signal),
  render(route, list) {
    return {
      title: "Registries",
      words: ["get", "registries", "-o", "wide"],
      document: "/debug/registries",
      body: list.items.length === 0 ? nothing("No registry is configured.", "warn") : table("Registries", columns(list.loaded), list.items, (one) => one.name),
    };
  },
};

function columns(loaded) {
  return [
    { name: "Registry", of: (one) => h("a", { href: link("registries", [one.name]) }, one.name) },
    { name: "Kind", of: (one) => one.kind },
    { name: "Cluster", of: (one) => one.cluster },
    { name: "State", of: (one) => state(one.state) },
    { name: "Confirmed", class: "num", of: (one) => ago(one.confirmedMillisAgo, loaded) },
    { name: "Services", class: "num", of: (one) => count(one.services) },
    { name: "Endpoints", class: "num", of: (one) => count(one.endpoints) },
    { name: "Held", class: "num", of: (one) => (one.heldTotal > 0 ? h("a", { href: link("held") }, count(one.heldTotal)) : "0") },
    { name: "Problems", class: "num", of: (one) => (one.problemsTotal > 0 ? state(count(one.problemsTotal), "warn") : "0") },
    { name: "Reason", class: "wide", of: (one) => one.reason ?? "" },
  ];
}

export const registry = {
  async load({ parts: [name] }, { signal }) {
    const list = await get(`/debug/registries${search({ name })}`, signal);
    if (list.items.length === 0) throw new RequestError(404, `Registry ${name} is not configured.`);
    return { one: list.items[0], loaded: list.loaded };
  },
  render({ parts: [name] }, { one, loaded }) {
    return {
      title: name,
      note: `registry of kind ${one.kind}`,
      up: link("registries"),
      upName: "Registries",
      words: ["get", "registries", name, "-o", "wide"],
      document: `/debug/registries${search({ name })}`,
      body: [
        facts(one, loaded),
        (one.conditions ?? []).length > 0 ? section("Conditions", conditions(one.conditions)) : null,
        problems(one), scopes(one, loaded), collections(one), ended(one, loaded),
      ],
    };
  },
};

function facts(one, loaded) {
  return pairs([
    ["State", state(one.state)],
    ["Reason", one.reason, "long"],
    ["Confirmed", one.confirmedMillisAgo === undefined ? "never" : ago(one.confirmedMillisAgo, loaded)],
    ["Serves", [h("a", { href: link("services", [], { registry: one.name }) }, `${count(one.services)} services`), `, ${count(one.endpoints)} endpoints`]],
    ["Cluster", one.cluster],
    ["Provider", one.provider],
    ["Generation", one.generation],
    ["Next generation", one.nextGeneration === undefined ? "" : `${one.nextGeneration}${one.waitsFor ? `, waits: ${one.waitsFor}` : ""}`],
    ["Accept", one.needsAccept ? "the next run waits until an operator accepts it" : ""],
    ["Identity", one.identity],
    ["Failed runs", one.failures > 0 ? count(one.failures) : ""],
    ["Held removals", one.heldTotal > 0 ? h("a", { href: link("held") }, count(one.heldTotal)) : ""],
  ]);
}

function problems(one) {
  const list = one.problems ?? [];
  if (one.problemsTotal === 0) return null;
  const columns = [
    { name: "Object", of: (problem) => object(problem.object) },
    { name: "Code", of: (problem) => code(problem.code) },
    { name: "Problem and next step", class: "wide", of: (problem) => problem.message },
  ];
  return section("Problems", table("Problems", columns, list, (problem) => `${problem.code} ${problem.object.kind} ${problem.object.namespace} ${problem.object.name}`), count(one.problemsTotal));
}

function scopes(one, loaded) {
  const list = one.sources ?? [];
  if (list.length === 0) return null;
  const columns = [
    { name: "Scope", of: (scope) => scope.scope },
    { name: "State", of: (scope) => state(scope.state) },
    { name: "Since", class: "num", of: (scope) => ago(scope.sinceMillisAgo, loaded) },
    { name: "Next try", class: "num", of: (scope) => (scope.retryInMillis === undefined ? "–" : `in ${duration(scope.retryInMillis)}`) },
    { name: "Held", class: "num", of: (scope) => count(scope.held) },
    { name: "Mode", of: (scope) => scope.mode ?? "" },
    { name: "Reason and details", class: "wide", of: (scope) => [scope.reason, details(scope)] },
  ];
  return section("Scopes", table("Scopes", columns, list, (scope) => scope.scope));
}

function details(scope) {
  const parts = (scope.parts ?? []).map((part) => h("div", { key: `part ${part.name}` }, part.name, ": ", part.state, part.reason ? ` (${part.reason})` : ""));
  return [parts, (scope.details ?? []).map((detail) => h("div", { class: "muted", key: `detail ${detail.name}` }, detail.name, ": ", detail.ageMillis === undefined ? detail.value : `${duration(detail.ageMillis)} ago`))];
}

function collections(one) {
  const columns = [
    { name: "Scope", of: (list) => list.scope },
    { name: "Facts", of: (list) => list.kind },
    { name: "Freshness", of: (list) => state(list.freshness) },
    { name: "Withheld", of: (list) => (list.withheld ? state("withheld", "warn") : "no") },
    { name: "Count", class: "num", of: (list) => count(list.facts) },
  ];
  return section("Collections", table("Collections", columns, one.collections, (list) => `${list.scope} ${list.kind}`));
}

function ended(one, loaded) {
  const list = one.ended ?? [];
  if (list.length === 0) return null;
  const columns = [
    { name: "Scope", of: (scope) => scope.scope },
    { name: "Evidence", class: "wide", of: (scope) => scope.evidence },
    { name: "Ended", class: "num", of: (scope) => ago(scope.endedMillisAgo, loaded) },
  ];
  return section("Ended scopes", table("Ended scopes", columns, list, (scope) => scope.scope));
}
