"""Pulls whatever fell due at least three seconds ago, batch after batch, until all of it has come.

Python's standard library alone.
"""

import json
import os
import sys
import time
import urllib.request

DUEBOX = os.environ.get("DUEBOX", "http://127.0.0.1:7280")
CLICKS = f"{DUEBOX}/v1/topics/clicks"
JSON, NDJSON = "application/json", "application/x-ndjson"


def post(url, body=b"", kind=JSON):
    request = urllib.request.Request(url, body, {"content-type": kind})
    with urllib.request.urlopen(request, timeout=90) as answer:
        return answer.read().decode()


# Nine clicks: three that are due at once, three a second later, three after another one.
clicks = [{"id": f"click-{n}", "in": f"{n // 3}s", "payload": {"page": n}} for n in range(9)]
lines = "\n".join(json.dumps(click) for click in clicks).encode()
answers = [json.loads(line) for line in post(f"{CLICKS}/jobs", lines, NDJSON).splitlines()]
print(sum(answer["result"] == "pushed" for answer in answers), "clicks are pushed")

began, come = time.monotonic(), 0
while come < len(clicks):
    pulled = json.loads(post(f"{CLICKS}/leases?max=100&min_age=3s&wait=10s"))["jobs"]
    if not pulled:
        sys.exit("nothing came for ten seconds; has somebody else pulled it?")
    seconds = time.monotonic() - began
    print(f"{seconds:4.1f} s  {len(pulled)} jobs:", ", ".join(job["id"] for job in pulled), flush=True)
    for job in pulled:
        post(f"{CLICKS}/jobs/{job['id']}/ack", json.dumps({"token": job["token"]}).encode())
    come += len(pulled)
