// The handler of the topic "hello": it logs a greeting with the payload of the job, and keeps it as the job's result.
// A running daemon serves a change of this file within a second.
//
// What a handler can do: https://github.com/duebox/duebox/blob/main/docs/guide/languages.md
import { drop, log, result } from "duebox";

// Here the payload is a text. Without this line it is parsed as JSON.
export const payload = "text";

export default function handle(name: string) {
  // No retry can help, so the job is dead at once, with this reason.
  if (name === "") return drop("whom to greet? the payload is empty");
  const greeting = `Hello, ${name}`;
  log.info(greeting);
  result(greeting);
  // To return nothing is an ack: the job is done. An exception is a nack: failed, try again later.
}
