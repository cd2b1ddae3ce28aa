// Sends requests and keeps values as a conformance case asks, with the SDK of TypeScript alone. The steps are in the
// header `script`, as for echo-js; `tests/conformance/README.md` describes each.
//
// Invariant: reach-rust, reach-go and reach-as log the same text for every step.

import { drop, job, log, nack, type Verdict } from "duebox";
import { storeStep } from "./store.ts";
import { split } from "./words.ts";

export const payload = "bytes";

/** The last response and its body. */
interface Last {
  response: Response;
  bytes: Uint8Array;
}

export default async function handle(payload: Uint8Array): Promise<Verdict> {
  let last: Last | undefined;
  for (const line of job.headers.script?.split("; ") ?? []) {
    const [step, rest] = split(line, " ");
    if (step === "send" || step === "must") {
      try {
        const response = await send(payload, rest);
        last = { response, bytes: await response.bytes() };
        log.info(`answered ${response.status}, ${last.bytes.length} bytes`);
      } catch (error) {
        if (step === "must") return nack((error as Error).message);
        log.info(`failed ${nameOf(error as Error & { code?: string })}`);
      }
    } else if (last !== undefined && step === "verdict") {
      return last.response.verdict();
    } else if (last !== undefined && readResponse(last, step, rest)) {
      continue;
    } else if (!storeStep(payload, step, rest)) {
      if (step === "ack") return "ack";
      if (step === "nack") return nack(rest);
      return drop(`unknown step "${step}"`);
    }
  }
}

/** Runs a step that reads the last response; returns false for any other step. */
function readResponse({ response, bytes }: Last, step: string, rest: string): boolean {
  const { headers } = response;
  if (step === "header") {
    log.info(headers.has(rest) ? `header ${rest}=${headers.get(rest)}` : `header ${rest} absent`);
  } else if (step === "names") {
    const cookies = rest === "set-cookie" ? headers.getSetCookie().length : undefined;
    log.info(`names ${cookies ?? Number(headers.has(rest))}`);
  } else if (step === "body") {
    const text = textOf(bytes);
    log.info(text === undefined ? "the body is not UTF-8" : `body ${text}`);
  } else if (step === "hex") {
    log.info(`hex ${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`);
  } else if (step === "sum") {
    let sum = 0;
    for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) >>> 0;
    log.info(`sum ${sum}`);
  } else if (step === "json") {
    readJson(textOf(bytes) ?? "");
  } else if (step === "url") {
    log.info(`url ${response.url}`);
  } else {
    return false;
  }
  return true;
}

function readJson(text: string): void {
  try {
    const { name, count } = JSON.parse(text);
    if (typeof name !== "string" || !Number.isInteger(count)) throw new TypeError("another type");
    log.info(`json name=${name} count=${count}`);
  } catch {
    log.info("the body is not the expected JSON");
  }
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The kind of an error. A request that is not even sent is a TypeError, as in every fetch. */
function nameOf(error: Error & { code?: string }): string {
  return error instanceof TypeError ? "invalid" : error.code?.replace("_", " ") ?? error.message;
}

/** Sends `METHOD URL|name=value|…`. The value `$` stands for the payload. */
function send(payload: Uint8Array, rest: string): Promise<Response> {
  const [target, ...pairs] = rest.split("|");
  const [method, url] = split(target!, " ");
  const headers: Record<string, string> = {};
  const options: RequestOptions = { method, headers, redirect: "manual" };
  for (const pair of pairs) {
    const [name, written] = split(pair, "=");
    const value = written === "$" ? textOf(payload) ?? "" : written;
    if (name === "body") options.body = written === "$" ? payload : value;
    else if (name === "size") options.body = "x".repeat(Number(value));
    else if (name === "timeout") options.timeout = Number(value);
    else if (name === "follow") Object.assign(options, { redirect: "follow", follow: Number(value) });
    else headers[name.slice(2)] = value;
  }
  return fetch(url, options);
}
