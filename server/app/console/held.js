// Held removals: what a source no longer lists without proof, and is still served. An operator may release one.

import { h } from "./dom.js";
import { get, post } from "./api.js";
import { ago, count } from "./format.js";
import { link } from "./links.js";
import { confirm } from "./dialogs.js";
import { nothing, section, table } from "./parts.js";

export const held = {
  title: "Held removals",
  load: (route, { signal }) => get("/debug/guard", signal),
  render(route, list, context) {
    return {
      title: "Held removals",
      note: "served until their source confirms them, or an operator releases them",
      words: ["guard", "list", "-o", "wide"],
      document: "/debug/guard",
      body: list.items.length === 0 ? nothing("No removal is held.") : section("Waiting for proof", rows(list, context), count(list.items.length + (list.metadata.remaining ?? 0))),
    };
  },
};

function rows(list, context) {
  const columns = [
    { name: "What", class: "wide", of: (one) => one.what },
    { name: "Registry", of: (one) => h("a", { href: link("registries", [one.registry]) }, one.registry) },
    { name: "Scope", of: (one) => one.scope },
    { name: "Held", class: "num", of: (one) => ago(one.sinceMillisAgo, list.loaded) },
    { name: "Confirm requests", class: "num", of: (one) => count(one.confirmAttempts) },
    { name: "Reason", class: "wide", of: (one) => one.reason },
    { name: "Id", class: "mono", of: (one) => one.id },
    { name: "Action", of: (one) => h("button", { type: "button", class: "danger", "aria-label": `Release ${one.what}`, onclick: () => release(one, context) }, "Release…") },
  ];
  return table("Held removals", columns, list.items, (one) => one.id);
}

async function release(one, context) {
  const lines = [
    `${one.what} of registry ${one.registry} leaves the catalog, and every client loses it.`,
    `It is held because: ${one.reason}`,
    "The source did not prove this removal. If the source was wrong, traffic fails.",
  ];
  if (!(await confirm("Release the held removal?", lines, "Release"))) return;
  try {
    await post(`/debug/guard/release?id=${encodeURIComponent(one.id)}`);
    context.say(`Released: ${one.what}`);
  } catch (error) {
    context.say(`Not released: ${error.message}`);
  }
  context.refresh();
}
