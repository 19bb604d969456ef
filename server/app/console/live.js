// The stream of changes: server-sent events, read through fetch so that a token can be sent. It reconnects by itself, after a
// wait that doubles up to a limit and varies, and reports its state.

import { request } from "./api.js";

const SHORTEST = 500;
const LONGEST = 15000;
// The server sends a comment every 15 s; a stream that is silent for longer is dead.
const SILENCE = 40000;

/** Follows the changes. `onChange` takes each event, `onState` takes `{connected, since, retryAt, error}`. */
export function follow(onChange, onState) {
  let wait = SHORTEST;
  let since = null;
  let wake = () => {};

  async function run() {
    for (;;) {
      let error = null;
      try {
        await read((event) => {
          wait = SHORTEST;
          since = null;
          onState({ connected: true });
          onChange(event);
        });
      } catch (failed) {
        error = failed;
      }
      since ??= Date.now();
      const pause = error?.status === 401 ? LONGEST : wait * (0.75 + Math.random() / 2);
      onState({ connected: false, since, retryAt: Date.now() + pause, error });
      await new Promise((done) => {
        const timer = setTimeout(done, pause);
        wake = () => {
          clearTimeout(timer);
          done();
        };
      });
      wait = Math.min(LONGEST, wait * 2);
    }
  }
  run();
  return { retry: () => wake() };
}

async function read(onEvent) {
  const stop = new AbortController();
  const answer = await request("/debug/events", { accept: "text/event-stream", signal: stop.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new Parser(onEvent);
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), SILENCE);
  };
  try {
    alive();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      parser.take(value);
    }
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

// Splits the stream into events: fields by line, an empty line ends an event, a colon begins a comment.
class Parser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.data = [];
    this.kind = "message";
  }
  take(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }
  line(line) {
    if (line === "") this.finish();
    else if (line.startsWith("data:")) this.data.push(line.slice(5).trimStart());
    else if (line.startsWith("event:")) this.kind = line.slice(6).trim();
  }
  finish() {
    if (this.kind === "change" && this.data.length > 0) {
      const event = parse(this.data.join("\n"));
      if (event) this.onEvent(event);
    }
    this.data = [];
    this.kind = "message";
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
