//! A handler that uses what the host of unit tests has. The header `step` says what it does.

import { FollowUp, HttpFault, Job, Json, Request, Verdict, kv, log, run } from "../assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const step = job.header("step");
  if (step === null) return Verdict.drop("no step");
  if (step == "write") return write(job);
  if (step == "ask") return ask(job);
  if (step == "count") return count();
  if (step == "store") return store();
  if (step == "snooze") return Verdict.snooze(5_000, "busy");
  if (step == "throw") throw new Error("out of order");
  return meta(job);
}

/** Reads the payload, and writes it again as a follow-up and as the result. */
function write(job: Job): Verdict {
  const value = job.json();
  const error = value.error;
  if (error !== null) return Verdict.drop(error);
  const all = Json.object()
    .set("read", value)
    .set("integer", Json.ofInteger(i64.MIN_VALUE))
    .set("floats", Json.array().add(Json.ofFloat(-0.5)).add(Json.ofFloat(3)).add(Json.ofFloat(1e300)).add(Json.ofFloat(NaN)))
    .set('a "name"', Json.ofBool(true))
    .set("half", Json.ofString(String.fromCharCode(0xd83c)));
  const refused = job.push(new FollowUp("mail").json(all).delay(1_000));
  if (refused !== null) return Verdict.nack(refused);
  const why = job.setResultJson(all);
  return why === null ? Verdict.ack() : Verdict.nack(why);
}

function ask(job: Job): Verdict {
  const body = Json.object().set("id", Json.ofString(job.id));
  const response = new Request("POST", "https://api.example.com/ask").header("X-Key", "a").jsonValue(body).timeout(2_000).send();
  if (response.fault == HttpFault.Denied) return Verdict.drop("denied");
  if (response.isSuccess) log.info("it said " + response.json().get("word").string!);
  return response.verdict();
}

function count(): Verdict {
  const answer = kv.add("count", 2);
  return answer.done ? Verdict.nack("now " + answer.sum.toString()) : Verdict.drop(answer.error!);
}

function store(): Verdict {
  const before = kv.get("word").text;
  const isSet = kv.setIfUnchanged("word", Uint8Array.wrap(String.UTF8.encode("b"))).done;
  const again = kv.setIfUnchanged("word", Uint8Array.wrap(String.UTF8.encode("c"))).done;
  const isFirst = kv.setIfAbsent("word", new Uint8Array(0)).done;
  const isGone = kv.remove("none").done;
  log.info((before === null ? "-" : before) + " " + isSet.toString() + again.toString() + isFirst.toString() + isGone.toString());
  return Verdict.ack();
}

function meta(job: Job): Verdict {
  const limit = job.configJson("limit").integer;
  log.warn(job.id + " of " + job.topic + ", " + job.attempt.toString() + " of " + job.maxAttempts.toString());
  log.info(job.nowMs.toString() + " " + job.dueAtMs.toString() + " " + limit.toString() + " " + job.text()!);
  return Verdict.retryAfter(limit, "later");
}
