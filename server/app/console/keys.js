// Keys of the console. They act only where no text is typed and no dialog is open.

import { showHelp } from "./dialogs.js";
import { link } from "./links.js";

const GO = {
  o: ["overview", "overview"], s: ["services", "services"], e: ["endpoints", "an endpoint's story"], w: ["why-not", "why an endpoint is missing"],
  c: ["clients", "clients"], h: ["held", "held removals"], k: ["clusters", "clusters"], r: ["registries", "registries"],
  p: ["policies", "policies"], m: ["map", "map"], t: ["timeline", "timeline"],
};

const HELP = [
  ["/", "search in this view"],
  ["↑ ↓", "move through the rows of a list; Page Up, Page Down, Home and End too"],
  ["Enter", "open the row"],
  ["Esc", "clear the search, then go up"],
  ["y", "copy the command line of this view"],
  ["?", "show these keys"],
  ...Object.entries(GO).map(([key, [, what]]) => [`g ${key}`, what]),
];

let went = 0;

/** Starts to take keys. `up` returns the link of the view above, or nothing. */
export function takeKeys(up) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const field = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") escape(field, up);
    else if (field?.type === "search" && ["ArrowDown", "Enter"].includes(event.key)) enterGrid();
    else if (!field && act(event.key)) event.preventDefault();
  });
}

function escape(field, up) {
  if (field?.value && field.type === "search") {
    field.value = "";
    field.dispatchEvent(new Event("input"));
  } else if (field) {
    document.getElementById("title")?.focus();
  } else {
    const above = up();
    if (above) location.hash = above;
  }
}

function act(key) {
  const goes = performance.now() - went < 1500;
  went = 0;
  if (goes && GO[key]) location.hash = link(GO[key][0]);
  else if (key === "g") went = performance.now();
  else if (key === "/") focusSearch();
  else if (key === "?") showHelp(HELP);
  else if (key === "y") document.getElementById("copy")?.click();
  else if (key === "ArrowDown" && document.activeElement?.closest(".grid, input, select, [role=group]") === null) return enterGrid();
  else return false;
  return true;
}

function focusSearch() {
  const field = document.querySelector("main input[type=search], main input");
  if (field) {
    field.focus();
    field.select?.();
  } else {
    location.hash = link("services");
  }
}

function enterGrid() {
  const first = document.querySelector(".grid .row [tabindex='0']");
  first?.focus();
  return Boolean(first);
}

export { showHelp, HELP };
