"""Closes an order that was not paid in time.

The shop pushes the job to topic `order.close` with the customer's time to pay, such as 30 minutes, as its delay. An
unpaid order is closed; a paid one stays as it is; a payment in processing is asked for again later.
"""

import json
from urllib.parse import quote

from duebox import job, nack
from lib.events import Malformed, read_order
from lib.shop import Refused, logged, send

KNOWN = ("unpaid", "failed", "cancelled", "expired", "paid", "refunded", "processing")
PROCESSING_WAIT_S = 120
"""The default delay for a payment in processing."""

payload = "text"


def handle(text):
    try:
        order, shop = read_order(text)
        return close(order, f"order={order} shop={json.dumps(shop, ensure_ascii=False)}")
    except (Malformed, Refused) as error:
        verdict = error.verdict
        return logged(verdict, f"reason={json.dumps(verdict.reason, ensure_ascii=False)}")


def close(order, about):
    path, what = f"/orders/{quote(order, safe='')}", f"order {order}"
    payment = payment_of(send("GET", path, what), what)
    if payment in ("paid", "refunded"):
        return logged("ack", f"{about} closed=false paid=true")
    if payment == "processing":
        wait = processing_wait()
        later = nack(f"the payment of {what} is still processing", retry_after=wait)
        last = json.dumps(job.is_last_attempt)
        return logged(later, f"{about} payment=processing wait_s={wait:g} last_attempt={last}")
    # The order may have been paid since the first request.
    closed = send("POST", f"{path}/close", what, expected=(409,))
    return logged("ack", f"{about} closed=true" if closed.ok else f"{about} closed=false paid=true")


def payment_of(response, what):
    try:
        payment = response.json()["payment"]
    except (ValueError, LookupError, TypeError):
        payment = None
    if payment not in KNOWN:
        raise Refused(nack(f"the shop returned no payment of {what}"))
    return payment


def processing_wait():
    try:
        wait = float(job.config("processing_wait_s", PROCESSING_WAIT_S))
    except ValueError:
        wait = -1
    if not 0 <= wait <= 31_536_000:
        raise Refused(nack('the configuration value "processing_wait_s" must be seconds'))
    return wait
