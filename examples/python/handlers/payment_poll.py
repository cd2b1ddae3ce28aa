"""Follows a payment until the provider has decided.

The schedule is the `backoff` of the topic `payment.poll`: an open payment is a nack without a delay of its own.
"""

import json

from duebox import drop, job, log, nack
from lib.events import Malformed, is_name, read_payment
from lib.shop import Refused, logged, send

OPEN = ("open", "pending", "processing")
FINAL = ("failed", "cancelled", "expired", "refused")

payload = "text"


def handle(text):
    about = ""
    try:
        payment = read_payment(text)
        about = f"payment={payment} "
        return follow(payment, about)
    except (Malformed, Refused) as error:
        verdict = error.verdict
        return logged(verdict, f"{about}reason={json.dumps(verdict.reason, ensure_ascii=False)}")


def follow(payment, about):
    what = f"payment {payment}"
    state = state_of(send("GET", f"/payments/{payment}", what), what)
    fields = f"{about}state={state}"
    if state == "paid":
        return logged("ack", fields)
    if state in FINAL:
        return logged(drop(f"the {what} is {state}"), fields)
    attempt = f"{job.attempt} of {job.max_attempts}"
    if job.is_last_attempt:
        log.warning(f"giving up on the {what}: still open at attempt {attempt}")
    still_open = nack(f"the {what} is still open at attempt {attempt}")
    return logged(still_open, f"{fields} last_attempt={json.dumps(job.is_last_attempt)}")


def state_of(response, what):
    try:
        state = response.json()["state"]
    except (ValueError, LookupError, TypeError):
        state = None
    if not is_name(state):
        raise Refused(nack(f"the shop returned no state of the {what}"))
    if state not in ("paid", *OPEN, *FINAL):
        raise Refused(nack(f'unknown state "{state}" of the {what}'))
    return state
