"""A counter where people have appointments: it reminds them, and looks afterwards who did not come.

Each appointment has two jobs under the guest's name, ticket.remind and ticket.no-show. A minute takes a tenth of
a second here. Python's standard library alone.
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
        fallen_due.put((self.headers["duebox-topic"], guest))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def ask(method, path, value=None):
    data = None if value is None else json.dumps(value).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{DUEBOX}/v1/topics/{path}", data, headers, method=method)
    urllib.request.urlopen(request, timeout=5).close()


def due(minute):
    """When a minute of the day is, in unix milliseconds, as a text."""
    return str(round((opened + minute * MINUTE) * 1000))


def book(guest, minute):
    for topic, after in (("ticket.remind", REMIND), ("ticket.no-show", NO_SHOW)):
        ask("POST", f"{topic}/jobs", {"id": guest, "at": due(minute + after), "payload": {"guest": guest}})
    say(f"{guest} has an appointment at minute {minute}")


def move(guest, minute):
    for topic, after in (("ticket.remind", REMIND), ("ticket.no-show", NO_SHOW)):
        ask("POST", f"{topic}/jobs/{guest}/reschedule", {"at": due(minute + after)})
    say(f"{guest} comes at minute {minute} instead")


def cancel(guest):
    for topic in ("ticket.remind", "ticket.no-show"):
        ask("DELETE", f"{topic}/jobs/{guest}")
    say(f"{guest} does not want the appointment any more")


def say(line):
    # Each request has a thread: with its end in the same write, a line stays whole.
    print(f"minute {(time.time() - opened) / MINUTE:4.1f}  {line}\n", end="", flush=True)


fallen_due = queue.Queue()
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
came = {"ann", "bob"}
for _ in range(6):
    try:
        topic, guest = fallen_due.get(timeout=30)
    except queue.Empty:
        sys.exit("nothing fell due for half a minute; what does the daemon's log say?")
    if topic == "ticket.remind":
        say(f"a message to {guest}: your turn is in {-REMIND} minutes")
    elif guest in came:
        say(f"{guest} was here: all is well")
    else:
        say(f"{guest} did not come: the ticket goes to the next")
