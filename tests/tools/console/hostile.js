// Names and texts of others that are markup: they are shown as text and do nothing.
"use strict";

const { assert, shows } = require("./browser.js");

async function check(browser, world) {
  const seen = [
    ["#/clients", world.hostile.client], ["#/clients", world.hostile.nack],
    [`#/clients/${encodeURIComponent(world.hostile.client)}`, world.hostile.nack],
    ["#/registries/files", world.hostile.host], ["#/overview", world.hostile.host],
    [`#/services?search=${encodeURIComponent(world.hostile.host)}`, "No service matches."],
    [`#/endpoints/${encodeURIComponent("<img src=x onerror=window.hacked=1>:80")}`, "<img src=x onerror"],
    ["#/%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E", "names no view"],
  ];
  browser.expect("the server responded with a status of 4");
  for (const [link, text] of seen) {
    const page = await browser.open(link);
    await shows(page, text);
    const found = await page.evaluate(() => ({ hacked: window.hacked, made: document.querySelectorAll("main img, main script, main iframe, main object").length }));
    assert(found.hacked === undefined && found.made === 0, `${link} made elements of text`);
    await page.close();
  }
}

module.exports = { check };
