// Requests to the server that served the page. A token is kept for this tab only and is sent with every request.

const TOKEN = "tributary-token";
// The server answers a bounded number of requests at a time and refuses further ones with 503.
const BUSY = 4;

/** Error of a request, with the status and the code of the answer. */
export class RequestError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code ?? "";
  }
}

/** Returns the token of this tab. */
export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** Keeps a token for this tab; an empty one forgets it. */
export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

/** Sends a request and returns the answer; fails with a `RequestError` unless it is a success. */
export async function request(path, options = {}) {
  const headers = { Accept: options.accept ?? "application/json" };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  // With the page's policy for referrers, a change would have no origin, and the server would refuse it.
  const settings = { mode: "same-origin", credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "same-origin" };
  const answer = await fetch(path, { ...settings, method: options.method ?? "GET", headers, signal: options.signal });
  if (answer.ok) return answer;
  const error = await failure(answer);
  const tried = options.tried ?? 0;
  if (answer.status !== 503 || options.method === "POST" || options.accept || tried >= BUSY) throw error;
  await new Promise((done) => setTimeout(done, 100 * 2 ** tried));
  return request(path, { ...options, tried: tried + 1 });
}

async function failure(answer) {
  const text = await answer.text().catch(() => "");
  try {
    const problem = JSON.parse(text);
    return new RequestError(answer.status, problem.message ?? text, problem.code);
  } catch {
    return new RequestError(answer.status, text.trim() || `the server answered ${answer.status}`);
  }
}

/** Requests a document. `loaded` in the result is the time at which it arrived, from which ages count. */
export async function get(path, signal) {
  const answer = await request(path, { signal });
  const value = await answer.json();
  value.loaded = performance.now();
  return value;
}

/** Sends a change. */
export async function post(path) {
  return (await request(path, { method: "POST" })).json();
}
