// The server goes away and returns, and one asks for a token: the page says so and continues. The part stands in front of the
// server as a proxy that it can stop.
"use strict";

const http = require("node:http");
const { assert, shows, until } = require("./browser.js");

const TOKEN = "a-token-of-the-test";

// Passes requests on; without the token, documents are refused as the remote listener would.
function proxy(world, needsToken) {
  const target = new URL(world.url);
  const sockets = new Set();
  const seen = [];
  const server = http.createServer((request, answer) => {
    const isData = request.url.startsWith("/debug");
    if (isData) seen.push(request.headers.authorization ?? "");
    if (needsToken && isData && request.headers.authorization !== `Bearer ${TOKEN}`) {
      answer.writeHead(401, { "content-type": "text/plain" });
      return answer.end("a token is required\n");
    }
    const { authorization, ...headers } = request.headers;
    const options = { host: target.hostname, port: target.port, path: request.url, method: request.method, headers: { ...headers, host: target.host } };
    const onward = http.request(options, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      from.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  const listen = (port) => new Promise((done) => server.listen(port, "127.0.0.1", () => done(server.address().port)));
  const stop = () => new Promise((done) => {
    server.close(done);
    for (const socket of sockets) socket.destroy();
  });
  return { listen, stop, seen };
}

async function check(browser, world) {
  browser.expect("net::ERR_");
  browser.expect("the server responded with a status of 401");
  await returns(browser, world);
  await token(browser, world);
}

async function through(browser, world, port, link) {
  const before = world.url;
  browser.world.url = `http://127.0.0.1:${port}`;
  const page = await browser.open(link);
  return [page, () => { browser.world.url = before; }];
}

async function returns(browser, world) {
  const front = proxy(world, false);
  const port = await front.listen(0);
  const [page, restore] = await through(browser, world, port, "#/services");
  await shows(page, "pay.shop.example");
  await until(page, "the stream", () => document.getElementById("live").textContent === "Live");
  await front.stop();
  await page.getByText(/Disconnected since \d\d:\d\d:\d\d/).waitFor();
  await shows(page, "pay.shop.example");
  await front.listen(port);
  await page.getByRole("button", { name: "Try now" }).click({ timeout: 2000 }).catch(() => {});
  await until(page, "the end of the banner", () => document.getElementById("banner").hidden);
  await page.close();
  await front.stop();
  restore();
}

async function token(browser, world) {
  const front = proxy(world, true);
  const port = await front.listen(0);
  const [page, restore] = await through(browser, world, port, "#/services?search=pay.shop");
  const field = page.getByRole("textbox", { name: "Token" });
  await field.waitFor();
  await field.fill(TOKEN);
  await page.keyboard.press("Enter");
  await shows(page, "pay.shop.example");
  const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, location.href].join(" "));
  assert(!kept.includes(TOKEN), "the token is kept beyond the tab");
  await until(page, "the stream with the token", () => document.getElementById("live").textContent === "Live");
  await page.getByRole("link", { name: "JSON" }).click();
  await page.getByRole("dialog", { name: "ServiceList" }).waitFor();
  assert(front.seen.some((header) => header === `Bearer ${TOKEN}`), "the token was not sent");
  await page.close();
  await front.stop();
  restore();
}

module.exports = { check };
