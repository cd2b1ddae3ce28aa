//! Runs the steps of a conformance case with the AssemblyScript SDK alone. The steps are in the
//! header `script`, separated by `; `; `tests/conformance/README.md` describes each.
//!
//! Invariant: echo-rust and echo-go log the same text for every step.

import { Job, Json, Verdict, log, randomBytes, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const script = job.header("script");
  if (script === null) return Verdict.ack();
  const lines = script.split("; ");
  for (let i = 0; i < lines.length; i++) {
    const step = before(lines[i]);
    const rest = behind(lines[i]);
    const verdict = isVerdict(step) ? verdictOf(step, rest) : read(job, step, rest);
    if (verdict !== null) return verdict;
  }
  return Verdict.ack();
}

function isVerdict(step: string): bool {
  return ["ack", "nack", "drop", "retry", "snooze", "error", "panic"].includes(step);
}

/** Runs the steps that end the attempt. */
function verdictOf(step: string, rest: string): Verdict {
  if (step == "ack") return Verdict.ack();
  if (step == "drop") return Verdict.drop(rest);
  if (step == "retry") return Verdict.retryAfter(I64.parseInt(before(rest)), behind(rest));
  if (step == "snooze") return Verdict.snooze(I64.parseInt(before(rest)), behind(rest));
  if (step == "panic") throw new Error(rest);
  return Verdict.nack(rest);
}

/** Runs the steps that read something and log it; a verdict ends the attempt. */
function read(job: Job, step: string, rest: string): Verdict | null {
  if (step == "payload") {
    log.info("payload " + job.payloadLength.toString() + " " + hex(job.payload(), job.payloadLength));
  } else if (step == "part") {
    const part = new Uint8Array(I32.parseInt(behind(rest)));
    const read = job.readPayload(I32.parseInt(before(rest)), part);
    log.info("part " + read.toString() + " " + hex(part, read));
  } else if (step == "sum") {
    log.info("sum " + job.payloadLength.toString() + " " + sum(job.payload()).toString());
  } else if (step == "text") {
    const text = job.text();
    if (text === null) return Verdict.drop("the payload is not UTF-8");
    log.info("text " + text);
  } else if (step == "syntax") {
    log.info("syntax " + (job.json().error === null).toString());
  } else if (step == "json") {
    return readJson(job.json());
  } else if (step == "meta") {
    log.info(
      "meta id=" + job.id + " topic=" + job.topic + " attempt=" + job.attempt.toString() +
        " max_attempts=" + job.maxAttempts.toString() + " last=" + job.isLastAttempt.toString() +
        " due_at=" + job.dueAtMs.toString(),
    );
  } else if (step == "times") {
    const ordered = job.dueAtMs <= job.nowMs && job.nowMs <= job.deadlineMs;
    const left = job.timeLeftMs > 0 && job.nowMs + job.timeLeftMs <= job.deadlineMs + 1_000;
    log.info("times ordered=" + ordered.toString() + " left=" + left.toString());
  } else if (step == "headers") {
    const headers = job.headers();
    headers.delete("script");
    const names = headers.keys().sort();
    for (let i = 0; i < names.length; i++) {
      log.info("header " + names[i] + "=" + headers.get(names[i]));
    }
  } else if (step == "header") {
    show("header", rest, job.header(rest));
  } else if (step == "config") {
    show("config", rest, job.config(rest));
  } else if (step == "int" || step == "float" || step == "bool") {
    return readConfig(step, rest, job.configJson(rest));
  } else if (step == "result") {
    return failed(job.setResult(Uint8Array.wrap(String.UTF8.encode(rest))));
  } else if (step == "result-size") {
    return failed(job.setResult(new Uint8Array(I32.parseInt(rest)).fill(0x78)));
  } else if (step == "log") {
    return written(before(rest), behind(rest));
  } else if (step == "random") {
    const differs = hex(randomBytes(16), 16) != hex(randomBytes(16), 16);
    log.info("random differs=" + differs.toString());
  } else {
    return Verdict.drop('unknown step "' + step + '"');
  }
  return null;
}

function readJson(item: Json): Verdict | null {
  const error = item.error;
  if (error !== null) return Verdict.drop(error);
  const name = item.get("name").string;
  const tags = item.get("tags");
  if (
    name === null || !item.get("count").isInteger || !item.get("price").isNumber ||
    !item.get("on").isBool || !tags.isArray
  ) {
    return Verdict.drop("a field is missing or has another type");
  }
  const words = new Array<string>();
  for (let i = 0; i < tags.length; i++) {
    const word = tags.at(i).string;
    if (word === null) return Verdict.drop("a tag is not a string");
    words.push(word);
  }
  log.info(
    "json name=" + name + " count=" + item.get("count").integer.toString() + " price=" +
      digits(item.get("price")) + " on=" + item.get("on").bool.toString() + " tags=" +
      words.join("|"),
  );
  return null;
}

function readConfig(step: string, name: string, value: Json): Verdict | null {
  let text: string | null = null;
  if (step == "int" && value.isInteger) text = value.integer.toString();
  if (step == "float" && value.isNumber) text = digits(value);
  if (step == "bool" && value.isBool) text = value.bool.toString();
  if (text === null && !value.isMissing) {
    return Verdict.nack('the configuration value "' + name + '" cannot be used');
  }
  show(step, name, text);
  return null;
}

/** A nack with the reason, if there is one. */
function failed(why: string | null): Verdict | null {
  return why === null ? null : Verdict.nack(why);
}

function written(level: string, text: string): Verdict | null {
  if (level == "error") log.error(text);
  else if (level == "warn") log.warn(text);
  else if (level == "info") log.info(text);
  else if (level == "debug") log.debug(text);
  else if (level == "trace") log.trace(text);
  else return Verdict.drop('unknown level "' + level + '"');
  return null;
}

/** Formats a number without the ".0" that AssemblyScript adds to an integer. */
function digits(value: Json): string {
  const text = value.number.toString();
  return text.endsWith(".0") ? text.substring(0, text.length - 2) : text;
}

function show(step: string, name: string, value: string | null): void {
  log.info(value === null ? step + " " + name + " absent" : step + " " + name + "=" + value);
}

/** The text before the first space, or all of it. */
function before(line: string): string {
  const space = line.indexOf(" ");
  return space < 0 ? line : line.substring(0, space);
}

/** The text after the first space, or nothing. */
function behind(line: string): string {
  const space = line.indexOf(" ");
  return space < 0 ? "" : line.substring(space + 1);
}

/** A checksum that depends on every byte and on their order. */
function sum(bytes: Uint8Array): u32 {
  let sum: u32 = 0;
  for (let i = 0; i < bytes.length; i++) sum = sum * 31 + bytes[i];
  return sum;
}

function hex(bytes: Uint8Array, length: i32): string {
  let digits = "";
  for (let i = 0; i < length; i++) digits += bytes[i].toString(16).padStart(2, "0");
  return digits;
}
