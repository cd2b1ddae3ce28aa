"""A shop that has an order closed by a callback, and answers the first two with 500.

It ends when Duebox says that the job is done. Python's standard library alone.
"""

import http.server
import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request

SHOP = os.environ.get("SHOP", "http://127.0.0.1:8080")
DUEBOX = os.environ.get("DUEBOX", "http://127.0.0.1:7280")
ANSWERS = [500, 500, 200]
JOBS = f"{DUEBOX}/v1/topics/order.close/jobs"


class Callback(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["content-length"])))["order"]
        attempt, of = int(self.headers["duebox-attempt"]), self.headers["duebox-max-attempts"]
        status = ANSWERS[min(attempt, len(ANSWERS)) - 1]
        say(f"attempt {attempt} of {of} to close order {order}: the shop answers {status}")
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def say(line):
    # Each request has a thread: with its end in the same write, a line stays whole.
    print(f"{time.monotonic() - began:5.1f} s  {line}\n", end="", flush=True)


def ask(url, value=None):
    """Posts JSON, or gets it."""
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


shop = http.server.ThreadingHTTPServer(("127.0.0.1", urllib.parse.urlsplit(SHOP).port), Callback)
threading.Thread(target=shop.serve_forever, daemon=True).start()
began = time.monotonic()

job = {"in": "2s", "payload": {"order": 42}, "options": {"max_attempts": 5}}
job_id = ask(JOBS, job)["id"]
say("order 42 is placed; it is to be closed in 2 s, in 5 attempts at most")
while (state := ask(f"{JOBS}/{job_id}")["state"]) not in ("done", "dead"):
    if time.monotonic() - began > 60:
        sys.exit(f"the job is still {state} after a minute; what does the daemon's log say?")
    time.sleep(0.1)
say(f"the job is {state}")
