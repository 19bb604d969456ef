// The path of an operator without a mouse: search, open a service, one of its endpoints, and back.
"use strict";

const { assert, shows, until } = require("./browser.js");

const focused = (page) => page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.tagName);
const hash = (page) => page.evaluate(() => decodeURIComponent(location.hash));

async function check(browser) {
  const page = await browser.open("#/overview");
  await page.locator("#command").waitFor();
  await page.keyboard.press("Tab");
  assert((await focused(page)) === "Skip to the content", `Tab reaches ${await focused(page)} first`);
  await page.keyboard.press("Enter");
  assert((await focused(page)) === "Overview", "the skip link does not lead to the view");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.locator(".grid").getByText("pay.shop.example").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("pay.shop");
  await until(page, "one match", () => document.querySelector("[role=grid]")?.getAttribute("aria-rowcount") === "2");
  assert((await hash(page)) === "#/services?search=pay.shop", `the link is ${await hash(page)}`);
  await page.keyboard.press("ArrowDown");
  assert((await focused(page)) === "pay.shop.example", `the arrow leads to ${await focused(page)}`);
  await page.keyboard.press("Enter");
  await shows(page, "Declarations");
  await until(page, "the focus on the title", () => document.activeElement?.id === "title");
  await page.locator(".grid .row").first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await shows(page, "delivered");
  assert((await hash(page)).startsWith("#/endpoints/10."), `the link is ${await hash(page)}`);
  await page.goBack();
  await shows(page, "Declarations");
  await page.locator("#title").focus();
  await page.keyboard.press("Escape");
  await until(page, "the list of services", () => location.hash.startsWith("#/services") && !location.hash.includes("shop.example"));
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await colours(page);
  await page.close();
}

async function colours(page) {
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const dark = await ground();
  await page.getByRole("button", { name: "Dark or light" }).click();
  const light = await ground();
  assert(dark !== light, "the colours did not change");
  await page.reload();
  await page.locator("#command").waitFor();
  assert((await ground()) === light, "the choice of colours was lost");
}

module.exports = { check };
