//! The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
//! names one, and keeps it as the job's result.

import { Job, Json, Request, Verdict, log, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, greet);
}

function greet(job: Job): Verdict {
  const greeting = job.json();
  const error = greeting.error;
  if (error !== null) return Verdict.drop(error); // malformed: no retry can help, so the job is dead at once
  const name = greeting.get("name").string;
  if (name === null) return Verdict.drop('the field "name" is missing or not a string');
  let word = job.config("greeting");
  if (word === null) word = "Hello";
  const text = word + ", " + name + "!";
  const api = job.config("api");
  if (api !== null) {
    const message = Json.object().set("text", Json.ofString(text));
    const response = new Request("POST", api).jsonValue(message).send();
    // Not reached or busy (429, 5xx) is a nack, until the server's Retry-After; refused (another 4xx) is a drop.
    if (!response.isSuccess) return response.verdict();
  }
  const attempt = job.attempt.toString() + " of " + job.maxAttempts.toString();
  log.info(text + " (attempt " + attempt + ")");
  const why = job.setResult(Uint8Array.wrap(String.UTF8.encode(text)));
  return why === null ? Verdict.ack() : Verdict.nack(why); // a trap is tried again too, after the backoff
}
