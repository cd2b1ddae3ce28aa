/// <reference path="globals.d.ts" />

/** The module that the daemon provides to handlers in TypeScript and JavaScript. */
declare module "duebox" {
  /** The verdict on a job. */
  export type Verdict = void | undefined | null | "ack" | "drop" | NamedVerdict;

  /** What `ack`, `nack`, `drop` and `snooze` return. */
  export interface NamedVerdict {
    readonly kind: "ack" | "nack" | "drop" | "snooze";
    readonly reason: string;
  }

  /** A handler: the default export of its file. */
  export type Handler<Payload = unknown> = (payload: Payload) => Verdict | Promise<Verdict>;

  /** Done. */
  export function ack(): NamedVerdict;
  /** Failed; tried again after `retryAfter` milliseconds, or else after the backoff, while attempts are left. */
  export function nack(reason?: string, options?: { retryAfter?: number }): NamedVerdict;
  /** Dead at once. */
  export function drop(reason?: string): NamedVerdict;
  /** Not a failure: the job comes back after `milliseconds`, and no attempt is spent. */
  export function snooze(milliseconds: number, reason?: string): NamedVerdict;

  /** Text and bytes as they are, `undefined` as nothing, other values as JSON. */
  export type Body = string | ArrayBuffer | ArrayBufferView | object | number | boolean | null | undefined;

  /** The options of a follow-up job; without one that of its topic. */
  export interface PushOptions {
    id?: string;
    /** Milliseconds after the ack. */
    delay?: number;
    dueAt?: Date | number;
    /** Milliseconds. */
    ttr?: number;
    maxAttempts?: number;
    /** Milliseconds. */
    ttl?: number;
    priority?: "high" | "normal" | "low";
    key?: string;
    /** Their names are in lower case. */
    headers?: Record<string, string>;
  }

  /** Pushes a follow-up job with the ack of this job, or not at all. Grant: `sandbox.push`. */
  export function push(topic: string, payload?: Body, options?: PushOptions): void;
  /** Keeps a result with the acked job, at most 64 KiB. */
  export function result(value: Body): void;
  /** Random bytes. */
  export function random(length: number): Uint8Array;

  /** The job that runs. */
  export const job: {
    readonly id: string;
    readonly topic: string;
    /** From 1. */
    readonly attempt: number;
    readonly maxAttempts: number;
    readonly isLastAttempt: boolean;
    readonly dueAt: Date;
    /** When this attempt ends. */
    readonly deadline: Date;
    /** Milliseconds until then. */
    readonly timeLeft: number;
    readonly headers: Record<string, string>;
    /** A value of `sandbox.config` or `sandbox.secrets`. Throws if there is none and no fallback. */
    config(name: string): string;
    config<Fallback>(name: string, fallback: Fallback): string | Fallback;
    secret(name: string): string;
    secret<Fallback>(name: string, fallback: Fallback): string | Fallback;
    push: typeof push;
    result: typeof result;
  };

  type Write = (...values: unknown[]) => void;
  /** The log of the job. */
  export const log: Readonly<Record<"error" | "warn" | "info" | "debug" | "trace", Write>>;

  /** The store that all jobs of the topic share. Grant: `kv = true`. */
  export const kv: {
    get(key: string): string | undefined;
    getBytes(key: string): Uint8Array | undefined;
    getJson<Value = any>(key: string): Value | undefined;
    /**
     * Writes a value, with a time to live in milliseconds. False if `if` forbids it: "absent" writes only if there is
     * no value, "unchanged" only if nobody has written since this job's `get`.
     */
    set(key: string, value: Body, options?: { ttl?: number; if?: "absent" | "unchanged" }): boolean;
    /** False if there was none. */
    delete(key: string): boolean;
    /** Adds to a number, 0 if there is none, and returns the sum. */
    add(key: string, delta?: number): number;
    /** The same for sums above 2^53. */
    add(key: string, delta: bigint): bigint;
  };

  /** Requests to the origins that `sandbox.http` grants. */
  export const http: {
    get(url: string | URL, options?: RequestOptions): Promise<Response>;
    head(url: string | URL, options?: RequestOptions): Promise<Response>;
    delete(url: string | URL, options?: RequestOptions): Promise<Response>;
    /** An object is sent as JSON. */
    post(url: string | URL, body?: Body, options?: RequestOptions): Promise<Response>;
    put(url: string | URL, body?: Body, options?: RequestOptions): Promise<Response>;
    patch(url: string | URL, body?: Body, options?: RequestOptions): Promise<Response>;
    fetch: typeof fetch;
  };
}
