// A list of any length: only the rows in sight are in the page, and they are requested in blocks. A change of the data asks
// again for the blocks in sight and keeps position and focus. Arrow keys move through the rows.

import { h, patch } from "./dom.js";
import { count } from "./format.js";
import { headClass } from "./parts.js";

const BLOCK = 100;
// Rows outside of the visible part, for smooth scrolling.
const MARGIN = 8;
// Browsers bound the height of a page; what is beyond is reached by a narrower search.
const MOST_ROWS = 500000;
/** Number of matches up to which a list can be sorted: it is then requested as a whole. */
export const SORTED = 1000;

/** Describes a grid. `options`: label, columns `{name, class, width, sort, of}`, page(offset, limit, signal), id, version, href(row), sort, onSort, empty, status(text). */
export function grid(options) {
  return h("div", { class: "grid", key: `grid ${options.label}`, widget: (node) => new Grid(node), options });
}

class Grid {
  constructor(node) {
    this.node = node;
    this.blocks = new Map();
    this.total = null;
    this.active = 0;
    this.stop = new AbortController();
    this.draw = this.draw.bind(this);
    this.resized = new ResizeObserver(() => this.later());
  }
  end() {
    this.stop.abort();
    this.resized.disconnect();
  }
  update({ options }) {
    const before = this.options;
    this.options = options;
    if (!before || before.id !== options.id) this.restart();
    else if (before.version !== options.version) this.renew();
    this.draw();
  }
  restart() {
    this.stop.abort();
    this.stop = new AbortController();
    this.stale = new Map([...this.blocks].slice(0, 4));
    this.blocks = new Map();
    this.active = 0;
    this.failed = null;
    if (this.scroller) this.scroller.scrollTop = 0;
    this.load(0);
  }
  // Rows stay until newer ones arrive.
  renew() {
    const wanted = new Set(this.inSight());
    for (const number of this.blocks.keys()) if (!wanted.has(number)) this.blocks.delete(number);
    for (const number of wanted) this.load(number, true);
  }
  get sorted() {
    return Boolean(this.options.sort) && this.total !== null && this.total <= SORTED;
  }
  async load(number, again = false) {
    const old = this.blocks.get(number);
    if (old?.pending && again) old.again = true;
    if (old && (old.pending || !again)) return;
    const block = { rows: old?.rows ?? this.stale?.get(number)?.rows ?? null, pending: true };
    this.blocks.set(number, block);
    const { signal } = this.stop;
    const { options } = this;
    try {
      const size = options.sort ? SORTED : BLOCK;
      const page = await options.page(number * BLOCK, number === 0 ? size : BLOCK, signal);
      if (signal.aborted) return;
      this.accept(number, page);
      if (block.again) this.load(number, true);
    } catch (error) {
      if (signal.aborted) return;
      this.failed = error;
      block.pending = false;
      options.status?.(error.message, error);
    }
    this.later();
  }
  accept(number, page) {
    const { sort, columns } = this.options;
    this.total = page.total;
    this.failed = null;
    let { items } = page;
    if (sort && page.total <= SORTED) items = sortRows(items, sort, columns);
    for (let at = 0; at === 0 || at < items.length; at += BLOCK) {
      this.blocks.set(number + at / BLOCK, { rows: items.slice(at, at + BLOCK), pending: false });
    }
    this.stale = null;
    this.active = Math.min(this.active, Math.max(0, this.total - 1));
    this.options.status?.(null, null, this.total);
  }
  row(index) {
    return this.blocks.get(Math.floor(index / BLOCK))?.rows?.[index % BLOCK] ?? null;
  }
  get length() {
    return Math.min(this.total ?? 0, MOST_ROWS);
  }
  range() {
    const high = this.rowHeight();
    const top = this.scroller?.scrollTop ?? 0;
    const first = Math.max(0, Math.floor(top / high) - MARGIN);
    const last = Math.min(this.length, Math.ceil((top + (this.scroller?.clientHeight ?? 400)) / high) + MARGIN);
    return [first, last];
  }
  // Blocks of the rows in sight, and that of the active row, which stays in the page.
  inSight() {
    const [first, last] = this.range();
    const out = [Math.floor(this.active / BLOCK)];
    for (let n = Math.floor(first / BLOCK); n <= Math.floor(Math.max(first, last - 1) / BLOCK); n++) out.push(n);
    return out;
  }
  rowHeight() {
    const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
    return Math.round(size * 2);
  }
  later() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      if (!this.stop.signal.aborted) this.draw();
    });
  }
  draw() {
    const { options, total } = this;
    const [first, last] = this.range();
    if (total !== null) for (const number of this.inSight()) this.load(number);
    const rows = [];
    const add = (index) => rows.push(this.describe(index));
    if (this.active < first && this.active < this.length) add(this.active);
    for (let index = first; index < last; index++) add(index);
    if (this.active >= last && this.active < this.length) add(this.active);
    const widths = options.columns.map((column) => column.width ?? "minmax(0, 1fr)").join(" ");
    patch(this.node, [
      h("div", { class: "table", role: "grid", "aria-label": options.label, "aria-rowcount": (total ?? 0) + 1, "aria-colcount": options.columns.length, "aria-busy": total === null },
        h("div", { role: "rowgroup", class: "head" }, h("div", { role: "row", "aria-rowindex": 1, class: "cells" }, options.columns.map((column) => this.header(column)))),
        h("div", { role: "rowgroup", class: "body", onscroll: () => this.later(), onkeydown: (event) => this.key(event), onfocusin: (event) => this.focused(event) },
          total === 0 ? h("div", { role: "row", "aria-rowindex": 2, class: "empty" }, h("span", { role: "gridcell" }, options.empty ?? "Nothing matches.")) : null,
          h("div", { class: "space", role: "presentation" }, rows))),
      this.length < (total ?? 0) ? h("p", { class: "muted" }, `The first ${count(MOST_ROWS)} are shown; search for the others.`) : null,
    ]);
    this.place(widths);
  }
  // The policy of the page forbids styles in attributes; positions are set as properties.
  place(widths) {
    const body = this.node.querySelector(".body");
    if (this.scroller !== body) {
      this.scroller = body;
      this.resized.observe(body);
    }
    const high = this.rowHeight();
    this.node.style.setProperty("--columns", widths);
    const space = body.querySelector(".space");
    space.style.blockSize = `${this.length * high}px`;
    for (const row of space.children) row.style.transform = `translateY(${(row.getAttribute("aria-rowindex") - 2) * high}px)`;
    if (this.wantsFocus) {
      const target = this.focusable(this.active);
      if (target) {
        target.focus({ preventScroll: true });
        this.wantsFocus = this.row(this.active) === null;
      }
    }
  }
  header(column) {
    const { sort, onSort } = this.options;
    if (!column.sort || !onSort) return h("div", { role: "columnheader", class: headClass(column) }, column.name);
    const [name, descends] = sort?.startsWith("-") ? [sort.slice(1), true] : [sort, false];
    const is = name === column.sort;
    const can = this.total === null || this.total <= SORTED;
    const next = !is ? column.sort : descends ? "" : `-${column.sort}`;
    const title = can ? `Sort by ${column.name.toLowerCase()}` : `Lists of up to ${count(SORTED)} rows can be sorted: search first`;
    return h("div", { role: "columnheader", class: headClass(column), "aria-sort": is && can ? (descends ? "descending" : "ascending") : "none" },
      h("button", { type: "button", class: "sort", disabled: !can, title, onclick: () => onSort(next) }, column.name, h("span", { "aria-hidden": "true" }, is && can ? (descends ? " ↓" : " ↑") : "")));
  }
  describe(index) {
    const row = this.row(index);
    const { columns, href } = this.options;
    const level = row ? this.options.level?.(row) : null;
    const props = { key: index, role: "row", class: `row cells ${level ?? ""}`, "aria-rowindex": index + 2 };
    if (row === null) return h("div", { ...props, tabindex: "-1" }, columns.map((column) => h("div", { role: "gridcell", class: column.class }, "…")));
    const tab = index === this.active ? "0" : "-1";
    return h("div", props, columns.map((column, i) => {
      const content = column.of(row);
      const target = i === 0 ? href?.(row) : null;
      const inner = i !== 0 ? content : target ? h("a", { href: target, tabindex: tab, class: "main" }, content) : h("span", { tabindex: tab, class: "main" }, content);
      return h("div", { role: i === 0 ? "rowheader" : "gridcell", class: column.class, title: typeof content === "string" ? content : undefined }, inner);
    }));
  }
  focusable(index) {
    const row = this.node.querySelector(`[aria-rowindex="${index + 2}"].row`);
    return row?.querySelector(".main") ?? row;
  }
  focused(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    const index = row.getAttribute("aria-rowindex") - 2;
    if (index !== this.active) {
      this.active = index;
      this.later();
    }
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.rowHeight()) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.move(Math.min(Math.max(0, this.active + step), Math.max(0, this.length - 1)));
  }
  move(index) {
    this.active = index;
    const high = this.rowHeight();
    const { scroller } = this;
    if (index * high < scroller.scrollTop) scroller.scrollTop = index * high;
    else if ((index + 1) * high > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (index + 1) * high - scroller.clientHeight;
    this.wantsFocus = true;
    this.draw();
  }
}

function sortRows(items, sort, columns) {
  const [name, sign] = sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1];
  const column = columns.find((column) => column.sort === name);
  if (!column) return items;
  const value = column.value;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true }));
  return [...items].sort((a, b) => sign * compare(value(a), value(b)));
}
