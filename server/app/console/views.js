// The views by the first part of a link; a second part selects the view of one item.

import { client, clients } from "./clients.js";
import { cluster, clusters } from "./clusters.js";
import { endpoint } from "./endpoint.js";
import { held } from "./held.js";
import { map } from "./map.js";
import { overview } from "./overview.js";
import { policies, policy } from "./policies.js";
import { registries, registry } from "./registries.js";
import { service } from "./service.js";
import { services } from "./services.js";
import { timeline } from "./timeline.js";
import { whyNot } from "./why_not.js";
import { h } from "./dom.js";

const LISTS = { overview, services, endpoints: endpoint, "why-not": whyNot, clients, held, clusters, registries, policies, map, timeline };
const ITEMS = { services: [2, service], endpoints: [1, endpoint], clients: [1, client], clusters: [1, cluster], registries: [1, registry], policies: [3, policy] };

const unknown = {
  render: () => ({ title: "No such view", body: h("p", {}, "The link names no view of this console. ", h("a", { href: "#/overview" }, "Overview")) }),
};

/** Returns the view of a link. */
export function viewOf({ view, parts }) {
  if (!Object.hasOwn(LISTS, view)) return unknown;
  if (parts.length === 0) return LISTS[view];
  const [wanted, item] = ITEMS[view] ?? [];
  return parts.length === wanted ? item : unknown;
}
