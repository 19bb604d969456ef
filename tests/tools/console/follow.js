// A change of the source: it shows without a reload, soon, and without loss of focus, scroll position and selection. Then a
// held removal is released.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { assert, shows, until } = require("./browser.js");

const entry = (name, host, addresses) => `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ${name}, namespace: shop}
spec:
  hosts: [${host}]
  ports: [{number: 8080, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [${addresses.map((address) => `{address: ${address}}`).join(", ")}]
`;

function put(folder, name, text) {
  const fresh = path.join(folder, `.${name}.new`);
  fs.writeFileSync(fresh, text);
  fs.renameSync(fresh, path.join(folder, name));
}

async function check(browser, world) {
  await appears(browser, world);
  await keepsPlace(browser, world);
  await endpointGoes(browser, world);
  await release(browser);
}

async function appears(browser, world) {
  const page = await browser.open("#/services?search=fresh");
  await shows(page, "No service matches.");
  const times = await page.evaluateHandle(() => {
    const seen = {};
    new MutationObserver(() => {
      const text = document.getElementById("main").textContent;
      const generation = document.getElementById("generation").textContent;
      if (!seen.event && seen.armed && generation !== seen.generation) seen.event = performance.now();
      if (!seen.shown && text.includes("fresh.shop.example")) seen.shown = performance.now();
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
    seen.generation = document.getElementById("generation").textContent;
    seen.armed = true;
    return seen;
  });
  const began = Date.now();
  put(world.files, "fresh.yaml", entry("fresh", "fresh.shop.example", ["10.7.0.1"]));
  await shows(page, "fresh.shop.example");
  const all = Date.now() - began;
  const { event, shown } = await times.jsonValue();
  console.log(`a change of a file shows after ${all} ms, ${Math.round(shown - event)} ms after its event arrived`);
  assert(shown - event < 1000, `the view followed ${shown - event} ms after the event`);
  await page.close();
}

// The list is long enough to scroll; the change is above what is in sight.
async function keepsPlace(browser, world) {
  put(world.files, "rows.yaml", Array.from({ length: 300 }, (_, i) => entry(`row-${i}`, `row-${String(i).padStart(3, "0")}.shop.example`, ["10.8.0.1"])).join("---\n"));
  const page = await browser.open("#/services?search=row-");
  await until(page, "300 rows", () => document.querySelector("[role=grid]")?.getAttribute("aria-rowcount") === "301");
  await page.locator(".grid .body").evaluate((body) => { body.scrollTop = 3000; });
  const link = page.getByRole("link", { name: "row-110.shop.example" });
  await link.focus();
  await page.evaluate(() => {
    window.rowElement = document.activeElement;
    const range = document.createRange();
    range.selectNodeContents(document.activeElement);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  });
  put(world.files, "row-x.yaml", entry("row-x", "row-zzz.shop.example", ["10.8.0.2"]));
  await until(page, "the row that was added", () => document.querySelector("[role=grid]").getAttribute("aria-rowcount") === "302");
  const after = await page.evaluate(() => ({
    same: document.activeElement === window.rowElement, text: document.activeElement.textContent,
    selected: getSelection().toString(), top: document.querySelector(".grid .body").scrollTop,
  }));
  assert(after.same && after.text === "row-110.shop.example", `the focus moved to ${after.text}`);
  assert(after.selected === "row-110.shop.example", `the selection is ${after.selected}`);
  assert(Math.abs(after.top - 3000) < 64, `the list scrolled to ${after.top}`);
  await page.close();
}

async function endpointGoes(browser, world) {
  const page = await browser.open("#/services/shop/fresh.shop.example");
  await shows(page, "10.7.0.1:8080");
  put(world.files, "fresh.yaml", entry("fresh", "fresh.shop.example", ["10.7.0.2"]));
  await shows(page, "10.7.0.2:8080");
  await until(page, "the end of the first endpoint", () => !document.getElementById("main").textContent.includes("10.7.0.1:8080"));
  fs.rmSync(path.join(world.files, "fresh.yaml"));
  await shows(page, "No registry declares");
  await page.close();
  // Asking for a resource that is gone is answered with an empty list, not with an error.
}

async function release(browser) {
  const page = await browser.open("#/held");
  const buttons = page.getByRole("button", { name: /^Release / });
  await buttons.first().waitFor();
  const before = await buttons.count();
  const name = await buttons.first().getAttribute("aria-label");
  await buttons.first().click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  assert(await page.evaluate(() => document.activeElement.textContent === "Cancel"), "the safe choice has no focus");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert((await buttons.count()) === before, "Escape released it");
  await page.getByRole("button", { name, exact: true }).click();
  await dialog.getByRole("button", { name: "Release", exact: true }).click();
  await page.getByText(/^Released: /).waitFor();
  await page.getByRole("button", { name, exact: true }).waitFor({ state: "detached" });
  assert((await buttons.count()) < before, "the released removal is still listed");
  await page.close();
}

module.exports = { check };
