"""The application: it takes orders, and closes unpaid ones when their time is over.

It pushes a job to the sidecar over loopback, and the sidecar calls back when the job falls due. Python's
standard library suffices. Usage: python3 app.py [PORT [DUEBOX_URL]]
"""

import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
DUEBOX = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:7280"


class Application(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/orders":
            self.place(json.loads(body))
        elif self.path == "/jobs/order.close":
            self.close_order(json.loads(body))
        else:
            self.respond(404)

    def place(self, order):
        job = {"id": str(order["order"]), "in": order.get("close_in", "30m"), "payload": order}
        request = urllib.request.Request(
            f"{DUEBOX}/v1/topics/order.close/jobs",
            data=json.dumps(job).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=5) as response:
            response.read()
        self.respond(202)

    def close_order(self, order):
        attempt = self.headers.get("duebox-attempt")
        # Each request has a thread; a single write keeps the line whole.
        print(f"order {order['order']} is closed in attempt {attempt}\n", end="", flush=True)
        self.respond(204)

    def respond(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


print(f"the application listens on port {PORT}", flush=True)
ThreadingHTTPServer(("", PORT), Application).serve_forever()
