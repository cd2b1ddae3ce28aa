// Pushes follow-ups as a conformance case asks, with the SDK of TypeScript alone. The steps are in the header
// `script`, as for echo-js; `tests/conformance/README.md` describes each.
//
// Invariant: relay-rust, relay-go and relay-as log the same text for every step.

import { drop, job, log, nack, push, snooze, type PushOptions, type Verdict } from "duebox";

export const payload = "text";

interface FollowUp {
  topic: string;
  payload: string;
  options: PushOptions;
}

export default function handle(text: string): Verdict {
  for (const line of job.headers.script?.split("; ") ?? []) {
    const [step, rest] = split(line, " ");
    if (step === "push") {
      const refused = refusal(followUp(text, rest));
      log.info(refused === undefined ? "pushed" : `refused: ${refused}`);
    } else if (step === "must") {
      const refused = refusal(followUp(text, rest));
      if (refused !== undefined) return nack(refused);
    } else if (step === "push-many") {
      const [count, options] = split(rest, " ");
      pushMany(Number(count), followUp(text, options));
    } else {
      return verdictOf(step, rest);
    }
  }
}

/** Runs the steps that end the attempt. */
function verdictOf(step: string, rest: string): Verdict {
  switch (step) {
    case "ack": return "ack";
    case "nack": return nack(rest);
    case "drop": return drop(rest);
    case "snooze": return snooze(Number(rest));
    case "panic": throw new Error(rest);
    default: return drop(`unknown step "${step}"`);
  }
}

/** Pushes it and returns why it is refused, if it is. */
function refusal({ topic, payload, options }: FollowUp): string | undefined {
  try {
    push(topic, payload, options);
  } catch (error) {
    return (error as Error).message;
  }
}

/** Pushes the same follow-up `count` times, and logs how many were accepted and why the last one was refused. */
function pushMany(count: number, pushed: FollowUp): void {
  const refusals = Array.from({ length: count }, () => refusal(pushed)).filter((why) => why !== undefined);
  const why = refusals.length > 0 ? `: ${refusals.at(-1)}` : "";
  log.info(`pushed ${count - refusals.length} of ${count}${why}`);
}

const NAMES: Record<string, "id" | "delay" | "dueAt" | "ttr" | "maxAttempts" | "ttl" | "priority" | "key"> = {
  id: "id", delay: "delay", at: "dueAt", ttr: "ttr", attempts: "maxAttempts", ttl: "ttl", priority: "priority", key: "key",
};

/** Parses `topic=T|name=value|…`. The value `$` stands for the payload. */
function followUp(text: string, rest: string): FollowUp {
  const headers: Record<string, string> = {};
  const options: Record<string, unknown> = { headers };
  const found = { topic: "", payload: "", options: options as PushOptions };
  for (const pair of rest.split("|")) {
    const [name, written] = split(pair, "=");
    const value = written === "$" ? text : written;
    if (name === "topic") found.topic = value;
    else if (name === "payload") found.payload = value;
    else if (name === "size") found.payload = "x".repeat(Number(value));
    else if (name in NAMES) options[NAMES[name]!] = value;
    else headers[name.slice(2)] = value;
  }
  return found;
}

/** The text before the first separator and the text after it. */
function split(line: string, separator: string): [string, string] {
  const at = line.indexOf(separator);
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
}
