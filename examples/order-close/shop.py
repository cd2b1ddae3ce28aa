"""A shop that closes an order in a callback, and responds to the first two with 500.

It exits when the job is done. It needs only Python's standard library.
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
STATUSES = [500, 500, 200]
JOBS = f"{DUEBOX}/v1/topics/order.close/jobs"


class Callback(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["content-length"])))["order"]
        attempt, of = int(self.headers["duebox-attempt"]), self.headers["duebox-max-attempts"]
        status = STATUSES[min(attempt, len(STATUSES)) - 1]
        log(f"attempt {attempt} of {of} to close order {order}: the shop results {status}")
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def log(line):
    # Each request has a thread; a single write keeps the line whole.
    print(f"{time.monotonic() - started:5.1f} s  {line}\n", end="", flush=True)


def call(url, value=None):
    """Posts JSON, or gets it if there is no value."""
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)


shop = http.server.ThreadingHTTPServer(("127.0.0.1", urllib.parse.urlsplit(SHOP).port), Callback)
threading.Thread(target=shop.serve_forever, daemon=True).start()
started = time.monotonic()

job = {"in": "2s", "payload": {"order": 42}, "options": {"max_attempts": 5}}
job_id = call(JOBS, job)["id"]
log("order 42 is placed; it is to be closed in 2 s, in 5 attempts at most")
while (state := call(f"{JOBS}/{job_id}")["state"]) not in ("done", "dead"):
    if time.monotonic() - started > 60:
        sys.exit(f"the job is still {state} after a minute; see the daemon's log")
    time.sleep(0.1)
log(f"the job is {state}")
