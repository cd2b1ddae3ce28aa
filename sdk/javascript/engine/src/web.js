// The second part of the module "duebox", in the same scope: what programs know from browsers, and the globals.

// --- HTTP ---

class Headers {
  #values = new Map();
  /** The values of set-cookie, which cannot be told apart once they are joined. */
  #cookies = [];
  constructor(from = {}) {
    if (typeof from !== "object" || from === null) throw new TypeError(`headers are an object or pairs, not ${inspect(from)}`);
    for (const pair of Symbol.iterator in from ? from : Object.entries(from)) {
      const parts = [...pair];
      if (parts.length !== 2) throw new TypeError(`a header is a name and a value, not ${inspect(pair)}`);
      this.append(...parts);
    }
  }
  append(name, value) {
    const before = this.get(name);
    const cookies = this.#cookies;
    this.set(name, before === null ? value : `${before}, ${text(value)}`);
    if (text(name).toLowerCase() === "set-cookie") this.#cookies = [...cookies, text(value)];
  }
  getSetCookie() { return [...this.#cookies]; }
  set(name, value) {
    const [key, of] = [text(name).toLowerCase(), text(value).trim()];
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(key)) throw new TypeError(`invalid header name ${JSON.stringify(key)}`);
    if (/[\0\r\n]/.test(of)) throw new TypeError(`the header ${key} has a line break`);
    this.#values.set(key, of);
    if (key === "set-cookie") this.#cookies = [of];
  }
  get(name) { return this.#values.get(text(name).toLowerCase()) ?? null; }
  has(name) { return this.#values.has(text(name).toLowerCase()); }
  delete(name) {
    this.#values.delete(text(name).toLowerCase());
    if (text(name).toLowerCase() === "set-cookie") this.#cookies = [];
  }
  forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }
  entries() { return this.#values.entries(); }
  keys() { return this.#values.keys(); }
  values() { return this.#values.values(); }
  [Symbol.iterator]() { return this.entries(); }
}

class Response {
  #body;
  constructor(content, { status = 200, statusText = "", headers = {}, url = "" } = {}) {
    const sent = content ?? "";
    this.#body = typeof sent === "string" ? host.encode(text(sent)) : bytesOf(sent);
    this.status = status;
    /** Empty in a response of a server, as with HTTP/2. */
    this.statusText = text(statusText);
    this.url = url;
    this.headers = new Headers(headers);
    this.bodyUsed = false;
  }
  static json(value, options = {}) {
    const content = JSON.stringify(value);
    if (content === undefined) throw new TypeError(`Response.json cannot write ${inspect(value)} as JSON`);
    const headers = new Headers(options.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(content, { ...options, headers });
  }
  clone() {
    if (this.bodyUsed) throw new TypeError("a response is cloned before its body is read");
    const { status, statusText, headers, url } = this;
    return new Response(this.#body.slice(), { status, statusText, headers, url });
  }
  get ok() { return this.status >= 200 && this.status < 300; }
  /** The milliseconds that the server asks to wait, if it does. */
  get retryAfter() {
    const value = this.headers.get("retry-after");
    if (value === null) return undefined;
    const wait = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
    return Number.isNaN(wait) ? undefined : Math.max(0, wait);
  }
  /**
   * The verdict that webhooks derive from a response: 2xx is an ack; 408, 429 and 5xx are a nack with the wait that
   * the server asks for; another 4xx is a drop, because a repeat would get the same response; the rest is a nack.
   */
  verdict() {
    const reason = `the server answered ${this.status}`;
    if (this.ok) return ack();
    if ([408, 429].includes(this.status) || this.status >= 500) return nack(reason, { retryAfter: this.retryAfter });
    return this.status >= 400 ? drop(reason) : nack(reason);
  }
  async bytes() { this.bodyUsed = true; return this.#body; }
  async arrayBuffer() { this.bodyUsed = true; return this.#body.slice().buffer; }
  async text() { this.bodyUsed = true; return host.decode(this.#body, false); }
  async json() { return JSON.parse(await this.text()); }
}

const REDIRECTS_MAX = 5;
const REDIRECTS = [301, 302, 303, 307, 308];

/** Sends one request, without following a redirect. */
function send(method, url, headers, content, timeout) {
  const lines = [`${method} ${url}\n`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}\n`);
  const status = host.send(lines.join(""), content, timeout);
  if (status < 0) refuse(status, { [status]: `${method} ${url}: ${host.response(2)}` });
  return new Response(host.response(1), { status, headers: pairs(host.response(0)), url });
}

/** The URL of a redirect; undefined if it is none that is followed. */
function redirectOf(response, url) {
  const location = response.headers.get("location");
  if (!REDIRECTS.includes(response.status) || location === null) return undefined;
  const next = URL.parse(location, url);
  return next !== null && ["http:", "https:"].includes(next.protocol) ? next : undefined;
}

function request(method, target, options = {}) {
  const { signal, timeout } = options;
  const left = [milliseconds("timeout", timeout), timeLeftOf(signal)].filter((wait) => wait !== undefined);
  try {
    return exchange(method, target, { ...options, timeout: left.length === 0 ? undefined : Math.min(...left) });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

function exchange(method, target, { headers = {}, body: content, json, timeout, redirect = "follow", follow }) {
  if (!/^[A-Z0-9!#$%&'*+.^_`|~-]+$/.test(method)) throw new TypeError(`invalid method ${JSON.stringify(method)}`);
  const ends = timeout === undefined ? undefined : Date.now() + timeout;
  let url = new URL(target);
  const sent = new Headers(headers);
  if (json !== undefined) content = JSON.stringify(json);
  if (json !== undefined && !sent.has("content-type")) sent.set("content-type", "application/json");
  if (content instanceof URLSearchParams) {
    if (!sent.has("content-type")) sent.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
    content = String(content);
  }
  for (let hop = 0; ; hop++) {
    url.hash = "";
    const left = ends === undefined ? 0 : Math.max(1, ends - Date.now());
    const response = send(method, url.href, sent, body(content), left);
    const next = redirectOf(response, url);
    if (next === undefined || redirect === "manual" || hop === follow) return response;
    if (redirect === "error") throw new TypeError(`${method} ${url.href}: redirected to ${next.href}`);
    if (hop === REDIRECTS_MAX) throw new TypeError(`${method} ${url.href}: more than ${REDIRECTS_MAX} redirects`);
    if (next.origin !== url.origin) for (const name of ["authorization", "cookie"]) sent.delete(name);
    if (response.status === 303 ? method !== "HEAD" : response.status < 303 && method === "POST") {
      [method, content] = ["GET", undefined];
      sent.delete("content-type");
    }
    url = next;
  }
}

/** Requests wait for their response one after the other: a handler that awaits several gets them in order. */
async function fetch(target, options = {}) {
  return request(text(options.method ?? "GET").toUpperCase(), target, options);
}

const sender = (method) => async (url, options) => request(method, url, options);
const senderWithBody = (method) => async (url, content, options = {}) => {
  const isPlain = content === undefined || typeof content === "string" || isBytes(content) || content instanceof URLSearchParams;
  return request(method, url, { ...options, ...(isPlain ? { body: content } : { json: content }) });
};

export const http = Object.freeze({
  get: sender("GET"), head: sender("HEAD"), delete: sender("DELETE"),
  post: senderWithBody("POST"), put: senderWithBody("PUT"), patch: senderWithBody("PATCH"),
  fetch,
});

// --- URL ---

const URL_PARTS = [
  "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash",
];

class URL {
  #parts;
  #params;
  constructor(href, base) {
    const parts = host.url(text(href), base === undefined ? undefined : text(base));
    if (parts === undefined) throw new TypeError(`Invalid URL: ${text(href)}`);
    this.#parts = parts;
  }
  static canParse(href, base) { return URL.parse(href, base) !== null; }
  static parse(href, base) {
    try {
      return new URL(href, base);
    } catch {
      return null;
    }
  }
  static of(url, index) { return url.#parts[index]; }
  static change(url, part, value) {
    const href = part === "href" ? text(value) : url.href;
    const parts = part === "href" ? host.url(href, undefined) : host.setUrl(href, part, text(value));
    if (parts === undefined) throw new TypeError(`Invalid URL: ${href}`);
    url.#parts = parts;
    if (part !== "search") return;
    url.#params?.reset(url.search);
  }
  get searchParams() {
    this.#params ??= URLSearchParams.of(this);
    return this.#params;
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
}

const { of: partOf, change: changePart } = URL;
delete URL.of;
delete URL.change;
for (const [index, name] of URL_PARTS.entries()) {
  Object.defineProperty(URL.prototype, name, {
    get() { return partOf(this, index); },
    set: name === "origin" ? undefined : function (value) { changePart(this, name, value); },
    enumerable: true,
    configurable: true,
  });
}

const unescapeForm = (part) => {
  const plain = part.replaceAll("+", " ");
  const bytes = [];
  for (let at = 0; at < plain.length; at++) {
    const hex = plain[at] === "%" ? plain.slice(at + 1, at + 3) : "";
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes.push(parseInt(hex, 16));
      at += 2;
    } else {
      const character = String.fromCodePoint(plain.codePointAt(at));
      at += character.length - 1;
      bytes.push(...host.encode(character.toWellFormed()));
    }
  }
  return host.decode(Uint8Array.from(bytes), false);
};
const escapeForm = (part) =>
  encodeURIComponent(text(part)).replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`).replaceAll("%20", "+");

class URLSearchParams {
  #list = [];
  #url;
  constructor(from = "") {
    if (typeof from === "string") this.reset(from);
    else for (const [name, value] of Symbol.iterator in from ? from : Object.entries(from)) this.#list.push([text(name), text(value)]);
  }
  static of(url) {
    const params = new URLSearchParams(url.search);
    params.#url = url;
    return params;
  }
  reset(search) {
    const parts = search.replace(/^\?/, "").split("&").filter((part) => part !== "");
    this.#list = parts.map((part) => {
      const at = part.indexOf("=");
      return [at < 0 ? part : part.slice(0, at), at < 0 ? "" : part.slice(at + 1)].map(unescapeForm);
    });
  }
  #changed() {
    if (this.#url === undefined) return;
    const list = this.#list;
    this.#url.search = String(this);
    this.#list = list;
  }
  append(name, value) { this.#list.push([text(name), text(value)]); this.#changed(); }
  delete(name) { this.#list = this.#list.filter(([key]) => key !== text(name)); this.#changed(); }
  get(name) { return this.#list.find(([key]) => key === text(name))?.[1] ?? null; }
  getAll(name) { return this.#list.filter(([key]) => key === text(name)).map(([, value]) => value); }
  has(name) { return this.#list.some(([key]) => key === text(name)); }
  set(name, value) {
    const at = this.#list.findIndex(([key]) => key === text(name));
    if (at < 0) return this.append(name, value);
    this.#list = this.#list.filter(([key], index) => key !== text(name) || index === at);
    this.#list[at] = [text(name), text(value)];
    this.#changed();
  }
  sort() { this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(); }
  get size() { return this.#list.length; }
  forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }
  entries() { return this.#list.map((pair) => [...pair])[Symbol.iterator](); }
  keys() { return this.#list.map(([name]) => name)[Symbol.iterator](); }
  values() { return this.#list.map(([, value]) => value)[Symbol.iterator](); }
  [Symbol.iterator]() { return this.entries(); }
  toString() { return this.#list.map((pair) => pair.map(escapeForm).join("=")).join("&"); }
}

// --- text, clones, random numbers ---

class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(string = "") { return host.encode(text(string)); }
}

class TextDecoder {
  #fatal;
  #keepsMark;
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!["utf-8", "utf8"].includes(text(label).toLowerCase())) {
      throw new RangeError(`TextDecoder knows utf-8 only, not ${text(label)}`);
    }
    this.#fatal = fatal;
    this.#keepsMark = ignoreBOM;
  }
  get encoding() { return "utf-8"; }
  decode(bytes = new Uint8Array()) {
    const string = host.decode(bytesOf(bytes), this.#fatal);
    if (string === undefined) throw new TypeError("the bytes are not UTF-8");
    return !this.#keepsMark && string.charCodeAt(0) === 0xfeff ? string.slice(1) : string;
  }
}

/** Also `__proto__` becomes a property of the object itself. */
const setOwn = (object, key, value) =>
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });

function structuredClone(value) {
  const seen = new Map();
  const copy = (from) => {
    if (typeof from === "function" || typeof from === "symbol") {
      throw new TypeError(`structuredClone cannot clone ${inspect(from)}`);
    }
    if (typeof from !== "object" || from === null) return from;
    if (seen.has(from)) return seen.get(from);
    const keep = (to) => { seen.set(from, to); return to; };
    if (from instanceof Date) return keep(new Date(from));
    if (from instanceof RegExp) return keep(new RegExp(from.source, from.flags));
    if (from instanceof ArrayBuffer) return keep(from.slice(0));
    if (ArrayBuffer.isView(from)) {
      if (from instanceof DataView) return keep(new DataView(copy(from.buffer), from.byteOffset, from.byteLength));
      return keep(new from.constructor(from));
    }
    if (from instanceof Map) {
      const to = keep(new Map());
      for (const [key, of] of from) to.set(copy(key), copy(of));
      return to;
    }
    if (from instanceof Set) {
      const to = keep(new Set());
      for (const of of from) to.add(copy(of));
      return to;
    }
    if (from instanceof Error) {
      const to = keep(new Error(from.message));
      to.name = from.name;
      to.stack = from.stack;
      return to;
    }
    const to = keep(Array.isArray(from) ? new Array(from.length) : {});
    for (const key of Object.keys(from)) setOwn(to, key, copy(from[key]));
    return to;
  };
  return copy(value);
}

// --- globals ---

const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });

for (const [name, value] of Object.entries({
  console: Object.freeze({
    log: log.info, info: log.info, warn: log.warn, error: log.error, debug: log.debug, trace: log.trace,
  }),
  fetch, Headers, Response, URL, URLSearchParams, TextEncoder, TextDecoder, structuredClone, crypto, CryptoKey,
  AbortController, AbortSignal,
  performance: Object.freeze({ now: () => Date.now(), timeOrigin: 0 }),
  setTimeout: (callback, wait, ...values) => startTimer(callback, wait, values, false),
  setInterval: (callback, wait, ...values) => startTimer(callback, wait, values, true),
  clearTimeout: stopTimer,
  clearInterval: stopTimer,
})) define(name, value);

Math.random = host.draw;
Object.assign(host, { begin, run, poll });
