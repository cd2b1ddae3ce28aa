"""The shop's API. A response that decides about the job is raised as a verdict."""

from duebox import Error, Verdict, drop, http, job, log, nack


class Refused(Exception):
    """The shop has decided about the job, or could not be asked."""

    def __init__(self, verdict):
        super().__init__(verdict.reason)
        self.verdict = verdict


def logged(verdict, about):
    """Logs the one line `verdict=…` of a job, from which a ledger can be read."""
    log.info(f"verdict={verdict.kind if isinstance(verdict, Verdict) else verdict} {about}")
    return verdict


def send(method, path, what, expected=()):
    """Sends a request with half of the job's time as its timeout, so that a shop that hangs leads to a nack with a reason.

    The host adds an `Idempotency-Key`. Statuses other than 2xx and `expected` are raised.
    """
    shop = job.config("shop", None)
    if shop is None:
        raise Refused(nack('the configuration value "shop" is missing; it is the origin of the API'))
    token = job.secret("token", None)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    timeout = max(0.001, job.time_left / 2)
    try:
        response = http.request(method, shop.rstrip("/") + path, headers=headers, timeout=timeout, allow_redirects=False)
    except Error as error:
        raise Refused(nack(f"the shop: {error}")) from None
    if response.ok or response.status in expected:
        return response
    raise Refused(refusal(response, what))


def refusal(response, what):
    status = response.status
    if status in (404, 410):
        return drop(f"the shop has no {what} ({status})")
    if status in (401, 403):
        return nack(f"the shop refused the token ({status})")
    return response.verdict()
