// The second gRPC implementation, controlled by the same lines of JSON as grpc_client.py: call, start, report, stop.
// It finds its packages through NODE_PATH, because they are in the private cache and not in the clone.
"use strict";

const readline = require("node:readline");
const grpc = require("@grpc/grpc-js");
require("@grpc/grpc-js-xds").register();

const METHOD = "/tributary.test.Echo/Call";
const KEPT_FAILURES = 20;
const same = (bytes) => bytes;
const clients = new Map();

function client(target, retries) {
  const key = retries + target;
  if (!clients.has(key)) {
    const options = { "grpc.enable_retries": retries ? 1 : 0 };
    clients.set(key, new grpc.Client("xds:///" + target, grpc.credentials.createInsecure(), options));
  }
  return clients.get(key);
}

// Never rejects: the outcome has the failure of a call.
function call({ target, timeout, wait, path = METHOD, headers = [], retries = false }) {
  return new Promise((done) => {
    const options = { deadline: Date.now() + timeout * 1000 };
    const metadata = new grpc.Metadata({ waitForReady: wait });
    for (const [name, value] of headers) metadata.add(name, value);
    client(target, retries).makeUnaryRequest(path, same, same, Buffer.alloc(0), metadata, options, (error, answer) => {
      if (error) done({ ok: false, code: grpc.status[error.code], details: error.details || "" });
      else done({ ok: true, backend: answer.toString() });
    });
  });
}

class Load {
  constructor(target, rate) {
    this.tally = { answers: {}, failed: 0, failures: [] };
    this.flying = new Set();
    this.timer = setInterval(() => this.once(target), 1000 / rate);
  }

  once(target) {
    const flight = call({ target, timeout: 10, wait: false }).then((outcome) => {
      this.flying.delete(flight);
      this.count(outcome);
    });
    this.flying.add(flight);
  }

  count(outcome) {
    if (outcome.ok) {
      this.tally.answers[outcome.backend] = (this.tally.answers[outcome.backend] || 0) + 1;
      return;
    }
    this.tally.failed += 1;
    if (this.tally.failures.length < KEPT_FAILURES) this.tally.failures.push(outcome.code + ": " + outcome.details);
  }

  async stop() {
    clearInterval(this.timer);
    await Promise.all(this.flying);
    return this.tally;
  }
}

function send(answer) {
  process.stdout.write(JSON.stringify(answer) + "\n");
}

let load = null;

async function execute(command) {
  if (command.do === "call") return call(command);
  if (command.do === "start") {
    load = new Load(command.target, command.rate);
    return { started: true };
  }
  if (command.do === "report" && load) return load.tally;
  if (command.do === "stop" && load) return load.stop();
  return { error: "command " + command.do + " is not possible now" };
}

async function main() {
  send({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    send(await execute(JSON.parse(line)));
  }
  process.exit(0);
}

main();
