// Checks the console in a real Chromium: `node console_check.js PART`, where PART is a file of the folder `console` with a
// function `check(browser, world)`. The suite starts the server and describes it in CONSOLE_WORLD, as JSON.
"use strict";

const { start } = require("./console/browser.js");

const PARTS = ["views", "follow", "keys", "hostile", "many", "outage"];

async function main() {
  const part = process.argv[2];
  if (!PARTS.includes(part)) throw new Error(`part ${part} not found; use one of ${PARTS.join(", ")}`);
  const world = JSON.parse(process.env.CONSOLE_WORLD);
  const browser = await start(world);
  try {
    await require(`./console/${part}.js`).check(browser, world);
    browser.assertQuiet();
  } finally {
    await browser.close();
  }
  console.log(`${part}: ok`);
}

main().catch((error) => {
  console.error(error.stack ?? String(error));
  process.exitCode = 1;
});
