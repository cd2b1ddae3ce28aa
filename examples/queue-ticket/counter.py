"""A counter with appointments: it reminds the guests, and checks afterwards whether they arrived.

Each appointment has two jobs under the guest's name, ticket.remind and ticket.no-show. A minute takes a tenth of
a second here. It needs only Python's standard library.
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

COUNTER = os.environ.get("COUNTER", "http://127.0.0.1:8080")
DUEBOX = os.environ.get("DUEBOX", "http://127.0.0.1:7280")
MINUTE = 0.1
REMIND, NO_SHOW = -10, 5  # minutes from the appointment


class Tickets(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        guest = json.loads(self.rfile.read(int(self.headers["content-length"])))["guest"]
        due_jobs.put((self.headers["duebox-topic"], guest))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def call(method, path, value=None):
    data = None if value is None else json.dumps(value).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{DUEBOX}/v1/topics/{path}", data, headers, method=method)
    urllib.request.urlopen(request, timeout=5).close()


def due(minute):
    """The time of a minute of the day, in unix milliseconds, as text."""
    return str(round((opened + minute * MINUTE) * 1000))


def book(guest, minute):
    for topic, after in (("ticket.remind", REMIND), ("ticket.no-show", NO_SHOW)):
        call("POST", f"{topic}/jobs", {"id": guest, "at": due(minute + after), "payload": {"guest": guest}})
    log(f"{guest} has an appointment at minute {minute}")


def move(guest, minute):
    for topic, after in (("ticket.remind", REMIND), ("ticket.no-show", NO_SHOW)):
        call("POST", f"{topic}/jobs/{guest}/reschedule", {"at": due(minute + after)})
    log(f"{guest} comes at minute {minute} instead")


def cancel(guest):
    for topic in ("ticket.remind", "ticket.no-show"):
        call("DELETE", f"{topic}/jobs/{guest}")
    log(f"{guest} does not want the appointment any more")


def log(line):
    # Each request has a thread; a single write keeps the line whole.
    print(f"minute {(time.time() - opened) / MINUTE:4.1f}  {line}\n", end="", flush=True)


due_jobs = queue.Queue()
port = urllib.parse.urlsplit(COUNTER).port
counter = http.server.ThreadingHTTPServer(("127.0.0.1", port), Tickets)
threading.Thread(target=counter.serve_forever, daemon=True).start()

opened = time.time()
book("ann", 32)
book("bob", 34)
book("cleo", 37)
book("dan", 30)
move("bob", 42)
cancel("cleo")
arrived = {"ann", "bob"}
for _ in range(6):
    try:
        topic, guest = due_jobs.get(timeout=30)
    except queue.Empty:
        sys.exit("no job was due within 30 seconds; see the daemon's log")
    if topic == "ticket.remind":
        log(f"a message to {guest}: your turn is in {-REMIND} minutes")
    elif guest in arrived:
        log(f"{guest} was here: all is well")
    else:
        log(f"{guest} did not come: the ticket goes to the next")
