// What the views of long lists share: the search field, the page of a list, and a grid that keeps its search in the link.

import { h } from "./dom.js";
import { get } from "./api.js";
import { count } from "./format.js";
import { search } from "./links.js";
import { grid } from "./grid.js";

/** Field that searches the list of a view. The link follows the text. */
export function searchField(route, context, label, ...more) {
  const typed = (event) => context.go({ search: event.target.value });
  return h("search", { class: "filters", key: "filters" },
    h("label", {}, h("span", { class: "hidden" }, label),
      h("input", { type: "search", placeholder: label, value: route.query.search ?? "", oninput: typed, autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" })),
    ...more,
    h("span", { class: "muted num", key: "total", role: "status" }, context.total === null ? "" : `${count(context.total)} ${context.total === 1 ? "match" : "matches"}`));
}

/** Choice that filters the list of a view. */
export function choice(route, context, name, label, values) {
  const chosen = route.query[name] ?? "";
  const all = chosen && !values.includes(chosen) ? [chosen, ...values] : values;
  return h("label", { key: name }, `${label} `, h("select", { onchange: (event) => context.go({ [name]: event.target.value }) },
    h("option", { value: "", selected: chosen === "" }, "all"), all.map((value) => h("option", { key: value, value, selected: value === chosen }, value))));
}

/** Returns a page of a list of the server, for a grid. */
export function pageOf(path, query) {
  return async (offset, limit, signal) => {
    const list = await get(`${path}${search({ ...query, offset: offset || undefined, limit })}`, signal);
    for (const item of list.items) item.loaded = list.loaded;
    return { items: list.items, total: list.metadata.total ?? offset + list.items.length + (list.metadata.remaining ?? 0) };
  };
}

/** Returns a page of rows that are here already. */
export function pageIn(rows) {
  return async (offset, limit) => ({ items: rows.slice(offset, offset + limit), total: rows.length });
}

/** Grid of a view: its sort is in the link, and it follows changes. */
export function listGrid(route, context, options) {
  return grid({
    sort: route.query.sort,
    onSort: (sort) => context.go({ sort }),
    version: context.version,
    status: (text, error, total) => context.report(error, total),
    ...options,
    id: `${options.id} ${JSON.stringify(route.query)}`,
  });
}
