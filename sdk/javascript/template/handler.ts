// The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
// names one, and keeps it as the job's result.
// What a handler can use: https://github.com/duebox/duebox/blob/main/docs/guide/languages.md
import { drop, http, job, log, result } from "duebox";

interface Greeting {
  name: string;
}

// The payload is parsed as JSON. One that is not JSON is dropped before this is called.
export default async function handle(greeting: Greeting) {
  // No retry can help, so the job is dead at once, with this reason.
  if (typeof greeting?.name !== "string") return drop("the payload has no name");
  const text = `${job.config("greeting", "Hello")}, ${greeting.name}!`;
  const api = job.config("api", "");
  if (api !== "") {
    // An API that cannot be reached is an exception, and so a nack: tried again after the backoff.
    const response = await http.post(api, { text });
    // Busy (429, 5xx) is a nack until its Retry-After, refused (another 4xx) a drop.
    if (!response.ok) return response.verdict();
  }
  log.info(`${text} (attempt ${job.attempt} of ${job.maxAttempts})`);
  result(text);
  // To return nothing is an ack: the job is done.
}
