//! A handler that greets the name in the payload.

import { Job, Verdict, log, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, greet);
}

function greet(job: Job): Verdict {
  const greeting = job.json();
  const error = greeting.error;
  if (error !== null) return Verdict.drop(error); // malformed: do not retry
  const name = greeting.get("name").string;
  if (name === null) return Verdict.drop('the field "name" is missing or not a string');
  if (greeting.get("asleep").bool) return Verdict.retryAfter(60_000, "asleep");
  let word = job.config("greeting");
  if (word === null) word = "Hello";
  const attempt = job.attempt.toString() + " of " + job.maxAttempts.toString();
  log.info(word + ", " + name + "! (attempt " + attempt + ")");
  return Verdict.ack();
}
