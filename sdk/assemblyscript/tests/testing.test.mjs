// The host of unit tests does what the daemon does, and the SDK writes JSON that others read.
import assert from "node:assert/strict";
import { test } from "node:test";

import { load, run } from "../testing.mjs";

const handler = await load(new URL("build/handler.wasm", import.meta.url));
const step = (name, more = {}) => ({ ...more, job: { ...more.job, headers: { step: name } } });

test("a job has what the test gives it", () => {
  const job = { id: "j-1", topic: "order.close", attempt: 2, maxAttempts: 3, now: 1_764_000_000_000, dueAt: 1_763_999_999_000 };
  const report = run(handler, "hällo", step("meta", { job, config: { limit: 7_000 } }));
  assert.deepEqual([report.verdict, report.reason, report.retryAfter], ["nack", "later", 7_000]);
  assert.deepEqual(report.log, [
    { level: "warn", text: "j-1 of order.close, 2 of 3" },
    { level: "info", text: "1764000000000 1763999999000 7000 hällo" },
  ]);
});

test("values are written as JSON", () => {
  const value = { text: 'é "\\ \u0001\n 🎉', list: [1, [], {}, null, false], deep: { number: 19.5 } };
  const report = run(handler, value, step("write"));
  assert.equal(report.verdict, "ack");
  const { read, integer, floats, half, ...rest } = JSON.parse(report.result);
  assert.deepEqual(read, value);
  assert.match(report.result, /"integer":-9223372036854775808,"floats":\[-0\.5,3,1e\+?300,null\]/);
  assert.equal(half, "\ud83c");
  assert.deepEqual(rest, { 'a "name"': true });
  assert.deepEqual(report.pushed, [{ topic: "mail", payload: report.result, options: { "delay-ms": "1000" } }]);
  assert.match(run(handler, "{", step("write")).reason, /expected/);
});

test("requests are answered by the test", () => {
  const seen = [];
  const http = (request) => { seen.push(request); return { status: 201, json: { word: "fine" } }; };
  const report = run(handler, "", step("ask", { http }));
  assert.deepEqual([report.verdict, report.log], ["ack", [{ level: "info", text: "it said fine" }]]);
  assert.deepEqual(seen, report.requests);
  const headers = { "x-key": "a", "content-type": "application/json" };
  assert.deepEqual(seen, [{ method: "POST", url: "https://api.example.com/ask", headers, body: '{"id":"test"}', timeout: 2_000 }]);

  const busy = run(handler, "", step("ask", { http: () => ({ status: 503, headers: { "Retry-After": "7" } }) }));
  assert.deepEqual([busy.verdict, busy.reason, busy.retryAfter], ["nack", "the server answered 503", 7_000]);
  assert.equal(run(handler, "", step("ask", { http: () => ({ error: "timeout" }) })).reason, "timeout");
  assert.equal(run(handler, "", step("ask")).reason, "denied");
});

test("the store is one for the test, and keeps what a job that fails has written", () => {
  const report = run(handler, "", step("count", { kv: { count: "40" } }));
  assert.deepEqual([report.verdict, report.reason, report.kv.get("count")], ["nack", "now 42", "42"]);
  assert.equal(run(handler, "", step("count", { kv: { count: "many" } })).verdict, "drop");
  const stored = run(handler, "", step("store", { kv: { word: "a" } }));
  assert.equal(stored.log[0].text, "a truefalsefalsefalse");
  assert.equal(stored.kv.get("word"), "b");
});

test("every end of a handler is a verdict", () => {
  const snoozed = run(handler, "", step("snooze"));
  assert.deepEqual([snoozed.verdict, snoozed.snooze, snoozed.reason], ["snooze", 5_000, "busy"]);
  const trapped = run(handler, "", step("throw"));
  assert.equal(trapped.verdict, "nack");
  assert.match(trapped.reason, /^out of order \(/);
  assert.ok(trapped.error instanceof Error);
  assert.equal(run(handler, "").verdict, "drop");
});
