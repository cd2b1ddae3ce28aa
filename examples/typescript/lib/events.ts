// The events in the payloads. Names that pass are safe in a log line and in a path.

import { drop, type NamedVerdict } from "duebox";

/** The event is malformed: the job is dropped with the reason. */
export class Malformed extends Error {
  get verdict(): NamedVerdict {
    return drop(this.message);
  }
}

/** Whether a value is 1 to 64 letters, digits or -_.:/# and not only dots. */
export const isName = (value: unknown): value is string =>
  typeof value === "string" && /^[\p{L}\p{N}\-_.:/#]{1,64}$/u.test(value) && !/^\.*$/.test(value);

function read(text: string): Record<string, unknown> {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch (error) {
    throw new Malformed(`malformed event: ${(error as Error).message}`);
  }
  if (typeof event !== "object" || event === null) throw new Malformed("malformed event: it is not an object");
  return event as Record<string, unknown>;
}

/** `{"order":42}` is enough; `shop` is the name of the shop. */
export function readOrder(text: string): { order: string; shop: string } {
  const { order, shop = "" } = read(text);
  const name = Number.isSafeInteger(order) && (order as number) >= 0 ? String(order) : order;
  if (!isName(name)) throw new Malformed('malformed event: "order" is not an integer or a name of 1 to 64 characters');
  if (shop !== "" && !isName(shop)) throw new Malformed('malformed event: "shop" is not a name');
  return { order: name, shop: shop as string };
}

/** The id in `{"payment":{"id":"pay_81"}}`. */
export function readPayment(text: string): string {
  const { payment } = read(text);
  const id: unknown = (payment as { id?: unknown } | undefined)?.id;
  if (!isName(id) || /[/#]/.test(id)) throw new Malformed('malformed event: "payment.id" is missing or not a name');
  return id;
}
