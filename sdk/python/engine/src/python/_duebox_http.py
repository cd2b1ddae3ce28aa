"""Requests with the look of the package `requests`.

A request is sent to origins that the topic grants. Redirects are followed here: the host follows none.
"""

import json as _json
import re as _re
import time as _time
from urllib.parse import quote as _quote
from urllib.parse import urlencode as _urlencode
from urllib.parse import urljoin as _urljoin
from urllib.parse import urlsplit as _urlsplit

import _duebox as _host
import duebox as _sdk

_REDIRECTS = (301, 302, 303, 307, 308)
_REDIRECTS_MAX = 5
_TOKEN = _re.compile(r"[a-zA-Z0-9!#$%&'*+.^_`|~-]+")
_URL_LETTERS = "!#$%&'()*+,/:;=?@[]~"


class Headers:
    """Headers by name, in any case."""

    def __init__(self, pairs=()):
        self._pairs = []
        for name, value in pairs:
            self.add(name, value)

    def add(self, name, value):
        name, value = str(name).lower(), str(value).strip()
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"invalid header name {name!r}")
        if any(letter in value for letter in "\0\r\n"):
            raise ValueError(f"the header {name} has a line break")
        self._pairs.append((name, value))

    def discard(self, name):
        self._pairs = [pair for pair in self._pairs if pair[0] != name]

    def get_all(self, name):
        return [value for of, value in self._pairs if of == str(name).lower()]

    def get(self, name, default=None):
        values = self.get_all(name)
        return ", ".join(values) if values else default

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name):
        return bool(self.get_all(name))

    def __iter__(self):
        return iter(dict(self._pairs))

    def __len__(self):
        return len(dict(self._pairs))

    def keys(self):
        return dict(self._pairs).keys()

    def items(self):
        return [(name, self.get(name)) for name in self]

    def __repr__(self):
        return repr(dict(self.items()))


class HTTPError(_sdk.Error):
    """What `raise_for_status` raises."""

    def __init__(self, response):
        super().__init__("status", f"{response.status} for {response.url}")
        self.response = response


class Response:
    """The response of a server."""

    def __init__(self, status, headers, content, url):
        self.status = self.status_code = status
        self.headers = headers
        self.content = content
        self.url = url

    @property
    def ok(self):
        """Whether it is 2xx. In `requests` 3xx counts too, but there a redirect is rarely seen."""
        return 200 <= self.status < 300

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def json(self):
        return _json.loads(self.content)

    def raise_for_status(self):
        if self.status >= 400:
            raise HTTPError(self)

    @property
    def retry_after(self):
        """The seconds that the server asks to wait; None if it asks for nothing."""
        value = self.headers.get("retry-after")
        if value is None:
            return None
        if value.isdecimal():
            return int(value)
        from email.utils import parsedate_to_datetime

        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - _time.time())
        except ValueError:
            return None

    def verdict(self):
        """The verdict that webhooks derive from a response.

        2xx is an ack; 408, 429 and 5xx are a nack with the wait that the server asks for; another 4xx is a drop,
        because a repeat would get the same response; the rest is a nack.
        """
        reason = f"the server answered {self.status}"
        if self.ok:
            return _sdk.ack()
        if self.status in (408, 429) or self.status >= 500:
            return _sdk.nack(reason, retry_after=self.retry_after)
        return _sdk.drop(reason) if self.status >= 400 else _sdk.nack(reason)

    def __repr__(self):
        return f"<Response [{self.status}]>"


def _send(method, url, headers, body, timeout_ms):
    """Sends one request, without following a redirect."""
    head = f"{method} {url}\n" + "".join(f"{name}: {value}\n" for name, value in headers.items())
    status = _sdk._call(_host.send, head.encode("utf-8", "replace"), body, timeout_ms)
    if status < 0:
        reason = _host.response(2).decode("utf-8", "replace")
        raise _sdk.Error(_sdk._CODES.get(status, "unknown"), f"{method} {url}: {reason}")
    return Response(status, Headers(_sdk._pairs(_host.response(0))), _host.response(1), url)


def _redirect(response, url):
    """The URL of a redirect; None if it is none that is followed."""
    location = response.headers.get("location")
    if response.status not in _REDIRECTS or location is None:
        return None
    if any(letter <= " " or letter in "\\\x7f" for letter in location):
        return None
    try:
        given = _urlsplit(location)
        target = _urlsplit(_clean(_urljoin(url, location)))
        # The port is checked when it is read.
        is_valid = target.scheme in ("http", "https") and target.hostname and target.port != 0
        is_valid = is_valid and "@" not in target.netloc and (given.netloc or not given.scheme)
        return target.geturl() if is_valid else None
    except ValueError:
        return None


def _clean(url):
    """The URL without its fragment, with what no request line can carry as %XX."""
    return _quote(str(url).partition("#")[0], safe=_URL_LETTERS)


def _origin(url):
    parts = _urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _content(data, json, headers):
    if data is None and json is None:
        return b""
    kind, body = "application/json", None
    if data is None:
        body = _sdk._to_json(json)
    elif isinstance(data, (str, bytes, bytearray, memoryview)):
        return _sdk._body(data)
    else:
        kind, body = "application/x-www-form-urlencoded", _urlencode(data, doseq=True).encode()
    if "content-type" not in headers:
        headers.add("content-type", kind)
    return body


def _timeout_ms(timeout):
    """The milliseconds for a request with its redirects; None without a limit.

    `requests` takes a pair, to connect and to read. Here one limit holds for both, their sum.
    """
    if isinstance(timeout, tuple):
        if len(timeout) != 2:
            raise ValueError(f"timeout takes seconds, or a pair to connect and to read, not {timeout!r}")
        if None in timeout:
            return None
        return sum(_sdk._milliseconds("timeout", part) for part in timeout)
    return None if timeout is None else _sdk._milliseconds("timeout", timeout)


def request(
    method, url, *, params=None, data=None, json=None, headers=None, auth=None, timeout=None, allow_redirects=True,
    max_redirects=None,
):
    method = str(method).upper()
    if not _TOKEN.fullmatch(method):
        raise ValueError(f"invalid method {method!r}")
    url = _clean(url)
    if params:
        query = params if isinstance(params, str) else _urlencode(params, doseq=True)
        url = f"{url}{'&' if '?' in url else '?'}{query}"
    sent = Headers((headers or {}).items())
    if auth is not None:
        from base64 import b64encode

        sent.add("authorization", "Basic " + b64encode(":".join(auth).encode()).decode())
    body = _content(data, json, sent)
    wait = _timeout_ms(timeout)
    ends = None if wait is None else _time.monotonic() + wait / 1000
    hops = 0
    while True:
        left = 0 if ends is None else max(1, int((ends - _time.monotonic()) * 1000))
        response = _send(method, url, sent, body, min(left, 0xFFFF_FFFF))
        target = _redirect(response, url)
        if target is None or not allow_redirects or hops == max_redirects:
            return response
        if hops == _REDIRECTS_MAX:
            raise ValueError(f"{method} {url}: more than {_REDIRECTS_MAX} redirects")
        hops += 1
        if _origin(target) != _origin(url):
            sent.discard("authorization")
            sent.discard("cookie")
        if response.status == 303 and method != "HEAD" or response.status < 303 and method == "POST":
            method, body = "GET", b""
            sent.discard("content-type")
        url = target


def _sender(method):
    def send(self, url, **options):
        return request(method, url, **options)

    return send


def _get(self, url, params=None, **options):
    return request("GET", url, params=params, **options)


def _sender_with_body(method):
    def send(self, url, data=None, json=None, **options):
        return request(method, url, data=data, json=json, **options)

    return send


class _Http:
    """Requests to the origins that the topic grants. They wait one after the other."""

    __slots__ = ()

    Headers, HTTPError, Response = Headers, HTTPError, Response

    get, head, delete, options = _get, _sender("HEAD"), _sender("DELETE"), _sender("OPTIONS")
    post, put, patch = _sender_with_body("POST"), _sender_with_body("PUT"), _sender_with_body("PATCH")

    def request(self, method, url, **options):
        return request(method, url, **options)


http = _Http()
