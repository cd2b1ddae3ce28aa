"""Pulls jobs that have been due for at least three seconds, in batches, until all have arrived.

It needs only Python's standard library.
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
    with urllib.request.urlopen(request, timeout=90) as response:
        return response.read().decode()


# Nine clicks: three that are due at once, three a second later, three another second later.
clicks = [{"id": f"click-{n}", "in": f"{n // 3}s", "payload": {"page": n}} for n in range(9)]
lines = "\n".join(json.dumps(click) for click in clicks).encode()
results = [json.loads(line) for line in post(f"{CLICKS}/jobs", lines, NDJSON).splitlines()]
print(sum(result["result"] == "pushed" for result in results), "clicks are pushed")

started, received = time.monotonic(), 0
while received < len(clicks):
    pulled = json.loads(post(f"{CLICKS}/leases?max=100&min_age=3s&wait=10s"))["jobs"]
    if not pulled:
        sys.exit("no job within ten seconds; did another consumer pull it?")
    seconds = time.monotonic() - started
    print(f"{seconds:4.1f} s  {len(pulled)} jobs:", ", ".join(job["id"] for job in pulled), flush=True)
    for job in pulled:
        post(f"{CLICKS}/jobs/{job['id']}/ack", json.dumps({"token": job["token"]}).encode())
    received += len(pulled)
