"""Acks a job after it has read one field of it; `./dev bench sandbox` runs it."""


def handle(order):
    return "ack" if order["id"] == 42 else "drop"
