// Links of the console: `#/view/part?name=value`. Whatever a view shows is in its link, so that it can be shared.

/** Reads the fragment of the address. */
export function parse(fragment) {
  const [path, query] = fragment.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decode);
  return { view: parts[0] ?? "overview", parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Builds a link. Empty values are left out. */
export function link(view, parts = [], query = {}) {
  const path = [view, ...parts].map((part) => encodeURIComponent(part)).join("/");
  const words = search(query);
  return `#/${path}${words}`;
}

/** Builds the query of an address; empty values are left out. */
export function search(query) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

/** Builds a link to what a finding names, such as `registries/east`. */
export function viewLink(view) {
  return `#/${String(view ?? "").replace(/^[#/]+/, "")}`;
}
