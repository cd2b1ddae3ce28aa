// The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.
// What a handler can use: https://github.com/duebox/duebox/blob/main/docs/guide/languages.md
import { drop, job, log, nack, result } from "duebox";

interface Greeting {
  name: string;
  asleep?: boolean;
}

// The payload is parsed as JSON. One that is not JSON is dropped before this is called.
export default function handle(greeting: Greeting) {
  // No retry can help, so the job is dead at once, with this reason.
  if (typeof greeting?.name !== "string") return drop("the payload has no name");
  // It may help to try again, here after a minute. An exception is a nack too.
  if (greeting.asleep) return nack("asleep", { retryAfter: 60_000 });
  const text = `${job.config("greeting", "Hello")}, ${greeting.name}!`;
  log.info(`${text} (attempt ${job.attempt} of ${job.maxAttempts})`);
  result(text);
  // To return nothing is an ack: the job is done.
}
