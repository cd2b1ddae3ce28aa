/** The globals of a handler besides those of ECMAScript 2023. Leave "DOM" out of `lib`: handlers have no browser. */

/** An object, or pairs: an array, a `Map`, other `Headers`. */
type HeadersLike = Record<string, string> | Iterable<readonly [string, string]>;

interface RequestOptions {
  method?: string;
  headers?: HeadersLike;
  body?: string | ArrayBuffer | ArrayBufferView | URLSearchParams;
  /** A value to send as JSON. */
  json?: unknown;
  /** Milliseconds, for all redirects together; by default what is left of the attempt. */
  timeout?: number;
  redirect?: "follow" | "manual" | "error";
  /** Refuses a request after it was aborted; `AbortSignal.timeout` also limits the request. */
  signal?: AbortSignal;
  /** How many redirects are followed; the response after them is returned as it is. By default more than 5 are an error. */
  follow?: number;
}

declare function fetch(url: string | URL, options?: RequestOptions): Promise<Response>;

declare class Headers {
  constructor(from?: HeadersLike);
  append(name: string, value: string): void;
  set(name: string, value: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  delete(name: string): void;
  getSetCookie(): string[];
  forEach(callback: (value: string, name: string, headers: Headers) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

interface ResponseOptions {
  status?: number;
  statusText?: string;
  headers?: HeadersLike;
  url?: string;
}

declare class Response {
  constructor(body?: string | ArrayBuffer | ArrayBufferView | null, options?: ResponseOptions);
  /** A response whose body is a value as JSON. */
  static json(value: unknown, options?: ResponseOptions): Response;
  readonly status: number;
  /** Empty in the response of a server, as with HTTP/2. */
  readonly statusText: string;
  readonly ok: boolean;
  readonly url: string;
  readonly headers: Headers;
  readonly bodyUsed: boolean;
  /** The milliseconds that the server asks to wait, if it does. */
  readonly retryAfter: number | undefined;
  /** A copy whose body can be read, too. Throws if the body has been read. */
  clone(): Response;
  /** 2xx is an ack; 408, 429 and 5xx a nack with `retryAfter`; another 4xx a drop; the rest a nack. */
  verdict(): import("duebox").NamedVerdict;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}

declare class URLSearchParams {
  constructor(from?: string | Record<string, string> | Iterable<[string, string]>);
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: "utf-8" | "utf8", options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: "utf-8";
  decode(bytes?: ArrayBuffer | ArrayBufferView): string;
}

declare const console: Readonly<Record<"log" | "info" | "warn" | "error" | "debug" | "trace", (...values: unknown[]) => void>>;
declare const crypto: {
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
  getRandomValues<Values extends ArrayBufferView>(values: Values): Values;
  /** Digests, and signatures with HMAC. */
  readonly subtle: {
    digest(algorithm: DigestName | { name: DigestName }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer>;
    importKey(
      format: "raw", key: ArrayBuffer | ArrayBufferView, algorithm: HmacAlgorithm, extractable: boolean, usages: Iterable<"sign" | "verify">,
    ): Promise<CryptoKey>;
    generateKey(algorithm: HmacAlgorithm & { length?: number }, extractable: boolean, usages: Iterable<"sign" | "verify">): Promise<CryptoKey>;
    exportKey(format: "raw", key: CryptoKey): Promise<ArrayBuffer>;
    sign(algorithm: "HMAC" | { name: "HMAC" }, key: CryptoKey, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer>;
    verify(
      algorithm: "HMAC" | { name: "HMAC" }, key: CryptoKey, signature: ArrayBuffer | ArrayBufferView, data: ArrayBuffer | ArrayBufferView,
    ): Promise<boolean>;
  };
};

type DigestName = "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512";
type HmacAlgorithm = { name: "HMAC"; hash: DigestName | { name: DigestName } };

declare class CryptoKey {
  private constructor();
  readonly type: "secret";
  readonly extractable: boolean;
  readonly algorithm: { readonly name: "HMAC"; readonly hash: { readonly name: DigestName }; readonly length: number };
  readonly usages: readonly ("sign" | "verify")[];
}

type AbortListener = ((event: { type: "abort"; target: AbortSignal }) => void) | { handleEvent(event: { type: "abort"; target: AbortSignal }): void };

declare class AbortSignal {
  private constructor();
  static abort(reason?: unknown): AbortSignal;
  static timeout(milliseconds: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: unknown;
  onabort: ((event: { type: "abort"; target: AbortSignal }) => void) | null;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: AbortListener): void;
  removeEventListener(type: "abort", listener: AbortListener): void;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}
declare const performance: { now(): number; readonly timeOrigin: number };
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare function structuredClone<Value>(value: Value): Value;
declare function queueMicrotask(callback: () => void): void;
declare function setTimeout<Values extends unknown[]>(callback: (...values: Values) => void, milliseconds?: number, ...values: Values): number;
declare function setInterval<Values extends unknown[]>(callback: (...values: Values) => void, milliseconds?: number, ...values: Values): number;
declare function clearTimeout(timer: number | undefined): void;
declare function clearInterval(timer: number | undefined): void;
