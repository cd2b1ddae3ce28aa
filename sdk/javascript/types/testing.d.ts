import type { Handler } from "duebox";

/** A request of a handler. */
export interface FakeRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
  /** Milliseconds; 0 if the handler sets none. */
  timeout: number;
}

/** The response to it; `error` is the code of a call that the host refuses. */
export type FakeResponse =
  | { status?: number; headers?: Record<string, string>; body?: string | Uint8Array; json?: unknown }
  | { error: "denied" | "invalid" | "timeout" | "unavailable" };

/** What a job finds. */
export interface Fake {
  /** `sandbox.config` and `sandbox.secrets`. */
  config?: Record<string, string | number>;
  /** Answers a request. Without it requests are denied. */
  http?: (request: FakeRequest) => FakeResponse;
  /** The store. A Map is changed by the run. */
  kv?: Map<string, string> | Record<string, string>;
  job?: {
    id?: string;
    topic?: string;
    attempt?: number;
    maxAttempts?: number;
    dueAt?: Date | number;
    headers?: Record<string, string>;
  };
}

/** How a run ended, and what the handler did. */
export interface Report {
  verdict: "ack" | "nack" | "drop" | "snooze";
  /** Set if the handler returned what is not a verdict. */
  class?: "bad_verdict";
  reason: string;
  /** Milliseconds. */
  retryAfter?: number;
  /** Milliseconds. */
  snooze?: number;
  result?: string;
  pushed: { topic: string; payload: string; options: Record<string, string> }[];
  kv: Map<string, string>;
  log: { level: "error" | "warn" | "info" | "debug" | "trace"; text: string }[];
  requests: FakeRequest[];
  /** What the handler threw. */
  error?: unknown;
}

/** Runs a handler, or the module of one, on a payload. One run after the other. */
export function run<Payload>(
  handler: Handler<Payload> | { default: Handler<Payload>; payload?: string },
  payload?: Payload,
  fake?: Fake,
): Promise<Report>;
