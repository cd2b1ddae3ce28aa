// What the types of the SDK allow, and what they refuse: an expected error that does not come is an error.

import { ack, drop, http, job, kv, log, nack, push, random, result, snooze, type Handler, type Verdict } from "duebox";

interface Order {
  id: number;
}

export const closing: Handler<Order> = async (order) => {
  const response = await http.post(`${job.config("shop")}/orders/${order.id}`, { by: job.id }, { timeout: 500 });
  const copy: Response = response.clone();
  const seconds: number | undefined = response.retryAfter;
  log.info(response.status, response.statusText, copy.headers.get("etag"), seconds);
  if (response.status === 409) return "drop";
  return response.ok ? ack() : nack("busy", { retryAfter: response.retryAfter });
};

export default async function handle(order: Order): Promise<Verdict> {
  const all: string = job.config("all") + job.config("none", "") + (job.secret("key", undefined) ?? "");
  const counted: number = kv.add("a");
  const exact: bigint = kv.add("a", 1n);
  const read: string | undefined = kv.get("a");
  const written: boolean = kv.set("a", { b: 1 }, { ttl: 1000, if: "absent" });
  push("mail", { all, read }, { id: "a", delay: 5, priority: "high", headers: { lang: "de" } });
  result(random(counted));
  const headers = new Headers(new Map([["a", String(exact)]]));
  headers.append("b", String(written));
  new Headers([["a", "b"]]).forEach((value, name) => console.log(value, name));
  await fetch(new URL("/a", job.config("shop")), { headers, signal: AbortSignal.timeout(5) });
  const digest: ArrayBuffer = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("a"));
  setTimeout((left: number) => console.log(left, digest), 5, job.timeLeft);
  return (await Response.json({ a: 1 }, { status: 201 }).json()).a === 1 ? snooze(5) : drop();
}

export function refused(): Verdict {
  // @ts-expect-error: the type of a setting is text
  const shop: number = job.config("shop");
  // @ts-expect-error: there is no such option
  push("mail", shop, { delayed: 5 });
  // @ts-expect-error: it takes milliseconds
  nack("no", { retryAfter: "5s" });
  // @ts-expect-error: a job does not change
  job.id = "other";
  // @ts-expect-error: bytes are not text
  const text: string = kv.getBytes("a");
  // @ts-expect-error: there is no process
  process.exit(text);
  // @ts-expect-error: a header is a name and a value
  new Headers([["a"]]);
  // @ts-expect-error: there is no such verdict
  return "nack";
}
