"""The events in the payloads. Names that pass are safe in a log line and in a path."""

import json
import re

from duebox import drop

NAME = re.compile(r"[\w\-.:/#]{1,64}")


class Malformed(Exception):
    """The event is malformed: the job is dropped with the reason."""

    @property
    def verdict(self):
        return drop(f"malformed event: {self}")


def is_name(value):
    """Whether a value is 1 to 64 letters, digits or -_.:/# and not only dots."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None and value.strip(".") != ""


def read(text):
    try:
        event = json.loads(text)
    except ValueError as error:
        raise Malformed(error) from None
    if not isinstance(event, dict):
        raise Malformed("it is not an object")
    return event


def read_order(text):
    """`{"order":42}` is enough; `shop` is the name of the shop."""
    event = read(text)
    order, shop = event.get("order"), event.get("shop", "")
    if type(order) is int and order >= 0:
        order = str(order)
    if not is_name(order):
        raise Malformed('"order" is not an integer or a name of 1 to 64 characters')
    if shop != "" and not is_name(shop):
        raise Malformed('"shop" is not a name')
    return order, shop


def read_payment(text):
    """The id in `{"payment":{"id":"pay_81"}}`."""
    payment = read(text).get("payment")
    payment_id = payment.get("id") if isinstance(payment, dict) else None
    if not is_name(payment_id) or "/" in payment_id or "#" in payment_id:
        raise Malformed('"payment.id" is missing or not a name')
    return payment_id
