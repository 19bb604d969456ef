// A headless Chromium that records everything that must not happen: errors, requests to another origin, violations of the
// policy of the page.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];

/** Longest wait for a condition, in milliseconds. */
const SOON = 60000;

async function start(world) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "console-"));
  const options = { executablePath: process.env.TRIBUTARY_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, viewport: null };
  const first = await chromium.launchPersistentContext(folder, options);
  return new Browser(world, folder, first);
}

class Browser {
  constructor(world, folder, first) {
    Object.assign(this, { world, folder, first, faults: [], expected: [] });
  }

  /** Opens a fresh page with the colours of a scheme, as a new visitor has it. */
  async open(link, { scheme = "dark", width = 1360, height = 850 } = {}) {
    const page = await this.first.newPage();
    page.setDefaultTimeout(SOON);
    page.setDefaultNavigationTimeout(SOON);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await this.watch(page);
    if (link !== null) await page.goto(`${this.world.url}/console/${link}`);
    return page;
  }

  async watch(page) {
    const add = (kind, text) => this.faults.push(`${kind}: ${text}`);
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) add(`console ${message.type()}`, `${message.text()} ${message.location().url}`);
    });
    page.on("pageerror", (error) => add("exception", error.stack));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${this.world.url}/`) && !request.url().startsWith("data:")) add("request to another origin", request.url());
    });
    await page.exposeFunction("reportViolation", (text) => add("violation of the policy", text));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI}`));
    });
  }

  /** Allows faults with this text from here on, for a part that causes them. */
  expect(text) {
    this.expected.push(text);
  }

  unexpected() {
    return this.faults.filter((fault) => !this.expected.some((text) => fault.includes(text)));
  }

  assertQuiet() {
    const found = this.unexpected();
    if (found.length > 0) throw new Error(`the browser reported:\n${found.join("\n")}`);
  }

  async close() {
    await this.first.close();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Waits until the view of a page shows a text. */
async function shows(page, text) {
  await page.locator("#main").getByText(text).first().waitFor();
}

/** Waits until a condition holds in the page. */
async function until(page, what, condition, argument) {
  await page.waitForFunction(condition, argument, { polling: 50 }).catch((error) => {
    throw new Error(`${what} did not happen: ${error.message}`);
  });
}

function assert(condition, message) {
  if (!condition) throw new Error(message);
}

module.exports = { start, shows, until, assert, SOON };
