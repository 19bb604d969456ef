// Map of clusters, registries and networks, as a drawing and as a table with the same content.

import { h } from "./dom.js";
import { get } from "./api.js";
import { count } from "./format.js";
import { link } from "./links.js";
import { levelOf, nothing, section, state, table } from "./parts.js";

const COLUMNS = [["registry"], ["cluster", "datacenter"], ["gateway"], ["network"]];
const NAMES = ["Registries", "Clusters and datacenters", "Gateways", "Networks"];
const VIEWS = { cluster: "clusters", registry: "registries" };
const [WIDTH, HEIGHT, GAP, STEP, TOP] = [200, 46, 14, 270, 34];

export const map = {
  title: "Map",
  load: (route, { signal }) => get("/debug/map", signal),
  render(route, { nodes, edges }) {
    return {
      title: "Map",
      words: ["get", "map"],
      document: "/debug/map",
      body: nodes.length === 0 ? nothing("No registry is configured.", "warn") : [drawing(nodes, edges), tables(nodes, edges)],
    };
  },
};

const hrefOf = (node) => (VIEWS[node.kind] ? link(VIEWS[node.kind], [node.name]) : null);

// Columns without nodes are left out; nodes keep the order of the server.
function layout(nodes) {
  const filled = COLUMNS.map((kinds, i) => ({ name: NAMES[i], nodes: nodes.filter((node) => kinds.includes(node.kind)) })).filter((column) => column.nodes.length > 0);
  const at = new Map();
  filled.forEach((column, x) => column.nodes.forEach((node, y) => at.set(node.id, { x: x * STEP + 1, y: TOP + y * (HEIGHT + GAP) })));
  const rows = Math.max(...filled.map((column) => column.nodes.length));
  return { filled, at, width: (filled.length - 1) * STEP + WIDTH + 2, height: TOP + rows * (HEIGHT + GAP) };
}

function drawing(nodes, edges) {
  const { filled, at, width, height } = layout(nodes);
  const heads = filled.map((column, x) => h("svg:text", { key: column.name, class: "head", x: x * STEP + 1, y: 14 }, column.name));
  return h("div", { class: "scroll", key: "drawing", role: "group", tabindex: "0", "aria-label": "Drawing" },
    h("svg:svg", { class: "map", role: "img", "aria-label": "Map of clusters, registries and networks; the tables below have the same content", viewBox: `0 0 ${width} ${height}`, width, height },
      heads, edges.map((edge) => line(edge, at)), nodes.filter((node) => at.has(node.id)).map((node) => box(node, at.get(node.id)))));
}

function line(edge, at) {
  const [from, to] = [at.get(edge.from), at.get(edge.to)];
  if (!from || !to) return null;
  const [a, b] = from.x <= to.x ? [from, to] : [to, from];
  const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
  const width = 1 + Math.min(7, Math.log10((edge.endpoints ?? 0) + 1) * 1.6);
  const curve = a.x === b.x ? `M${x1} ${y1}C${x1 + 40} ${y1} ${x1 + 40} ${y2} ${x1} ${y2}` : `M${x1} ${y1}C${x1 + 36} ${y1} ${x2 - 36} ${y2} ${x2} ${y2}`;
  return h("svg:path", { key: `${edge.from} ${edge.to} ${edge.kind}`, class: "edge", d: curve, "stroke-width": width.toFixed(1) });
}

function box(node, { x, y }) {
  const level = levelOf(node.state);
  const href = hrefOf(node);
  const detail = [node.state, node.endpoints === undefined || node.endpoints === null ? null : `${count(node.endpoints)} endpoints`].filter(Boolean).join(" · ");
  const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return h("svg:g", { key: node.id, class: `node ${level}${href ? " opens" : ""}`, transform: `translate(${x} ${y})`, onclick: href ? () => { location.hash = href; } : null },
    h("svg:rect", { width: WIDTH, height: HEIGHT, rx: 6 }), h("svg:rect", { class: "edge-of-node", width: 4, height: HEIGHT, rx: 2 }),
    h("svg:text", { class: "name", x: 14, y: 19 }, clip(node.name, 26)), h("svg:text", { class: "detail", x: 14, y: 36 }, clip(detail || node.kind, 32)));
}

function tables(nodes, edges) {
  const names = new Map(nodes.map((node) => [node.id, `${node.kind} ${node.name}`]));
  const nodeColumns = [
    { name: "Name", of: (node) => (hrefOf(node) ? h("a", { href: hrefOf(node) }, node.name) : node.name) },
    { name: "Kind", of: (node) => node.kind },
    { name: "State", of: (node) => (node.state ? state(node.state) : "–") },
    { name: "Services", class: "num", of: (node) => count(node.services) },
    { name: "Endpoints", class: "num", of: (node) => count(node.endpoints) },
    { name: "Reason", class: "wide", of: (node) => node.reason ?? "" },
  ];
  const edgeColumns = [
    { name: "From", of: (edge) => names.get(edge.from) ?? edge.from },
    { name: "To", of: (edge) => names.get(edge.to) ?? edge.to },
    { name: "Relation", of: (edge) => edge.kind },
    { name: "Services", class: "num", of: (edge) => count(edge.services) },
    { name: "Endpoints", class: "num", of: (edge) => count(edge.endpoints) },
  ];
  return [
    section("Nodes", table("Nodes", nodeColumns, nodes, (node) => node.id)),
    section("Connections", table("Connections", edgeColumns, edges, (edge) => `${edge.from} ${edge.to} ${edge.kind}`)),
  ];
}
