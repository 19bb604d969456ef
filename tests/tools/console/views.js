// Each view: opened by its link as a new visitor would, without a violation in dark and light, with the outline of its file.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { assert, shows } = require("./browser.js");
const { assertAccessible } = require("./accessible.js");
const { compareOutline } = require("./outline.js");

// Name, link, and a text that the view shows once it is complete.
const VIEWS = [
  ["overview", "#/overview", "What is wrong"],
  ["services", "#/services", "pay.shop.example"],
  ["services_search", "#/services?search=STOCK", "stock.shop.example"],
  ["service", "#/services/shop/pay.shop.example", "10.4.7.21:8080"],
  ["endpoint", "#/endpoints/10.4.7.21%3A8080?host=pay.shop.example&client=web-1", "acknowledged"],
  ["endpoint_unknown", "#/endpoints/10.9.9.9", "dropped"],
  ["why_not", "#/why-not?host=pay.shop.example&client=web-1", "What leads there"],
  ["clients", "#/clients", "web-1"],
  ["client", "#/clients/web-1", "outbound|8080||pay.shop.example"],
  ["held", "#/held", "Release…"],
  ["clusters", "#/clusters", "south"],
  ["cluster", "#/clusters/south", "Declarations"],
  ["registries", "#/registries", "west"],
  ["registry", "#/registries/files", "Problems"],
  ["policies", "#/policies", "shop/pay"],
  ["policy", "#/policies/VirtualService/shop/pay", "Spec"],
  ["map", "#/map", "Connections"],
  ["timeline", "#/timeline?kind=client", "Client web-1"],
  ["no_view", "#/nowhere", "names no view"],
];

async function check(browser, world) {
  fs.mkdirSync(world.artefacts, { recursive: true });
  const faults = [];
  for (const [name, link, text] of VIEWS) {
    for (const scheme of ["dark", "light"]) {
      const page = await browser.open(link, { scheme });
      try {
        await shows(page, text);
        assert((await page.title()).endsWith("Tributary"), `${name} has the title ${await page.title()}`);
        await page.screenshot({ path: path.join(world.artefacts, `${name}-${scheme}.png`) });
        await assertAccessible(page, `${name} in ${scheme}`);
        if (scheme === "dark") await compareOutline(page, name, world.outlines);
      } catch (error) {
        faults.push(`${name} in ${scheme}: ${error.message}`);
      }
      await page.close();
    }
  }
  if (faults.length > 0) throw new Error(faults.join("\n"));
  await narrow(browser);
  await firstPaint(browser);
  await sees(browser, world);
}

// A window of 680 pixels is one of 1360 at a zoom of 200 %.
async function narrow(browser) {
  for (const link of ["#/overview", "#/services", "#/services/shop/pay.shop.example", "#/map"]) {
    const page = await browser.open(link, { width: 680, height: 425 });
    await page.locator("#command").waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert(!wide, `${link} scrolls sideways at a zoom of 200 %`);
    await page.close();
  }
}

// Ten times the promise, because the machine of a test is busy; the figure is printed.
async function firstPaint(browser) {
  const page = await browser.open("#/overview");
  await page.locator("#command").waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`first paint after ${Math.round(paint)} ms`);
  assert(paint < 2000, `the first paint took ${paint} ms`);
  await page.close();
}

// What the checks rely on: the policy refuses, and the browser reports it.
async function sees(browser, world) {
  const page = await browser.open("#/overview");
  browser.expect("violation of the policy: img-src");
  browser.expect("Content Security Policy");
  browser.expect("requires 'TrustedHTML'");
  browser.expect("require-trusted-types-for");
  browser.expect("request to another origin: http://other.example");
  await page.evaluate(() => {
    const image = document.createElement("img");
    image.src = "http://other.example/x.png";
    document.body.append(image);
  });
  const markup = await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return "accepted";
    } catch (error) {
      return error.name;
    }
  });
  assert(markup === "TypeError", `markup made of text was ${markup}`);
  const deadline = Date.now() + 10000;
  while (!browser.faults.some((fault) => fault.startsWith("violation of the policy: img-src"))) {
    assert(Date.now() < deadline, `a violation was not reported: ${browser.faults.join("; ")}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  await page.close();
}

module.exports = { check };
