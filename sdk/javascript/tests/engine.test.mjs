import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { runOnce, start } from "./host.mjs";

test("what a handler returns is the verdict", () => {
  const verdict = (source) => runOnce(source).verdict;
  assert.equal(verdict("export default () => {}"), 0);
  assert.equal(verdict("export default async () => 'ack'"), 0);
  assert.equal(verdict("export default () => 'drop'"), 2);
  assert.equal(verdict("export default () => 42"), 3);
  const nack = runOnce("import { nack } from 'duebox'; export default async () => nack('busy', { retryAfter: 500 })");
  assert.deepEqual([nack.verdict, nack.reason, nack.retryAfter], [1, "busy", 500]);
  const snooze = runOnce("import { snooze } from 'duebox'; export default () => snooze(700)");
  assert.deepEqual([snooze.verdict, snooze.snooze], [1, 700]);
});

test("an exception and a rejection are a nack with the author's own lines", () => {
  for (const source of [
    "\nexport default () => { throw new TypeError('no') }",
    "\nexport default async () => { await null; throw new TypeError('no') }",
  ]) {
    const { verdict, reason } = runOnce(source);
    assert.equal(verdict, 1);
    assert.match(reason, /^TypeError: no\n +at default \(close\.js:2:\d+\)$/);
  }
  assert.match(runOnce("export default () => process.env.HOME").reason, /read settings with job\.config/);
});

test("CommonJS modules and JSON are imported as bundlers import them", () => {
  const files = {
    "main.js": `import lib, { twice, delete as gone } from "lib";
import * as all from "lib";
import compiled, { named } from "compiled";
import data from "./data.json";
export default async () => {
  const late = await import("lib");
  console.log(lib.name, twice(2), gone(), all.twice === late.twice, all.default === lib);
  console.log(compiled, named, data.a, lib.data === data, lib.even(10), lib.late());
  try { lib.missing() } catch (error) { console.log(error.code, error.message) }
};`,
    "lib.cjs": `var twice = function (n) { return 2 * n };
undeclared = "sloppy";
exports.name = module.id + " " + (this === exports);
exports.twice = twice; exports.delete = function () { return undeclared };
exports.data = require("./data.json");
exports.even = require("./even").even;
exports.late = function () { return require("./late") };
exports.missing = function () { return require("fs") };
`,
    "compiled.cjs": 'Object.defineProperty(exports, "__esModule", { value: true }); exports.default = "d"; exports.named = "n"; exports["no-name"] = 1;',
    "even.cjs": 'exports.even = (n) => n === 0 || odd.odd(n - 1); const odd = require("./odd");',
    "odd.cjs": 'const even = require("./even"); exports.odd = (n) => n !== 0 && even.even(n - 1);',
    "late.cjs": "module.exports = 'evaluated by the job';",
    "data.json": 'module.exports=JSON.parse("{\\"a\\":1,\\"b\\":2}")',
  };
  const links = [
    ["main.js", "lib", "lib.cjs"], ["main.js", "compiled", "compiled.cjs"], ["main.js", "./data.json", "data.json"],
    ["lib.cjs", "./data.json", "data.json"], ["lib.cjs", "./even", "even.cjs"], ["lib.cjs", "./late", "late.cjs"],
    ["even.cjs", "./odd", "odd.cjs"], ["odd.cjs", "./even", "even.cjs"],
  ];
  const program = start(files, { links });
  assert.equal(program.error, undefined);
  for (let run = 0; run < 2; run++) {
    const { verdict, log, reason } = program.run();
    assert.equal(verdict, 0, reason);
    assert.deepEqual(log.slice(0, 2), ["lib.cjs true 4 sloppy true true", "d n 1 true true evaluated by the job"]);
    assert.match(log[2], /^MODULE_NOT_FOUND Cannot find module 'fs' in a Duebox handler/);
  }
  const throws = start({ "main.js": 'import "a";', "a.cjs": "\nfunction f() { throw new TypeError('no') }\nf()" }, { links: [["main.js", "a", "a.cjs"]] });
  assert.match(throws.error, /^TypeError: no\n +at f \(a\.cjs:2:\d+\)\n +at <anonymous> \(a\.cjs:3:\d+\)$/);
});

test("a payload is what JSON.parse makes of it", () => {
  const program = start({ "close.js": "export default (payload) => console.log(JSON.stringify(payload))" });
  const texts = [
    '[{"a":"x","b":1},{"a":"x","b":2},{"b":3,"a":"x"},{"a":"y"},{},{"a":"x","b":{"a":"x"},"c":[{"a":"x"},{"a":"x"}]}]',
    '[{"a":1,"a":2},{"a":3,"a":4},{"a":"x","a":"x"}]',
    '[{"2":"x","1":"x"},{"2":"x","1":"x"},{"__proto__":1,"constructor":"x"},{"__proto__":{"a":"x"}}]',
    '[{"a":[{"b":"x"},{"b":"x"}]},{"a":[{"b":"x"},{"b":"y"}]}]',
    '[{},{},{"a":null},{"a":true}]',
    `[{"a":"${"x".repeat(40)}"},{"a":"${"x".repeat(40)}"},{"a":"\\u0041"},{"a":"A"},{"a":"\\n"}]`,
    `[${Array.from({ length: 90 }, (_, at) => `[{"n${at}":"x","m":"x"},{"n${at}":"x","m":"x"}]`)}]`,
    '"x"', '"x" ', "[]", '{"a":"x","b":"x"}',
  ];
  // Documents of random parts. What the parser keeps of one object must not show in the next.
  const pick = (list) => list[Math.floor(Math.random() * list.length)];
  const value = (depth) => {
    if (depth === 0) return pick([0, -1, 1.5, 1e21, true, null, "x", "y", "x".repeat(33), "é\n"]);
    const list = Array.from({ length: Math.floor(Math.random() * 5) }, () => value(depth - 1));
    return pick([list, Object.fromEntries(list.map((item) => [pick(["a", "b", "ab", "1", "é"]), item]))]);
  };
  for (let count = 0; count < 100; count++) texts.push(JSON.stringify(value(4)));
  for (const text of texts) assert.deepEqual(program.run(text).log, [JSON.stringify(JSON.parse(text))], text);
  for (const text of texts.filter((text) => text.length < 100)) {
    // A text that is cut is refused wherever it is cut.
    for (let end = 1; end < text.length; end++) {
      let isWhole = true;
      try { JSON.parse(text.slice(0, end)); } catch { isWhole = false; }
      assert.equal(program.run(text.slice(0, end)).verdict, isWhole ? 0 : 2, text.slice(0, end));
    }
  }
});

test("payloads are JSON, or what the handler says", () => {
  const told = "export default (p) => console.log(p?.id ?? typeof p, p?.length)";
  assert.deepEqual(runOnce(told, '{"id":7}').log, ["7 undefined"]);
  assert.deepEqual(runOnce(told, "").log, ["undefined undefined"]);
  assert.deepEqual(runOnce(`export const payload = "text"; ${told}`, "{no").log, ["string 3"]);
  assert.deepEqual(runOnce(`export const payload = "bytes"; ${told}`, "{no").log, ["object 3"]);
  const broken = runOnce(told, "{no");
  assert.equal(broken.verdict, 2);
  assert.match(broken.reason, /the payload is not valid JSON/);
  for (const payload of ['"\0"', '"\n"', Buffer.from([34, 255, 34])]) {
    const { verdict, reason } = runOnce(told, payload);
    assert.equal(verdict, 2, String(payload).slice(0, 10));
    assert.match(reason, /^the payload is not valid JSON: ./);
  }
  assert.deepEqual(runOnce(told, '{"__proto__":{"id":1},"length":2}').log, ["object 2"]);
});

test("digests and signatures are those of Node", async () => {
  const source = readFileSync(new URL("crypto.js", import.meta.url), "utf8");
  const { verdict, reason, result } = runOnce(source, '{"text":"Grüße", "key":"geheim"}');
  assert.equal(verdict, 0, reason);
  const { default: handle } = await import("./crypto.js");
  assert.deepEqual(JSON.parse(result), await handle({ text: "Grüße", key: "geheim" }, true));
});

test("what crypto.subtle does not have says so, and keys are kept", () => {
  const said = (code) => {
    const { verdict, reason } = runOnce(`export default async () => { ${code} }`);
    return verdict === 1 ? reason.split("\n")[0] : verdict;
  };
  const key = "await crypto.subtle.importKey('raw', new Uint8Array(4), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])";
  assert.match(said("await crypto.subtle.encrypt('AES-GCM')"), /^NotSupportedError: crypto\.subtle\.encrypt is not supported/);
  assert.match(said("await crypto.subtle.digest('MD5', new Uint8Array(1))"), /^NotSupportedError: MD5/);
  assert.match(said("await crypto.subtle.digest('SHA-256', 'text')"), /^TypeError: .*TextEncoder/);
  assert.match(said(`await crypto.subtle.verify('HMAC', ${key}, new Uint8Array(32), new Uint8Array(1))`), /^InvalidAccessError/);
  assert.match(said(`await crypto.subtle.exportKey('raw', ${key})`), /^InvalidAccessError: the key is not extractable/);
  assert.match(said("new CryptoKey()"), /^TypeError: a key is made by crypto\.subtle\.importKey/);
  assert.equal(said(`const key = ${key}; if (Object.keys(CryptoKey).length || key.bytes) throw 1`), 0);
});

test("signals abort requests, and time limits them", () => {
  const http = (head) => (head.includes("/slow")
    ? { status: -5, error: "no response in time" }
    : { status: 200 });
  const run = (code) => runOnce(`export default async () => { ${code} }`, "{}", { http });
  const reason = (code) => run(code).reason.split("\n")[0];
  assert.equal(reason("await fetch('https://shop.example/', { signal: AbortSignal.abort() })"), "AbortError: the operation was aborted");
  assert.equal(reason("const c = new AbortController(); c.abort(new Error('enough')); await fetch('https://shop.example/', { signal: c.signal })"), "Error: enough");
  assert.equal(reason("await fetch('https://shop.example/slow', { signal: AbortSignal.any([AbortSignal.timeout(0)]) })"), "TimeoutError: the operation timed out");
  assert.match(reason("await fetch('https://shop.example/slow', { signal: new AbortController().signal })"), /^Error: GET .*no response in time/);
  assert.match(reason("await fetch('https://shop.example/', { signal: 7 })"), /^TypeError: signal takes an AbortSignal/);
  const told = run(`
    const signal = AbortSignal.timeout(5), seen = [];
    signal.onabort = () => seen.push("onabort");
    signal.addEventListener("abort", { handleEvent: ({ type }) => seen.push(type) });
    const removed = () => seen.push("removed");
    signal.addEventListener("abort", removed);
    signal.removeEventListener("abort", removed);
    await new Promise((done) => signal.addEventListener("abort", done));
    console.log(seen.join(), signal.aborted, signal.reason.name, (await fetch("https://shop.example/")).status);
  `);
  assert.deepEqual([told.verdict, told.log], [0, ["onabort,abort true TimeoutError 200"]]);
});

test("jobs of one evaluated program draw their own numbers and see nothing of each other", () => {
  const program = start({
    "a.js": "let n = 0; const first = Math.random(), at = Date.now(); export default () => { n++; console.log(first, at, n, Math.random(), crypto.randomUUID()) }",
  });
  const [one, two] = [program.run().log[0].split(" "), program.run().log[0].split(" ")];
  assert.deepEqual(one.slice(0, 3), two.slice(0, 3));
  assert.equal(one[2], "1");
  assert.notEqual(one[3], two[3]);
  assert.notEqual(one[4], two[4]);
});

test("recursion is an exception that can be caught, and ends the job if it is not", () => {
  const deep = "const deep = (n) => deep(n + 1) + 1; export default () => ";
  assert.equal(runOnce(`${deep} { try { deep(0) } catch (e) { if (e instanceof RangeError) return 'drop' } }`).verdict, 2);
  const { verdict, reason } = runOnce(`${deep} deep(0)`);
  assert.match(String(verdict), /call stack/);
  assert.match(reason, /^RangeError: Maximum call stack size exceeded\n +at deep/);
});

test("a heap that the memory cannot hold traps", () => {
  const { verdict } = runOnce("export default () => { const all = []; for (;;) all.push(new Array(1000).fill(1)) }");
  assert.match(String(verdict), /unreachable/);
});

test("timers sleep, and a promise that nothing settles is a nack", () => {
  const slept = "export default async () => { const t = Date.now(); await new Promise((r) => setTimeout(r, 30)); console.log(Date.now() - t >= 29) }";
  assert.deepEqual(runOnce(slept).log, ["true"]);
  assert.match(runOnce("export default () => new Promise(() => {})").reason, /nothing settles/);
});

test("the services of the host are reached", () => {
  const source = `import { job, push, kv, result } from "duebox";
    export default async () => {
      const res = await fetch(job.config("shop") + "/x#y", { method: "post", json: { a: 1 } });
      push("sms", { x: 1 }, { id: "a", delay: 5, headers: { lang: "de" } });
      result(await res.json());
      console.log(job.id, job.headers.lang, res.status, kv.add("n", 3), kv.get("none"), res.retryAfter);
    }`;
  const http = () => ({ status: 429, head: "retry-after: 3\n", body: '{"b":2}' });
  const ran = runOnce(source, "{}", { config: { shop: "http://shop.example" }, http });
  assert.deepEqual(ran.sent, ['POST http://shop.example/x\ncontent-type: application/json\n{"a":1}']);
  assert.deepEqual(ran.pushed, [["topic: sms\nid: a\ndelay-ms: 5\nh.lang: de\n", '{"x":1}']]);
  assert.deepEqual(ran.log, ["id-1 de 429 3 undefined 3000"]);
  assert.equal(ran.result, '{"b":2}');
  assert.match(runOnce(source).reason, /config "shop" is not set/);
});

test("a redirect to another origin takes no credentials along", () => {
  const http = (head) => (head.includes("a.example") ? { status: 302, head: "location: http://b.example/2\n" } : { status: 200 });
  const source = "export default () => fetch('http://a.example/1', { headers: { authorization: 'x', lang: 'de' } }).then(() => {})";
  const { sent } = runOnce(source, "{}", { http });
  assert.deepEqual(sent, ["GET http://a.example/1\nauthorization: x\nlang: de\n", "GET http://b.example/2\nlang: de\n"]);
});

test("the globals of the web behave", () => {
  const source = `export default () => {
    const url = new URL("../b?x=1&y=a%20b#h", "https://me:pw@ex.com:8080/a/c/d");
    url.searchParams.append("z", "ü&");
    url.pathname = "/q";
    console.log(url.href);
    console.log(new TextDecoder().decode(new TextEncoder().encode("hü")), atob(btoa("hi")));
    console.log(structuredClone({ m: new Map([[1, { b: 2 }]]) }).m.get(1).b, crypto.getRandomValues(new Uint8Array(4)).length);
  }`;
  assert.deepEqual(runOnce(source).log, [
    "https://me:pw@ex.com:8080/q?x=1&y=a+b&z=%C3%BC%26#h", "hü hi", "2 4",
  ]);
});

test("headers are made of pairs, and responses are copied", () => {
  const source = `export default async () => {
    for (const from of [new Map([["A", "1"], ["b", "2"]]), [["A", "1"], ["b", "2"]], { A: "1", b: "2" }, new Headers({ A: "1", b: "2" })]) {
      console.log(new Headers(from).get("a"), [...new Headers(from).keys()].join());
    }
    for (const from of ["a: 1", 7, null, [["a"]], new Set([["a", "1", "2"]])]) {
      try { new Headers(from); console.log("taken", from) } catch (e) { if (!(e instanceof TypeError)) throw e }
    }
    const first = Response.json({ a: 1 }, { status: 201, statusText: "Created", headers: new Map([["x-a", "b"]]) });
    const second = first.clone();
    console.log(first.status, first.statusText, first.headers.get("content-type"), second.headers.get("x-a"));
    console.log((await first.json()).a, await second.text(), first.bodyUsed, new Response(null).statusText === "");
    try { first.clone() } catch (e) { console.log(e.message) }
    try { Response.json(() => {}) } catch (e) { console.log(e.name) }
  }`;
  const { verdict, reason, log } = runOnce(source);
  assert.equal(verdict, 0, reason);
  assert.deepEqual(log, [
    "1 a,b", "1 a,b", "1 a,b", "1 a,b", "201 Created application/json b", '1 {"a":1} true true',
    "a response is cloned before its body is read", "TypeError",
  ]);
});

test("a clone has each key as its own", () => {
  const source = `export default (payload) => {
    const clone = structuredClone(payload);
    console.log(JSON.stringify(clone), Object.getPrototypeOf(clone) === Object.prototype, clone.admin);
  }`;
  const payload = '{"__proto__":{"admin":true},"b":[1]}';
  assert.deepEqual(runOnce(source, payload).log, [`${payload} true undefined`]);
});

test("what browsers and Node have and a handler lacks says so by name", () => {
  const names = [
    "Request", "FormData", "Blob", "File", "ReadableStream", "WritableStream", "TransformStream", "Event", "EventTarget",
    "setImmediate", "Intl", "WebAssembly", "XMLHttpRequest", "WebSocket", "Worker", "process", "Buffer", "require", "global",
  ];
  for (const name of names) {
    const { verdict, reason } = runOnce(`export default () => new ${name}()`);
    assert.equal(verdict, 1, name);
    assert.match(reason, new RegExp(`^ReferenceError: '?${name}'? is not defined in a Duebox handler; \\w+`), name);
  }
  const guide = readFileSync(new URL("../../../docs/guide/languages.md", import.meta.url), "utf8");
  const absent = guide.slice(guide.indexOf("## What there is not"));
  for (const name of names) assert.ok(absent.includes(`\`${name}\``), `languages.md does not name ${name}`);
});

test("errors at the top level name their place", () => {
  assert.match(runOnce("\nconst x = ;").error, /^SyntaxError: .*\n +at close\.js:2:11$/);
  assert.match(runOnce("\nthrow new Error('top')").error, /^Error: top\n +at <anonymous> \(close\.js:2:\d+\)$/);
  assert.match(runOnce("import './nope.js'; export default () => {}").error, /nope\.js.*was not found/);
  const reads = "import { job } from 'duebox';\njob.id;\nexport default () => {}";
  assert.match(runOnce(reads).error, /^Error: there is no job while the handler is loaded.*\n +at .*close\.js:2:/);
  assert.match(runOnce("export default 1").error, /exports no function as default/);
});

test("modules import each other by their links", () => {
  const modules = {
    "a.js": 'import { f } from "./lib"; export default (p) => f(p)',
    "lib/f.js": 'export const f = (p) => { throw new Error("in lib") }',
  };
  const { reason } = start(modules, { links: [["a.js", "./lib", "lib/f.js"]] }).run();
  assert.match(reason, /^Error: in lib\n +at f \(lib\/f\.js:1:\d+\)\n +at default \(a\.js:1:\d+\)$/);
});
