// Runs the steps of a conformance case with the SDK of TypeScript alone. The steps are in the header `script`,
// separated by `; `; `tests/conformance/README.md` describes each.
//
// Invariant: echo-rust, echo-go and echo-as log the same text for every step.

import { drop, job, log, nack, random, result, snooze, type Verdict } from "duebox";

export const payload = "bytes";

export default function handle(bytes: Uint8Array): Verdict {
  for (const line of job.headers.script?.split("; ") ?? []) {
    const [step, rest] = split(line);
    const verdict = verdictOf(step, rest) ?? read(bytes, step, rest);
    if (verdict !== undefined) return verdict;
  }
}

/** Runs the steps that end the attempt. */
function verdictOf(step: string, rest: string): Verdict {
  const [first, reason] = split(rest);
  switch (step) {
    case "ack": return "ack";
    case "nack": return nack(rest);
    case "drop": return drop(rest);
    case "retry": return nack(reason, { retryAfter: Number(first) });
    case "snooze": return snooze(Number(first), reason);
    case "error":
    case "panic": throw new Error(rest);
  }
}

/** Runs the steps that read something and log it; a verdict ends the attempt. */
function read(bytes: Uint8Array, step: string, rest: string): Verdict {
  switch (step) {
    case "payload": return log.info(`payload ${bytes.length} ${hex(bytes)}`);
    case "part": return part(bytes, ...split(rest));
    case "sum": return log.info(`sum ${bytes.length} ${sum(bytes)}`);
    case "text": return withText(bytes, (text) => log.info(`text ${text}`));
    case "syntax": return log.info(`syntax ${parse(bytes) !== undefined}`);
    case "json": return readJson(parse(bytes));
    case "meta": return meta();
    case "times": return times();
    case "headers": return headers();
    case "header": return show("header", rest, job.headers[rest]);
    case "config": return show("config", rest, job.config(rest, undefined));
    case "int":
    case "float":
    case "bool": return readConfig(step, rest, job.config(rest, undefined));
    case "result": return keep(rest);
    case "result-size": return keep("x".repeat(Number(rest)));
    case "log": return write(...split(rest));
    case "random": return log.info(`random differs=${hex(random(16)) !== hex(random(16))}`);
    default: return drop(`unknown step "${step}"`);
  }
}

function part(bytes: Uint8Array, offset: string, length: string): void {
  const found = bytes.subarray(Number(offset), Number(offset) + Number(length));
  log.info(`part ${found.length} ${hex(found)}`);
}

function withText(bytes: Uint8Array, use: (text: string) => void): Verdict {
  try {
    use(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return drop("the payload is not UTF-8");
  }
}

/** The value of the payload in an array; undefined if it is not JSON. */
function parse(bytes: Uint8Array): [unknown] | undefined {
  try {
    return [JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))];
  } catch {
    return undefined;
  }
}

function readJson(parsed: [unknown] | undefined): Verdict {
  if (parsed === undefined) return drop("the payload is not JSON");
  const item = (parsed[0] ?? {}) as Record<string, unknown>;
  const { name, count, price, on, tags } = item;
  const isText = (tag: unknown): tag is string => typeof tag === "string";
  if (
    !isText(name) || !Number.isInteger(count) || typeof price !== "number" ||
    typeof on !== "boolean" || !Array.isArray(tags) || !tags.every(isText)
  ) {
    return drop("a field is missing or has another type");
  }
  log.info(`json name=${name} count=${count} price=${price} on=${on} tags=${tags.join("|")}`);
}

function meta(): void {
  log.info(
    `meta id=${job.id} topic=${job.topic} attempt=${job.attempt} max_attempts=${job.maxAttempts} ` +
      `last=${job.isLastAttempt} due_at=${job.dueAt.getTime()}`,
  );
}

function times(): void {
  const [due, now, deadline] = [job.dueAt.getTime(), Date.now(), job.deadline.getTime()];
  const left = job.timeLeft > 0 && now + job.timeLeft <= deadline + 1_000;
  log.info(`times ordered=${due <= now && now <= deadline} left=${left}`);
}

function headers(): void {
  const { script, ...others } = job.headers;
  for (const name of Object.keys(others).sort()) log.info(`header ${name}=${others[name]}`);
}

function readConfig(step: string, name: string, text: string | undefined): Verdict {
  if (text === undefined) return show(step, name, undefined);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const fits = step === "int" ? Number.isInteger(value) : typeof value === (step === "bool" ? "boolean" : "number");
  if (!fits) return nack(`the configuration value "${name}" cannot be used`);
  show(step, name, String(value));
}

/** Keeps a result, or nacks with the reason why it is refused. */
function keep(value: string): Verdict {
  try {
    result(value);
  } catch (error) {
    return nack((error as Error).message);
  }
}

function write(level: string, text: string): Verdict {
  if (!(level in log)) return drop(`unknown level "${level}"`);
  log[level as keyof typeof log](text);
}

function show(step: string, name: string, value: string | undefined): void {
  log.info(value === undefined ? `${step} ${name} absent` : `${step} ${name}=${value}`);
}

/** The text before the first space and the text after it. */
function split(line: string): [string, string] {
  const space = line.indexOf(" ");
  return space < 0 ? [line, ""] : [line.slice(0, space), line.slice(space + 1)];
}

/** A checksum that depends on every byte and on their order. */
function sum(bytes: Uint8Array): number {
  let sum = 0;
  for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) >>> 0;
  return sum;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
