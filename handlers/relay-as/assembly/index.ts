//! Pushes follow-ups as a conformance case asks, with the AssemblyScript SDK alone. It is separate
//! from echo-as because a module that imports push runs only if the topic grants it. The steps are
//! in the header `script`, as for echo-as; `tests/conformance/README.md` describes each.
//!
//! Invariant: relay-rust and relay-go log the same text for every step.

import { FollowUp, Job, Priority, Verdict, log, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const script = job.header("script");
  if (script === null) return Verdict.ack();
  const lines = script.split("; ");
  for (let i = 0; i < lines.length; i++) {
    const step = before(lines[i], " ");
    const rest = behind(lines[i], " ");
    if (step == "push") {
      const refused = job.push(followUp(job, rest));
      log.info(refused === null ? "pushed" : "refused: " + refused);
    } else if (step == "must") {
      const refused = job.push(followUp(job, rest));
      if (refused !== null) return Verdict.nack(refused);
    } else if (step == "push-many") {
      pushMany(job, I32.parseInt(before(rest, " ")), followUp(job, behind(rest, " ")));
    } else if (step == "panic") {
      throw new Error(rest);
    } else {
      return verdictOf(step, rest);
    }
  }
  return Verdict.ack();
}

/** Runs the steps that end the attempt. */
function verdictOf(step: string, rest: string): Verdict {
  if (step == "ack") return Verdict.ack();
  if (step == "nack") return Verdict.nack(rest);
  if (step == "drop") return Verdict.drop(rest);
  if (step == "snooze") return Verdict.snooze(I64.parseInt(rest), "");
  return Verdict.drop('unknown step "' + step + '"');
}

/**
 * Pushes the same follow-up `count` times, and logs how many were accepted and why the last one was
 * refused.
 */
function pushMany(job: Job, count: i32, followUp: FollowUp): void {
  let taken = 0;
  let why = "";
  for (let i = 0; i < count; i++) {
    const refused = job.push(followUp);
    if (refused === null) taken++;
    else why = ": " + refused;
  }
  log.info("pushed " + taken.toString() + " of " + count.toString() + why);
}

/** Parses `topic=T|name=value|…`. The value `$` stands for the payload as text. */
function followUp(job: Job, rest: string): FollowUp {
  let followUp = new FollowUp("");
  const pairs = rest.split("|");
  for (let i = 0; i < pairs.length; i++) {
    const name = before(pairs[i], "=");
    let value = behind(pairs[i], "=");
    if (value == "$") value = String.UTF8.decode(job.payload().buffer);
    if (name == "topic") followUp = new FollowUp(value);
    else if (name == "payload") followUp.text(value);
    else if (name == "size") followUp.payload(new Uint8Array(I32.parseInt(value)).fill(0x78));
    else if (name == "id") followUp.id(value);
    else if (name == "delay") followUp.delay(I64.parseInt(value));
    else if (name == "at") followUp.dueAt(I64.parseInt(value));
    else if (name == "ttr") followUp.ttr(I64.parseInt(value));
    else if (name == "attempts") followUp.maxAttempts(I32.parseInt(value));
    else if (name == "ttl") followUp.ttl(I64.parseInt(value));
    else if (name == "priority") followUp.priority(priorityOf(value));
    else if (name == "key") followUp.key(value);
    else followUp.header(name.substring(2), value);
  }
  return followUp;
}

function priorityOf(name: string): Priority {
  return name == "high" ? Priority.High : name == "low" ? Priority.Low : Priority.Normal;
}

/** The text before the first separator, or all of it. */
function before(line: string, separator: string): string {
  const at = line.indexOf(separator);
  return at < 0 ? line : line.substring(0, at);
}

/** The text after the first separator, or nothing. */
function behind(line: string, separator: string): string {
  const at = line.indexOf(separator);
  return at < 0 ? "" : line.substring(at + 1);
}
