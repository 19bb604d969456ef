// Forms of the questions that a view answers; the answer is in the link.

import { h } from "./dom.js";
import { state } from "./parts.js";

/** Form of a question. `fields` are `{name, label, value, hint, required, list}`; `to` makes the link of the answer. */
export function askForm(action, fields, to) {
  const submit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]));
    location.hash = to(values);
  };
  return h("form", { class: "filters", key: "question", onsubmit: submit, autocomplete: "off" },
    fields.map((field) => h("label", { key: field.name }, `${field.label} `,
      h("input", { name: field.name, value: field.value ?? "", placeholder: field.hint, required: field.required, spellcheck: "false", list: field.list ? `${field.name}-list` : undefined }),
      field.list ? h("datalist", { id: `${field.name}-list` }, field.list.map((value) => h("option", { key: value, value }))) : null)),
    h("button", { type: "submit" }, action));
}

/** Notes of an answer, such as about streams that share an id. */
export function notes(found) {
  const list = found.metadata?.notes ?? [];
  return list.length === 0 ? null : h("ul", { class: "conditions", key: "notes" }, list.map((note) => h("li", { key: note }, state(note, "info"))));
}
