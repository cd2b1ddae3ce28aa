// The npm package @duebox/sdk from its packed form, in a folder of its own: a handler is tested in plain Node.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import test from "node:test";

const FILES = {
  "package.json": '{ "type": "module" }',
  "lib/paths.js": "export const closing = (id) => `/orders/${id}/close`;\n",
  "close.js": `import { http, job, kv, nack, push, result, snooze } from "duebox";
import { closing } from "./lib/paths";
export default async function handle(order) {
  if (order.wait) return snooze(order.wait);
  if (order.odd) return 42;
  const response = await http.post(job.config("shop") + closing(order.id), { by: job.id }, { headers: { "x-a": "ü" } });
  console.log("answered", response.status);
  if (response.status === 409) return "drop";
  if (!response.ok) return nack("shop said " + response.status, { retryAfter: response.retryAfter });
  const found = await (await fetch(new URL("/next", response.url), { signal: AbortSignal.timeout(1000) })).json();
  push("mail", found, { delay: 5000, headers: { lang: "de" } });
  result({ count: kv.add("count"), first: kv.set("first", "a", { if: "absent" }), id: crypto.randomUUID().length });
}
`,
  "text.js": 'export const payload = "text";\nexport default (text) => { if (text !== "{no") throw new TypeError("no") };\n',
  "close.test.mjs": `import assert from "node:assert/strict";
import test from "node:test";
import { run } from "@duebox/sdk/testing";
import handle from "./close.js";
import * as text from "./text.js";

const config = { shop: "https://shop.example" };
const native = globalThis.fetch;

test("a handler with its fakes", async () => {
  const http = (request) => (request.method === "POST" ? { status: 200 } : { json: { sum: 7 } });
  const report = await run(handle, { id: 7 }, { config, http, kv: { count: "41" }, job: { id: "j1" } });
  assert.equal(report.verdict, "ack", report.reason);
  assert.deepEqual(JSON.parse(report.result), { count: 42, first: true, id: 36 });
  assert.deepEqual(report.pushed, [{ topic: "mail", payload: '{"sum":7}', options: { "delay-ms": "5000", "h.lang": "de" } }]);
  assert.deepEqual(report.log, [{ level: "info", text: "answered 200" }]);
  const [first, second] = report.requests;
  assert.deepEqual([first.method, first.url, first.body], ["POST", "https://shop.example/orders/7/close", '{"by":"j1"}']);
  assert.equal(second.url, "https://shop.example/next");
  assert.equal(report.kv.get("first"), "a");
  assert.equal(globalThis.fetch, native);
});

test("verdicts, errors and payloads", async () => {
  const answered = (status, headers) => run(handle, { id: 1 }, { config, http: () => ({ status, headers }) });
  assert.equal((await answered(409)).verdict, "drop");
  const busy = await answered(503, { "retry-after": "7" });
  assert.deepEqual([busy.verdict, busy.reason, busy.retryAfter], ["nack", "shop said 503", 7000]);
  assert.deepEqual([(await run(handle, { wait: 9 })).verdict, (await run(handle, { odd: true })).class], ["snooze", "bad_verdict"]);
  assert.match((await run(handle, { id: 1 })).reason, /config "shop" is not set/);
  assert.equal((await run(handle, { id: 1 }, { config })).error.code, "denied");
  assert.equal((await run(text, "{no")).verdict, "ack");
  assert.match((await run(text, "other")).reason, /^TypeError: no/);
});
`,
};

test("a handler is tested with the packed package", () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "duebox-sdk-"));
  try {
    const sdk = new URL("../types/", import.meta.url).pathname;
    const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, sdk], { encoding: "utf8" }).trim().split("\n").pop();
    const home = path.join(folder, "node_modules/@duebox/sdk");
    fs.mkdirSync(home, { recursive: true });
    execFileSync("tar", ["-xzf", path.join(folder, packed), "-C", home, "--strip-components=1"]);
    for (const [name, content] of Object.entries(FILES)) {
      fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      fs.writeFileSync(path.join(folder, name), content);
    }
    // A test runner in a test runner reports otherwise.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const ran = spawnSync(process.execPath, ["--import", "@duebox/sdk/register", "--test", "close.test.mjs"], { cwd: folder, env, encoding: "utf8" });
    assert.equal(ran.status, 0, ran.stdout + ran.stderr);
    assert.match(ran.stdout, /pass 2/);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
