// Questions to this server and to no other.
import { ApiError, isAborted } from "./errors.js";

const KEY = "beforehand.token";
const TRIES = 8; // Of a service that is busy, or that reads a large store for the first time.

export class Api {
  // `ask` gets why a token is needed, and gives one or null.
  constructor(ask) {
    this.ask = ask;
    this.asking = null;
    this.token = sessionStorage.getItem(KEY);
  }

  async get(path, parameters = {}, { signal } = {}) {
    return (await this.fetch(path, parameters, { signal })).json();
  }

  // A body of bytes; the answer as a document.
  async post(path, body, { parameters = {}, type = "application/octet-stream", signal } = {}) {
    const headers = { "Content-Type": type };
    return (await this.fetch(path, parameters, { method: "POST", body, headers, signal })).json();
  }

  async fetch(path, parameters = {}, options = {}) {
    for (let tries = 1; ; tries += 1) {
      const used = this.token;
      try {
        return await this.once(path, parameters, options);
      } catch (error) {
        if (error.status === 401 && (await this.renew(used, error.message))) continue;
        if (error.status === 503 && tries < TRIES && error.retryAfter <= 5) {
          await pause(Math.max(0.2, error.retryAfter) * 1000, options.signal);
          continue;
        }
        throw error;
      }
    }
  }

  async once(path, parameters, options) {
    const headers = new Headers(options.headers);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    let answer;
    try {
      answer = await fetch(address(path, parameters), { ...options, headers, credentials: "omit", cache: "no-store" });
    } catch (error) {
      if (isAborted(error)) throw error;
      throw new ApiError(0, "the service does not answer: is it still running?");
    }
    if (answer.ok) return answer;
    let text = `the service answered ${answer.status}`;
    try {
      const said = (await answer.json()).error;
      if (typeof said === "string" && said) text = said;
    } catch {
      // No JSON: the status must do.
    }
    throw new ApiError(answer.status, text, Number(answer.headers.get("Retry-After")) || 0);
  }

  // Many requests may be refused at once: one question is enough. Kept for this tab only.
  async renew(used, why) {
    if (this.token !== used) return this.token !== null;
    this.asking ??= this.ask(used ? why : "").finally(() => (this.asking = null));
    const token = await this.asking;
    if (this.token === used) {
      this.token = token;
      if (token) sessionStorage.setItem(KEY, token);
      else sessionStorage.removeItem(KEY);
    }
    return token !== null;
  }
}

const address = (path, parameters) => {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value === null || value === undefined) continue; // The empty text is the name of an execution.
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
};

const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    });
  });
