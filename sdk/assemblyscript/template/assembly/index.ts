//! The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.

import { Job, Verdict, log, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, greet);
}

function greet(job: Job): Verdict {
  const greeting = job.json();
  const error = greeting.error;
  if (error !== null) return Verdict.drop(error); // malformed: no retry can help, so the job is dead at once
  const name = greeting.get("name").string;
  if (name === null) return Verdict.drop('the field "name" is missing or not a string');
  if (greeting.get("asleep").bool) return Verdict.retryAfter(60_000, "asleep"); // a trap is tried again too
  let word = job.config("greeting");
  if (word === null) word = "Hello";
  const attempt = job.attempt.toString() + " of " + job.maxAttempts.toString();
  const text = word + ", " + name + "!";
  log.info(text + " (attempt " + attempt + ")");
  const why = job.setResult(Uint8Array.wrap(String.UTF8.encode(text)));
  return why === null ? Verdict.ack() : Verdict.nack(why);
}
