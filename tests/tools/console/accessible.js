// axe-core in a world of its own beside the page, so that the policy of the page stays in force.
"use strict";

const fs = require("node:fs");

const source = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Fails if axe-core finds a violation in the page. */
async function assertAccessible(page, name) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const world = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  const run = (expression, more) => session.send("Runtime.evaluate", { expression, contextId: world.executionContextId, ...more });
  await run(source);
  const { result, exceptionDetails } = await run("axe.run().then((found) => JSON.stringify(found.violations))", { awaitPromise: true, returnByValue: true });
  await session.detach();
  if (exceptionDetails) throw new Error(`${name}: axe-core did not run: ${JSON.stringify(exceptionDetails)}`);
  const violations = JSON.parse(result.value);
  if (violations.length === 0) return;
  const nodes = (one) => one.nodes.slice(0, 3).map((node) => `    ${node.html}\n    ${node.failureSummary.replaceAll("\n", "\n    ")}`);
  throw new Error(violations.map((one) => `${name}: ${one.id}: ${one.help}\n${nodes(one).join("\n")}`).join("\n"));
}

module.exports = { assertAccessible };
