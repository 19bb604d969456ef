// Dialogs: help, confirmation of a change, the token, a document. Each is modal, closes with Escape, and returns the focus.

import { h, patch } from "./dom.js";
import { get, keepToken, token } from "./api.js";

function show(name, title, content) {
  const dialog = document.createElement("dialog");
  dialog.className = name;
  dialog.setAttribute("aria-labelledby", `${name}-title`);
  const close = (value) => {
    dialog.returnValue = value ?? "";
    dialog.close();
  };
  patch(dialog, [h("h2", { id: `${name}-title` }, title), content(close)]);
  document.body.append(dialog);
  const before = document.activeElement;
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.();
      done(dialog.returnValue);
    });
    dialog.showModal();
  });
}

const isOpen = (name) => document.querySelector(`dialog.${name}`) !== null;

/** Shows the keys. */
export function showHelp(keys) {
  if (isOpen("help")) return;
  const rows = keys.map(([key, what]) => h("div", {}, h("dt", {}, key.split(" ").map((one) => [h("kbd", {}, one), " "])), h("dd", {}, what)));
  show("help", "Keys", (close) => [
    h("dl", { class: "keys" }, rows),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => close() }, "Close")),
  ]);
}

/** Asks for a confirmation; resolves to whether it was given. */
export async function confirm(title, lines, action) {
  const answer = await show("confirm", title, (close) => [
    lines.map((line) => h("p", {}, line)),
    h("div", { class: "actions" },
      h("button", { type: "button", autofocus: true, onclick: () => close() }, "Cancel"),
      h("button", { type: "button", class: "danger", onclick: () => close("yes") }, action)),
  ]);
  return answer === "yes";
}

/** Asks for a token after the server refused a request; resolves to whether one was given. */
export async function askToken(message) {
  if (isOpen("token")) return false;
  const answer = await show("token", "This server requires a token", (close) => {
    const take = (event) => {
      event.preventDefault();
      const text = event.target.elements.token.value.trim();
      keepToken(text);
      close(text ? "yes" : "");
    };
    return h("form", { method: "dialog", onsubmit: take, autocomplete: "off" },
      h("p", {}, "Paste a token of a service account that may read this server. It is kept for this tab only."),
      message ? h("p", { class: "error", role: "alert" }, message) : null,
      h("label", {}, "Token ", h("input", { name: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true })),
      h("div", { class: "actions" }, token() ? h("button", { type: "button", onclick: () => { keepToken(""); close(); } }, "Forget the token") : null,
        h("button", { type: "submit" }, "Continue")));
  });
  return answer === "yes";
}

/** Shows a document as text. */
export async function showDocument(path) {
  const value = await get(path).catch((error) => ({ kind: "Problem", message: error.message }));
  delete value.loaded;
  show("document", value.kind ?? "Document", (close) => [
    h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2)),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => close() }, "Close")),
  ]);
}
