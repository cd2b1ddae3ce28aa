// Closes an order that was not paid in time. The shop pushes the job to topic `order.close` with the customer's time
// to pay, such as 30 minutes, as its delay.
//
// An unpaid order is closed; a paid one stays as it is; a payment in processing is asked for again later.

import { job, nack, type Verdict } from "duebox";
import { Malformed, readOrder } from "../lib/events.ts";
import { logged, Refused, send } from "../lib/shop.ts";

type Payment = "unpaid" | "failed" | "cancelled" | "expired" | "paid" | "refunded" | "processing";

/** The default delay for a payment in processing. */
const PROCESSING_WAIT_S = 120;

export const payload = "text";

export default async function handle(text: string): Promise<Verdict> {
  try {
    const { order, shop } = readOrder(text);
    return await close(order, `order=${order} shop=${JSON.stringify(shop)}`);
  } catch (error) {
    if (error instanceof Malformed || error instanceof Refused) return logged(error.verdict, `reason=${JSON.stringify(error.message)}`);
    throw error;
  }
}

async function close(order: string, about: string): Promise<Verdict> {
  const path = `/orders/${encodeURIComponent(order)}`;
  const what = `order ${order}`;
  const payment = await send("GET", path, what).then((response) => paymentOf(response, what));
  if (payment === "paid" || payment === "refunded") return logged("ack", `${about} closed=false paid=true`);
  if (payment === "processing") {
    const wait = processingWait();
    const later = nack(`the payment of ${what} is still processing`, { retryAfter: wait * 1000 });
    return logged(later, `${about} payment=processing wait_s=${wait} last_attempt=${job.isLastAttempt}`);
  }
  // The order may have been paid since the first request.
  const closed = await send("POST", `${path}/close`, what, [409]);
  return logged("ack", closed.ok ? `${about} closed=true` : `${about} closed=false paid=true`);
}

async function paymentOf(response: Response, what: string): Promise<Payment> {
  const known = ["unpaid", "failed", "cancelled", "expired", "paid", "refunded", "processing"];
  const order = await response.json().catch(() => undefined);
  if (!known.includes(order?.payment)) throw new Refused(nack(`the shop returned no payment of ${what}`));
  return order.payment;
}

function processingWait(): number {
  const wait = Number(job.config("processing_wait_s", PROCESSING_WAIT_S));
  if (!(wait >= 0 && wait <= 31_536_000)) throw new Refused(nack('the configuration value "processing_wait_s" must be seconds'));
  return wait;
}
