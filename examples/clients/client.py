"""A Duebox client in Python without dependencies."""

import json
import os
import urllib.error
import urllib.request

DUEBOX = os.environ.get("DUEBOX", "http://127.0.0.1:7280")
TOKEN = os.environ.get("DUEBOX_TOKEN")


def post(path, value=None):
    """Posts JSON; returns the status and the decoded response, also of an error."""
    headers = {"content-type": "application/json"}
    if TOKEN:
        headers["authorization"] = f"Bearer {TOKEN}"
    body = b"" if value is None else json.dumps(value).encode()
    request = urllib.request.Request(DUEBOX + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=70) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


# Push, pull and settle.
status, pushed = post("/v1/topics/mail/jobs", {"id": "python", "payload": {"to": "ann"}})
print(status, pushed["result"])
_, pulled = post("/v1/topics/mail/leases?wait=10s")
job = pulled["jobs"][0]
print(job["id"], job["payload"])
status, _ = post(f"/v1/topics/mail/jobs/{job['id']}/ack", {"token": job["token"]})
print(status)
status, problem = post(f"/v1/topics/mail/jobs/{job['id']}/ack", {"token": job["token"]})
print(status, problem["type"])

# The same with commands.
_, added = post("/", {"command": "add", "topic": "order", "id": "python", "TTR": 30, "body": {"order": 42}})
print(added["success"])
_, popped = post("/", {"command": "pop", "topic": "order", "wait": 10})
print(popped["id"], json.dumps(popped["value"]))
_, finished = post("/", {"command": "finish", "id": popped["id"], "token": popped["token"]})
print(finished["success"])
_, deleted = post("/", {"command": "delete", "id": popped["id"]})
print(deleted["success"], deleted["error"])
