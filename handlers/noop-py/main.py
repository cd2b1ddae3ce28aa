"""Acks without looking at the job; `./dev bench` runs it."""

payload = "bytes"


def handle(body):
    pass
