// Steps of an explanation: the path from the source to the client, each step with its verdict, object, code and time.

import { h } from "./dom.js";
import { clock, since } from "./format.js";
import { code, levelOf, object, state } from "./parts.js";

export const STAGES = ["source", "merge", "visibility", "network", "health", "weight", "deliver"];

const NAMES = { deliver: "delivered" };
const WORST = { drop: 2, warn: 1, pass: 0 };

/** Path of one candidate: a line of stages with the worst verdict of each, then every step. */
export function path(item) {
  return h("article", { class: "story", key: `${item.service} ${item.endpoint}` },
    h("h2", {}, item.service ?? item.endpoint, " ", state(item.verdict)),
    h("ol", { class: "stages", "aria-label": "Stages" }, STAGES.map((stage) => pill(stage, item.steps))),
    steps(item.steps));
}

function pill(stage, steps) {
  const of = steps.filter((step) => step.stage === stage);
  const worst = of.reduce((most, step) => (WORST[step.verdict] > WORST[most] ? step.verdict : most), of.length > 0 ? "pass" : "none");
  const level = worst === "none" ? "off" : levelOf(worst);
  return h("li", { key: stage, class: `stage ${level}` }, state(NAMES[stage] ?? stage, level), h("span", { class: "verdict" }, worst === "none" ? "not reached" : worst.toUpperCase()));
}

/** Steps, in the order of the pipeline. */
export function steps(list) {
  return h("ol", { class: "steps" }, list.map((step, i) => h("li", { key: i, class: `step ${levelOf(step.verdict)}` },
    h("div", { class: "mark" }, state(step.verdict.toUpperCase(), levelOf(step.verdict))),
    h("div", {},
      h("div", { class: "what" }, h("strong", {}, NAMES[step.stage] ?? step.stage), " ", code(step.code), " ", step.detail),
      step.object ? h("div", { class: "muted" }, object(step.object)) : null),
    h("div", { class: "muted when" }, when(step)))));
}

function when(step) {
  if (step.since) return h("time", { datetime: step.since }, `waits since ${clock(step.since)}`);
  if (step.confirmedAt) return h("time", { datetime: step.confirmedAt, title: step.confirmedAt }, `confirmed ${since(step.confirmedAt)}`);
  return "";
}
