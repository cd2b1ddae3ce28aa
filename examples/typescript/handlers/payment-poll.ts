// Follows a payment until the provider has decided. The schedule is the `backoff` of the topic `payment.poll`: an open
// payment is a nack without a delay of its own.

import { drop, job, log, nack, type Verdict } from "duebox";
import { Malformed, isName, readPayment } from "../lib/events.ts";
import { logged, Refused, send } from "../lib/shop.ts";

const OPEN = ["open", "pending", "processing"];
const FINAL = ["failed", "cancelled", "expired", "refused"];

export const payload = "text";

export default async function handle(text: string): Promise<Verdict> {
  let about = "";
  try {
    const id = readPayment(text);
    about = `payment=${id} `;
    return await follow(id, about);
  } catch (error) {
    if (error instanceof Malformed || error instanceof Refused) return logged(error.verdict, `${about}reason=${JSON.stringify(error.message)}`);
    throw error;
  }
}

async function follow(id: string, about: string): Promise<Verdict> {
  const what = `payment ${id}`;
  const state = await send("GET", `/payments/${id}`, what).then((response) => stateOf(response, what));
  const fields = `${about}state=${state}`;
  if (state === "paid") return logged("ack", fields);
  if (FINAL.includes(state)) return logged(drop(`the ${what} is ${state}`), fields);
  const attempt = `${job.attempt} of ${job.maxAttempts}`;
  if (job.isLastAttempt) log.warn(`giving up on the ${what}: still open at attempt ${attempt}`);
  return logged(nack(`the ${what} is still open at attempt ${attempt}`), `${fields} last_attempt=${job.isLastAttempt}`);
}

async function stateOf(response: Response, what: string): Promise<string> {
  const payment = await response.json().catch(() => undefined);
  const state: unknown = payment?.state;
  if (!isName(state)) throw new Refused(nack(`the shop returned no state of the ${what}`));
  if (state !== "paid" && !OPEN.includes(state) && !FINAL.includes(state)) {
    throw new Refused(nack(`unknown state "${state}" of the ${what}`));
  }
  return state;
}
