//! Sends requests and keeps values as a conformance case asks, with the AssemblyScript SDK alone.
//! It is separate from echo-as because a module that imports http_send or kv_get runs only if the
//! topic grants it. The steps are in the header `script`, as for echo-as;
//! `tests/conformance/README.md` describes each.
//!
//! Invariant: reach-rust and reach-go log the same text for every step.

import { HttpFault, Job, Request, Response, Verdict, log, run } from "duebox-as/assembly";
import { storeStep } from "./store";
import { before, behind } from "./words";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const script = job.header("script");
  if (script === null) return Verdict.ack();
  let last: Response | null = null;
  const lines = script.split("; ");
  for (let i = 0; i < lines.length; i++) {
    const step = before(lines[i], " ");
    const rest = behind(lines[i], " ");
    if (step == "send" || step == "must") {
      const response = requestOf(job, rest).send();
      const error = response.error;
      if (error === null) {
        last = response;
        log.info("answered " + response.status.toString() + ", " + response.bytes.length.toString() + " bytes");
      } else if (step == "must") {
        return Verdict.nack(error);
      } else {
        log.info("failed " + nameOf(response.fault));
      }
    } else if (last !== null && step == "verdict") {
      return last.verdict();
    } else if (last !== null && readResponse(last, step, rest)) {
      continue;
    } else if (!storeStep(job, step, rest)) {
      if (step == "ack") return Verdict.ack();
      if (step == "nack") return Verdict.nack(rest);
      return Verdict.drop('unknown step "' + step + '"');
    }
  }
  return Verdict.ack();
}

/** Runs a step that reads the last response; returns false for any other step. */
function readResponse(last: Response, step: string, rest: string): bool {
  if (step == "header") {
    const value = last.header(rest);
    log.info(value === null ? "header " + rest + " absent" : "header " + rest + "=" + value);
  } else if (step == "names") {
    log.info("names " + last.values(rest).length.toString());
  } else if (step == "body") {
    const text = last.text();
    log.info(text === null ? "the body is not UTF-8" : "body " + text);
  } else if (step == "hex") {
    let digits = "";
    for (let i = 0; i < last.bytes.length; i++) digits += last.bytes[i].toString(16).padStart(2, "0");
    log.info("hex " + digits);
  } else if (step == "sum") {
    let sum: u32 = 0;
    for (let i = 0; i < last.bytes.length; i++) sum = sum * 31 + last.bytes[i];
    log.info("sum " + sum.toString());
  } else if (step == "json") {
    const name = last.json().get("name").string;
    const count = last.json().get("count");
    if (name === null || !count.isInteger) log.info("the body is not the expected JSON");
    else log.info("json name=" + name + " count=" + count.integer.toString());
  } else if (step == "url") {
    log.info("url " + last.url);
  } else {
    return false;
  }
  return true;
}

function nameOf(fault: HttpFault): string {
  switch (fault) {
    case HttpFault.Denied:
      return "denied";
    case HttpFault.Invalid:
      return "invalid";
    case HttpFault.TooLarge:
      return "too large";
    case HttpFault.Timeout:
      return "timeout";
    default:
      return "unavailable";
  }
}

/** Parses `METHOD URL|name=value|…`. The value `$` stands for the payload. */
function requestOf(job: Job, rest: string): Request {
  const parts = rest.split("|");
  const request = new Request(before(parts[0], " "), behind(parts[0], " "));
  for (let i = 1; i < parts.length; i++) {
    const name = before(parts[i], "=");
    let value = behind(parts[i], "=");
    if (name == "body" && value == "$") {
      request.body(job.payload());
      continue;
    }
    if (value == "$") value = String.UTF8.decode(job.payload().buffer);
    if (name == "body") request.text(value);
    else if (name == "size") request.body(new Uint8Array(I32.parseInt(value)).fill(0x78));
    else if (name == "timeout") request.timeout(I64.parseInt(value));
    else if (name == "follow") request.follow(I32.parseInt(value));
    else request.header(name.substring(2), value);
  }
  return request;
}
