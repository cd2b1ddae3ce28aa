"""The application of examples/sidecar for the check of the images, whose callbacks take as long as a file says.

    python3 application.py APP DELAY_FILE PORT

An order counts as closed before its callback is answered, so a daemon that dies meanwhile has a job in flight.
"""

import http.server
import pathlib
import runpy
import sys
import time

app, delay, port = sys.argv[1:]
answer = http.server.BaseHTTPRequestHandler.send_response


def slowly(request, *arguments):
    if request.path.startswith("/jobs/"):
        time.sleep(float(pathlib.Path(delay).read_text()))
    answer(request, *arguments)


http.server.BaseHTTPRequestHandler.send_response = slowly
sys.argv = [app, port]
runpy.run_path(app)
