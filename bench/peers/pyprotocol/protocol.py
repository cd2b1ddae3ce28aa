"""What the peers written in Python share: the arguments, the records of handled jobs, and the replies (see ../README.md)."""

import json
import os
import sys
import threading
import time

PAYLOAD_LEN = 200
# From the first push to the first due time, in ms.
LEAD_MS = 3000
# Pushes at once in push-flight.
IN_FLIGHT = 32
BATCH = 1000
STALL_MAX = 35


def now_us():
    return time.time_ns() // 1000


def now_ms():
    return time.time_ns() // 1_000_000


def reply(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def payload(number, due_ms):
    head = json.dumps({"n": number, "due_us": due_ms * 1000, "pad": ""}, separators=(",", ":"))
    return {"n": number, "due_us": due_ms * 1000, "pad": "x" * (PAYLOAD_LEN - len(head))}


def unsupported(why):
    reply({"unsupported": why})
    os._exit(0)


class Task:
    """The task on the command line, and the jobs that were handled."""

    def __init__(self):
        self.name, settings, address, jobs, spread = sys.argv[1:]
        self.tuned = settings == "tuned"
        host, _, port = address.partition(":")
        self.host, self.port = host, int(port)
        self.jobs, self.spread_ms = int(jobs), int(spread)
        self.runs = bytearray(self.jobs)
        self.late_us = [0] * self.jobs
        self.handled = self.twice = self.last = 0
        self.warm = threading.Event()
        self.lock = threading.Lock()

    def ready(self):
        """Reports readiness and waits for the signal to start."""
        reply({"ready": True})
        if not sys.stdin.readline():
            os._exit(0)

    def handle(self, job):
        now = now_us()
        number = job["n"]
        if number < 0:
            self.warm.set()
            return
        with self.lock:
            if self.runs[number]:
                self.twice += 1
                return
            self.runs[number] = 1
            self.late_us[number] = now - job["due_us"]
            self.last = now
            self.handled += 1

    def due_ms(self, begin_ms, number):
        return begin_ms + number * self.spread_ms // self.jobs

    def finish(self, from_us, with_lateness):
        """Waits until all jobs are handled, or none for a long time, and replies."""
        seen, moved = -1, time.monotonic()
        while self.handled < self.jobs and time.monotonic() - moved < STALL_MAX:
            if self.handled != seen:
                seen, moved = self.handled, time.monotonic()
            time.sleep(0.002)
        found = {"handled": self.handled, "twice": self.twice, "seconds": (self.last - from_us) / 1e6}
        if with_lateness:
            found["late_us"] = [late for run, late in zip(self.runs, self.late_us) if run]
        reply(found)
        self.wait_for_end()

    def wait_for_end(self):
        """The bench measures the process until stdin closes."""
        while sys.stdin.readline():
            pass
        os._exit(0)
