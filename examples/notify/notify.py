"""Notifies a merchant that fails for a day, and draws when each attempt arrived.

The merchant responds with 500 seven times and then with 200. One hour takes one second, as in duebox.toml; the
output shows the scaled time. It needs only Python's standard library. Usage: python3 notify.py [FILE]
"""

import http.server
import json
import os
import queue
import sys
import threading
import time
import urllib.parse
import urllib.request

from picture import draw, span

MERCHANT = os.environ.get("MERCHANT", "http://127.0.0.1:8080")
DUEBOX = os.environ.get("DUEBOX", "http://127.0.0.1:7280")
FASTER = 3_600
MINUTE, HOUR = 60, 3600
WAITS_S = [0, 2 * MINUTE, 10 * MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR]


class Merchant(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        attempt = int(self.headers["duebox-attempt"])
        status = 200 if attempt == len(WAITS_S) else 500
        attempts.put((attempt, (time.time() - pushed_at) * FASTER, status))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


attempts = queue.Queue()
port = urllib.parse.urlsplit(MERCHANT).port
merchant = http.server.ThreadingHTTPServer(("127.0.0.1", port), Merchant)
threading.Thread(target=merchant.serve_forever, daemon=True).start()

pushed_at = time.time()
job = json.dumps({"payload": {"payment": 7}}).encode()
request = urllib.request.Request(
    f"{DUEBOX}/v1/topics/payment.notify/jobs", job, {"content-type": "application/json"}
)
urllib.request.urlopen(request, timeout=5).close()

print("attempt  planned     came        answer")
planned_s, drawn = 0, []
for wait_s in WAITS_S:
    planned_s += wait_s
    try:
        attempt, came_s, status = attempts.get(timeout=60)
    except queue.Empty:
        sys.exit("no attempt within a minute; see the daemon's log")
    print(f"{attempt:7}  {span(planned_s):10}  {span(came_s):10}  {status}", flush=True)
    drawn.append((planned_s, came_s, status))

picture = sys.argv[1] if len(sys.argv) > 1 else "attempts.svg"
with open(picture, "w", encoding="utf-8") as file:
    file.write(draw(drawn))
print("drawn in", picture)
