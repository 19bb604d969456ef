// Services, merged: searched and paged by the server.

import { link, search } from "./links.js";
import { code, health } from "./parts.js";
import { choice, listGrid, pageOf, searchField } from "./lists.js";

const registriesOf = (service) => [...new Set(service.declarations.map((one) => one.registry))];

const COLUMNS = [
  { name: "Host", sort: "host", width: "minmax(16rem, 3fr)", class: "mono", value: (s) => s.host, of: (s) => s.host },
  { name: "Namespace", sort: "namespace", value: (s) => s.namespace, of: (s) => s.namespace },
  { name: "Ports", width: "minmax(0, 1.5fr)", of: (s) => s.ports.map((port) => `${port.number}/${port.protocol}`).join(", ") },
  { name: "Endpoints", sort: "endpoints", width: "8rem", value: (s) => s.endpoints.total, of: (s) => health(s.endpoints) },
  { name: "Registries", sort: "registries", width: "minmax(0, 1.2fr)", value: (s) => registriesOf(s).join(", "), of: (s) => registriesOf(s).join(", ") },
  { name: "Conflicts", sort: "conflicts", width: "minmax(0, 1.2fr)", value: (s) => -(s.conditions ?? []).length, of: (s) => [...new Set((s.conditions ?? []).map((one) => one.code))].map((one) => [code(one), " "]) },
];

export const services = {
  title: "Services",
  load: async (route, { signal, registries }) => registries(signal),
  render(route, names, context) {
    const { search: text, registry } = route.query;
    const query = { search: text, registry };
    const words = ["get", "services", "-o", "wide", ...(registry ? ["--registry", registry] : [])];
    return {
      title: "Services",
      words,
      document: `/debug/services${search({ ...query, limit: 1000 })}`,
      body: [
        searchField(route, context, "Search services", choice(route, context, "registry", "Registry", names)),
        listGrid(route, context, {
          label: "Services", id: "services", columns: COLUMNS, page: pageOf("/debug/services", query),
          href: (s) => link("services", [s.namespace, s.host]),
          level: (s) => ((s.conditions ?? []).length > 0 ? "warn" : ""),
          empty: text || registry ? "No service matches." : "No service is served.",
        }),
      ],
    };
  },
};
