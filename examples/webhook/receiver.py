"""Receives jobs over HTTP: checks the signature, does the work, responds with its result."""
import base64, hashlib, hmac, http.server, sys, time

KEY = base64.b64decode(open("signing.key").read().strip().removeprefix("whsec_"))


class Jobs(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        job, sent = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        digest = hmac.new(KEY, f"{job}.{sent}.".encode() + body, hashlib.sha256).digest()
        signature = "v1," + base64.b64encode(digest).decode()
        signed = hmac.compare_digest(signature, self.headers["webhook-signature"] or "")
        fresh = abs(time.time() - int(sent)) < 300
        status = self.work(job, body) if signed and fresh else 401
        self.send_response(status)
        self.end_headers()

    def work(self, job, body):
        # Each request has a thread; a single write keeps the line whole.
        attempt = self.headers["duebox-attempt"]
        print(f"job {job} attempt {attempt} {body.decode()}\n", end="", flush=True)
        return 503 if body == b"later" else 422 if body == b"nonsense" else 204


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Jobs).serve_forever()
