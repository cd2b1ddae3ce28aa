"""Posts its payload to a server and settles by the response; `./dev bench` runs it."""

from duebox import http, job

payload = "text"


def handle(body):
    return http.post(job.config("url"), body).verdict()
