import assert from "node:assert/strict";
import test from "node:test";

import { read, runOnce, start } from "./host.mjs";

/** A handler with this body. */
const handler = (body, head = "") => `${head}\ndef handle(payload):\n${body.replace(/^/gm, "    ")}\n`;
const lines = (body, head) => runOnce(handler(body, head)).log;

test("what a handler returns is the verdict", () => {
  const verdict = (value, head = "") => runOnce(handler(`return ${value}`, head));
  assert.equal(verdict("None").verdict, 0);
  assert.equal(verdict("'ack'").verdict, 0);
  assert.equal(verdict("'drop'").verdict, 2);
  assert.equal(verdict("42").verdict, 3);
  assert.match(verdict("42").reason, /the handler returned 42; return nothing/);
  const nack = verdict("nack('busy', retry_after=1.5)", "from duebox import nack");
  assert.deepEqual([nack.verdict, nack.reason, nack.retryAfter], [1, "busy", 1500]);
  const snooze = verdict("snooze(timedelta(minutes=1))", "from datetime import timedelta\nfrom duebox import snooze");
  assert.deepEqual([snooze.verdict, snooze.snooze], [1, 60000]);
});

test("payloads are JSON, or what the handler says", () => {
  const told = handler("print(type(payload).__name__, payload)");
  assert.deepEqual(runOnce(told, '{"id":7}').log, ["dict {'id': 7}"]);
  assert.deepEqual(runOnce(told, "").log, ["NoneType None"]);
  assert.deepEqual(runOnce(`payload = "text"\n${told}`, "{no").log, ["str {no"]);
  assert.deepEqual(runOnce(`payload = "bytes"\n${told}`, "{no").log, ["bytes b'{no'"]);
  for (const payload of ["{no", "NaN"]) {
    const { verdict, reason } = runOnce(told, payload);
    assert.equal(verdict, 2);
    assert.match(reason, /the payload is not valid JSON/);
  }
});

test("an exception is a nack with the author's own lines", () => {
  const files = {
    "report.py": handler("fail(1)", "from lib.fail import fail"),
    "lib/__init__.py": "",
    "lib/fail.py": "\ndef fail(a):\n    raise ValueError(f'no {a}')\n",
  };
  const { verdict, reason } = start(files).run();
  assert.equal(verdict, 1);
  assert.match(reason, /^ValueError: no 1\n {2}at report\.py:3:\d+ in handle\n {2}at lib\/fail\.py:3:\d+ in fail\n3 \| /);
  const missing = runOnce(handler("import numpy")).reason;
  assert.match(missing, /ModuleNotFoundError: No module named 'numpy'; there is neither numpy\.py beside the handler/);
});

test("errors of the top level have file, line and column", () => {
  const error = (source) => runOnce(source).error;
  assert.match(error("\nimport numpy\n"), /No module named 'numpy'.*\n {2}at report\.py:2:1 in <module>\n2 \| import numpy/);
  assert.match(error("a = 1\ndef handle(:\n"), /^report\.py:2:\d+: SyntaxError: .*\n2 \| def handle\(:/);
  assert.match(error("x = 1"), /defines no function handle/);
  assert.match(error("from duebox import job\njob.id"), /there is no job while the handler is loaded/);
});

test("jobs of one evaluated program draw their own numbers and see nothing of each other", () => {
  const head = "import random, secrets, uuid, time\nn = 0\nown = random.Random()\nfirst = random.random()";
  const body = "global n\nn += 1\nprint(first, n, random.random(), own.random(), uuid.uuid4(), secrets.token_hex(), time.time())";
  const program = start({ "draw.py": handler(body, head) });
  const [one, two] = [program.run().log[0].split(" "), program.run().log[0].split(" ")];
  assert.deepEqual(one.slice(0, 2), two.slice(0, 2));
  assert.equal(one[1], "1");
  for (const at of [2, 3, 4, 5, 6]) assert.notEqual(one[at], two[at]);
});

test("recursion is an exception that can be caught, and ends the job if it is not", () => {
  const head = "def deep(n): return deep(n + 1) + 1";
  assert.equal(runOnce(handler("try:\n  deep(0)\nexcept RecursionError:\n  return 'drop'", head)).verdict, 2);
  const { verdict, reason } = runOnce(handler("deep(0)", head));
  assert.match(String(verdict), /call stack/);
  assert.match(reason, /^RecursionError: maximum recursion depth exceeded/);
  const native = "class A:\n  def __getattr__(self, name): return getattr(self, name + 'a')";
  const through = runOnce(handler("A().a", native));
  assert.match(`${through.verdict} ${through.reason}`, /call stack|RecursionError/);
});

test("a heap that the memory cannot hold traps", () => {
  const { verdict } = runOnce(handler("all = []\nwhile True: all.append(bytes(1000))"));
  assert.match(String(verdict), /unreachable/);
});

test("a coroutine runs to its end, with and without asyncio", () => {
  assert.equal(runOnce("async def handle(payload): return 'drop'").verdict, 2);
  const slept = "import asyncio, time\nasync def handle(p):\n  t = time.monotonic()\n  await asyncio.gather(asyncio.sleep(0.03), asyncio.sleep(0.03))\n  print(0.029 < time.monotonic() - t < 1)";
  assert.deepEqual(runOnce(slept).log, ["True"]);
  const stuck = "import asyncio\nasync def handle(p):\n  await asyncio.get_running_loop().create_future()";
  assert.match(runOnce(stuck).reason, /awaits what nothing ends/);
});

test("print and logging are lines of the job's log", () => {
  assert.deepEqual(lines("print('a', 1)\nprint('b', end='')\nlogging.getLogger('x').warning('c %s', 2)", "import logging"), ["a 1", "c 2", "b"]);
});

test("the standard library is there", () => {
  const code = `
print(json.loads('[1, 2.5]'), re.sub('a+', 'b', 'caat'), Decimal('1.10') + 1, base64.b64encode(b'ab').decode())
print(hashlib.sha256(b'a').hexdigest()[:8], hmac.new(b'k', b'm', 'sha256').hexdigest()[:8], quote('a b/ü'))
print(datetime(2026, 7, 1, 12, tzinfo=ZoneInfo('Europe/Berlin')).astimezone(timezone.utc).isoformat())
print(datetime.now(timezone.utc).year >= 2026, datetime.now().year >= 2026, time.strftime('%Y', time.gmtime(0)))
@dataclass
class A:
    b: int = 1
print(A(), list(itertools.accumulate([1, 2])), Counter('aab').most_common(1), typing.get_type_hints(A))
print(datetime.fromisoformat('2026-01-02T03:04:05+00:00').timestamp(), datetime.strptime('02.01.2026', '%d.%m.%Y').date())
print(statistics.mean([1, 2]), textwrap.indent('a', '>'), enum.Enum('E', 'X').X.value, copy.deepcopy([1]), math.sqrt(4))
`;
  const head =
    "import json, re, base64, hashlib, hmac, time, itertools, typing, statistics, textwrap, enum, copy, math, csv, io, heapq, bisect, functools, operator, contextlib, string, struct, zlib, collections, fractions, email.utils, html, xml.etree.ElementTree, urllib.parse, pathlib, tempfile, subprocess, threading, queue, concurrent.futures, socket, traceback, inspect, calendar, locale, pprint, unicodedata, difflib, types, abc, weakref, secrets\n" +
    "from decimal import Decimal\nfrom datetime import datetime, timezone\nfrom zoneinfo import ZoneInfo\nfrom dataclasses import dataclass\nfrom collections import Counter\nfrom urllib.parse import quote";
  const { verdict, reason, error, log } = runOnce(handler(code, head));
  assert.deepEqual([verdict, reason, error], [0, undefined, undefined]);
  assert.deepEqual(log, [
    "[1, 2.5] cbt 2.10 YWI=",
    "ca978112 b60090e3 a%20b/%C3%BC",
    "2026-07-01T10:00:00+00:00",
    "True True 1970",
    "handle.<locals>.A(b=1) [1, 3] [('a', 2)] {'b': <class 'int'>}",
    "1767323045.0 2026-01-02",
    "1.5 >a 1 [1] 2.0",
  ]);
});

test("what a system has and a handler lacks says so by name", () => {
  assert.match(runOnce(handler("open('/etc/passwd')")).reason, /a Duebox handler has no files/);
  assert.match(runOnce(handler("os.listdir('/')", "import os")).reason, /os\.listdir does not work in a Duebox handler/);
  assert.match(runOnce(handler("import requests")).reason, /use http of duebox, which looks like requests/);
});

test("requests look like those of the package requests", () => {
  const sent = [];
  const http = (head) => {
    sent.push(head);
    if (head.includes("/old")) return { status: 302, head: "location: /new\n" };
    return { status: 429, head: "retry-after: 7\ncontent-type: text/plain\n", body: '{"a":1}' };
  };
  const body = "r = http.post('http://shop/old', json={'b': 'ü'}, headers={'X-A': '1'})\nprint(r.status, r.json(), r.headers['Content-Type'], r.url)\nreturn r.verdict()";
  const { verdict, retryAfter, log } = runOnce(handler(body, "from duebox import http"), "{}", { http });
  assert.deepEqual([verdict, retryAfter], [1, 7000]);
  assert.deepEqual(log, ["429 {'a': 1} text/plain http://shop/new"]);
  assert.deepEqual(sent, [
    "POST http://shop/old\nx-a: 1\ncontent-type: application/json\n",
    "GET http://shop/new\nx-a: 1\n",
  ]);
});

test("calls of requests with positional arguments mean the same", () => {
  const sent = [];
  const http = (head, _body, timeout) => {
    sent.push([head.split("\n")[0], timeout]);
    return { status: 200 };
  };
  const body = `
http.get('http://shop/a', {'b': 'c d', 'e': [1, 2]})
http.get('http://shop/a?x=1', 'y=2')
http.get('http://shop/a', timeout=(3, 10))
http.get('http://shop/a', timeout=(3, None))
http.post('http://shop/a', {'b': 1}, timeout=2)
for wrong in ((1, 2, 3), -1, (1, -1)):
    try:
        http.get('http://shop/a', timeout=wrong)
    except ValueError:
        pass
`;
  const { verdict, reason } = runOnce(handler(body, "from duebox import http"), "{}", { http });
  assert.equal(verdict, 0, reason);
  assert.deepEqual(sent.map(([line]) => line), [
    "GET http://shop/a?b=c+d&e=1&e=2", "GET http://shop/a?x=1&y=2", "GET http://shop/a", "GET http://shop/a", "POST http://shop/a",
  ]);
  const [first, , both, halves, one] = sent.map(([, timeout]) => timeout);
  assert.deepEqual([first, halves], [0, 0]);
  assert.ok(both > 10_000 && both <= 13_000, `${both}`);
  assert.ok(one > 0 && one <= 2_000, `${one}`);
});

test("a source is parsed without being run", () => {
  const source = "import a.b, c\nfrom . import d\ndef f():\n    try:\n        from ..e import g, h\n    except ImportError:\n        import c\n";
  assert.deepEqual(read(source), ["import 7 a.b", "import 12 c", "from 14 1 - d", "from 56 2 e g,h"]);
  assert.match(read("a = 1\nb = = 2\n")[0], /^error 10 /);
});
