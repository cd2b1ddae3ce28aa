"""The wheel duebox-sdk from its packed form: handlers are tested in plain CPython."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

HANDLER = """
import asyncio
from duebox import http, job, kv, log, nack, push, result, snooze

async def handle(order):
    if "wait" in order:
        return snooze(order["wait"])
    if "odd" in order:
        return 42
    response = http.post(job.config("shop") + f"/orders/{order['id']}/close", json={"by": job.id})
    log.info("answered", response.status)
    if response.status == 409:
        return "drop"
    if not response.ok:
        return nack(f"shop said {response.status}", retry_after=response.retry_after)
    await asyncio.sleep(0)
    push("mail", http.get("http://shop/next").json(), delay=5, headers={"lang": "de"})
    result({"count": kv.add("count"), "first": kv.set("first", "a", only_if="absent")})
"""

TEXT = 'payload = "text"\ndef handle(text): assert text == "{no", text\n'

TESTS = """
import unittest
import close, plain
from duebox_testing import run

class Handlers(unittest.TestCase):
    def test_a_handler_with_its_fakes(self):
        def http(request):
            return 200 if request["method"] == "POST" else (200, '{"sum":7}', {"content-type": "application/json"})

        ran = run(close, {"id": 7}, config={"shop": "http://shop"}, http=http, kv={"count": 41}, job={"id": "j1"})
        self.assertEqual((ran.verdict, ran.reason), ("ack", ""))
        self.assertEqual(ran.result, '{"count":42,"first":true}')
        self.assertEqual(ran.pushed, [("mail", '{"sum":7}', {"delay-ms": "5000", "h.lang": "de"})])
        self.assertEqual(ran.log, [("info", "answered 200")])
        first, second = ran.requests
        self.assertEqual((first["method"], first["url"]), ("POST", "http://shop/orders/7/close"))
        self.assertEqual((first["body"], second["url"]), (b'{"by":"j1"}', "http://shop/next"))
        self.assertEqual(ran.kv, {"count": b"42", "first": b"a"})

    def test_verdicts_errors_and_payloads(self):
        def answered(*answer):
            return run(close, {"id": 1}, config={"shop": "http://shop"}, http=lambda request: answer)

        self.assertEqual(answered(409, "", {}).verdict, "drop")
        busy = answered(503, "", {"Retry-After": "7"})
        self.assertEqual((busy.verdict, busy.reason, busy.retry_after), ("nack", "shop said 503", 7))
        self.assertEqual((run(close, {"wait": 9}).verdict, run(close, {"wait": 9}).snooze), ("snooze", 9))
        self.assertEqual(run(close, {"odd": 1}).verdict, "bad_verdict")
        self.assertIn("config 'shop' is not set", run(close, {"id": 1}).reason)
        self.assertEqual(run(close, {"id": 1}, config={"shop": "http://shop"}).error.code, "denied")
        self.assertEqual(run(plain, "{no").verdict, "ack")
        self.assertEqual(run(plain, "other").reason, "AssertionError: other")

    def test_an_example(self):
        from handlers import payment_poll

        def poll(state, **job):
            fakes = {"config": {"shop": "http://shop"}, "http": lambda request: (200, f'{{"state":"{state}"}}', {}), "job": job}
            return run(payment_poll, {"payment": {"id": "pay_81"}}, **fakes)

        self.assertEqual((poll("paid").verdict, poll("failed").verdict, poll("open").verdict), ("ack", "drop", "nack"))
        last = poll("open", attempt=8, max_attempts=8)
        self.assertTrue(any("giving up" in text for level, text in last.log if level == "warn"), last.log)

unittest.main()
"""


class Package(unittest.TestCase):
    def test_handlers_are_tested_with_the_packed_package(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel = [sys.executable, os.path.join(ROOT, "packaging/pypi/wheel.py"), "--sdk", "0.0.0", folder]
            subprocess.run(wheel, check=True)
            for name, text in (("close.py", HANDLER), ("plain.py", TEXT), ("tests.py", TESTS)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            # A wheel of Python sources is importable as it is.
            paths = [os.path.join(folder, "duebox_sdk-0.0.0-py3-none-any.whl"), os.path.join(ROOT, "examples/python")]
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            ran = subprocess.run([sys.executable, "tests.py"], cwd=folder, env=env, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("Ran 3 tests", ran.stderr)


if __name__ == "__main__":
    unittest.main()
