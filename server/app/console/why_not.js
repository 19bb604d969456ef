// Why a client does not receive a host's endpoints: what leads the client there, and each rule with what it excludes.

import { h } from "./dom.js";
import { get } from "./api.js";
import { clock, counted } from "./format.js";
import { link, search } from "./links.js";
import { code, nothing, object, section, state, table } from "./parts.js";
import { steps } from "./steps.js";
import { askForm, notes } from "./questions.js";

export const whyNot = {
  title: "Why an endpoint is missing",
  async load({ query: { host, client, subset } }, { signal, clients }) {
    const known = await clients(signal);
    const found = host && client ? await get(`/debug/why-not${search({ host, client, subset })}`, signal) : null;
    return { found, clients: known };
  },
  render({ query }, data) {
    const { host, client, subset } = query;
    return {
      title: "Why an endpoint is missing",
      note: host && client ? `${host} for ${client}` : "what a client does not receive of a host, and the rule that excludes it",
      words: ["why-not", host ?? "HOST", "--for-client", client ?? "ID", ...(subset ? ["--subset", subset] : [])],
      document: host && client ? `/debug/why-not${search({ host, client, subset })}` : null,
      body: [form(query, data), data.found ? [notes(data.found), data.found.items.map(answer)] : null],
    };
  },
};

function form(query, data) {
  const fields = [
    { name: "host", label: "Host", value: query.host, hint: "pay.shop.example", required: true },
    { name: "client", label: "Client", value: query.client, hint: "node id", required: true, list: data.clients },
  ];
  return askForm("Explain", fields, (values) => link("why-not", [], values));
}

function answer(item) {
  const reached = (item.served > 0 || item.anyDestination) && !item.unreached;
  const reasons = item.reasons ?? [];
  return h("article", { class: "story", key: item.host },
    h("h2", {}, item.service ?? item.host, " ", state(reached ? `${counted(item.served, "endpoint")} served` : "not reached", reached ? "ok" : "bad")),
    (item.reached ?? []).length > 0 ? section("What leads there", steps(item.reached)) : null,
    reasons.length === 0 ? nothing("No rule excludes an endpoint.") : reasons.map(reason),
    (item.held ?? []).map(reason));
}

function reason(one) {
  const columns = [
    { name: "Endpoint", class: "mono", of: (drop) => (drop.endpoint ? h("a", { href: link("endpoints", [drop.endpoint]) }, drop.endpoint) : "–") },
    { name: "Object", of: (drop) => object(drop.object) },
    { name: "Waits since", of: (drop) => (drop.since ? clock(drop.since) : "–") },
    { name: "Detail", class: "wide", of: (drop) => drop.detail },
  ];
  return section(`${one.stage}: ${one.title}`, [
    h("p", {}, code(one.code), ` ${one.next}`),
    one.dropped.length > 0 ? table(`Excluded by ${one.code}`, columns, one.dropped) : null,
  ], counted(one.count, "candidate"));
}
