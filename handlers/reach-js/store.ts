// The steps that use the topic's store.

import { kv, log } from "duebox";
import { split } from "./words.ts";

/** Runs a step that uses the store; returns false for any other step. */
export function storeStep(payload: Uint8Array, step: string, rest: string): boolean {
  const [first, more] = split(rest, " ");
  const [given, ttl] = split(more, " ");
  const key = first === "$" ? new TextDecoder().decode(payload) : first;
  const value = given.startsWith("*") ? "x".repeat(Number(given.slice(1))) : given;
  const options = ttl === "" ? {} : { ttl: Number(ttl) };
  const steps: Record<string, () => string> = {
    get: () => shown(key, kv.get(key)),
    set: () => written(kv.set(key, value, options)),
    absent: () => written(kv.set(key, value, { ...options, if: "absent" })),
    unchanged: () => written(kv.set(key, value, { ...options, if: "unchanged" })),
    append: () => append(key, given, options),
    delete: () => (kv.delete(key) ? "deleted" : "not there"),
    add: () => `${key}=${kv.add(key, BigInt(given))}`,
  };
  const run = steps[step];
  if (run === undefined) return false;
  try {
    log.info(run());
  } catch (error) {
    log.info(`refused: ${(error as Error).message}`);
  }
  return true;
}

function shown(key: string, value: string | undefined): string {
  if (value === undefined) return `${key} absent`;
  return value.length > 99 ? `${key} has ${value.length} bytes` : `${key}=${value}`;
}

const written = (done: boolean): string => (done ? "written" : "not written");

/** Appends a text to a value, again while other jobs write it meanwhile. */
function append(key: string, text: string, options: { ttl?: number }): string {
  for (let tries = 0; tries < 10; tries++) {
    const longer = (kv.get(key) ?? "") + text;
    if (kv.set(key, longer, { ...options, if: "unchanged" })) return longer;
  }
  throw new Error("other jobs kept changing the key");
}
