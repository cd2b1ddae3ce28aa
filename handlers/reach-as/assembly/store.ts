//! The steps that use the topic's store.

import { Job, KvAnswer, kv, log } from "duebox-as/assembly";
import { before, behind } from "./words";

/** Runs a step that uses the store; returns false for any other step. */
export function storeStep(job: Job, step: string, rest: string): bool {
  let key = before(rest, " ");
  if (key == "$") key = String.UTF8.decode(job.payload().buffer);
  const given = before(behind(rest, " "), " ");
  const ttl = behind(behind(rest, " "), " ");
  const ttlMs = ttl.length > 0 ? I64.parseInt(ttl) : 0;
  const value = given.startsWith("*")
    ? new Uint8Array(I32.parseInt(given.substring(1))).fill(0x78)
    : Uint8Array.wrap(String.UTF8.encode(given));
  if (step == "get") {
    const answer = kv.get(key);
    say(answer, answer.done ? shown(key, answer) : key + " absent");
  } else if (step == "set") {
    say(kv.set(key, value, ttlMs), "written");
  } else if (step == "absent") {
    written(kv.setIfAbsent(key, value, ttlMs));
  } else if (step == "unchanged") {
    written(kv.setIfUnchanged(key, value, ttlMs));
  } else if (step == "append") {
    append(key, given, ttlMs);
  } else if (step == "delete") {
    const answer = kv.remove(key);
    say(answer, answer.done ? "deleted" : "not there");
  } else if (step == "add") {
    const answer = kv.add(key, I64.parseInt(given));
    say(answer, key + "=" + answer.sum.toString());
  } else {
    return false;
  }
  return true;
}

function shown(key: string, answer: KvAnswer): string {
  const length = answer.bytes!.length;
  return length > 99 ? key + " has " + length.toString() + " bytes" : key + "=" + answer.text!;
}

function written(answer: KvAnswer): void {
  say(answer, answer.done ? "written" : "not written");
}

/** Appends a text to a value, again while other jobs write it meanwhile. */
function append(key: string, text: string, ttlMs: i64): void {
  for (let tries = 0; tries < 10; tries++) {
    const old = kv.get(key);
    if (old.error !== null) return say(old, "");
    const longer = (old.done ? old.text! : "") + text;
    const answer = kv.setIfUnchanged(key, Uint8Array.wrap(String.UTF8.encode(longer)), ttlMs);
    if (answer.done || answer.error !== null) return say(answer, longer);
  }
  log.info("refused: other jobs kept changing the key");
}

function say(answer: KvAnswer, words: string): void {
  const error = answer.error;
  log.info(error === null ? words : "refused: " + error);
}
