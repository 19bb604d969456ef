// An endpoint's story: why it is served, or where it was dropped, for every client or for one.

import { h } from "./dom.js";
import { get } from "./api.js";
import { link, search } from "./links.js";
import { nothing } from "./parts.js";
import { path } from "./steps.js";
import { askForm, notes } from "./questions.js";

export const endpoint = {
  title: "An endpoint's story",
  async load({ parts: [name], query: { host, subset, client } }, { signal, clients }) {
    const known = await clients(signal);
    const found = name ? await get(`/debug/explain${search({ endpoint: name, host, subset, client })}`, signal) : null;
    return { found, clients: known };
  },
  render({ parts: [name], query }, data) {
    const { host, subset, client } = query;
    const words = ["explain", name ?? "IP:PORT", ...(host ? ["--host", host] : []), ...(subset ? ["--subset", subset] : []), ...(client ? ["--for-client", client] : [])];
    return {
      title: name ?? "An endpoint's story",
      note: name ? (client ? `as ${client} receives it` : "as every client receives it") : "where it comes from, and why it is served or not",
      up: host ? link("services", [], { search: host }) : link("services"),
      upName: "Services",
      words,
      document: name ? `/debug/explain${search({ endpoint: name, host, subset, client })}` : null,
      body: [form(name, query, data), data.found ? stories(data.found) : hint()],
    };
  },
};

function form(name, query, data) {
  const fields = [
    { name: "endpoint", label: "Endpoint", value: name, hint: "10.0.0.1:8080", required: true },
    { name: "host", label: "Host", value: query.host, hint: "any" },
    { name: "client", label: "Client", value: query.client, hint: "every client", list: data.clients },
  ];
  return askForm("Explain", fields, ({ endpoint, ...rest }) => link("endpoints", [endpoint], rest));
}

const stories = (found) => [notes(found), found.items.length === 0 ? nothing("No source lists this endpoint.", "warn") : found.items.map(path)];

const hint = () => h("p", { class: "muted" }, "Enter an address, such as one of a service. With a client, the story ends with what that client was sent and acknowledged. ",
  h("a", { href: link("why-not") }, "Why does a client not receive a host?"));
