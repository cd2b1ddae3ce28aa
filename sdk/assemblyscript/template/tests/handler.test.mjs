// Unit tests of the handler in Node: `npm test` compiles it and runs them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { load, run } from "duebox-as/testing";

const handler = await load(new URL("../build/test.wasm", import.meta.url));

test("it greets", () => {
  const report = run(handler, { name: "Ada" }, { config: { greeting: "Moin" } });
  assert.equal(report.verdict, "ack");
  assert.equal(report.log[0].text, "Moin, Ada! (attempt 1 of 8)");
});

test("an API that is busy is asked again when it says so", () => {
  const http = () => ({ status: 503, headers: { "retry-after": "7" } });
  const report = run(handler, { name: "Ada" }, { config: { api: "https://api.example.com/" }, http });
  assert.deepEqual([report.verdict, report.reason, report.retryAfter], ["nack", "the server answered 503", 7_000]);
  assert.equal(report.requests[0].body, '{"text":"Hello, Ada!"}');
});
