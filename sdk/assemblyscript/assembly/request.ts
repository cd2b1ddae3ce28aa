//! An HTTP request to a host that the topic grants (`sandbox.http`), built step by step and sent
//! once.
//!
//! Invariant: a request that cannot be sent exactly as built is refused with the reason. All hops
//! of a request share its timeout.

import { Code, Meta, Part, httpRead, httpSend, metaInt, text } from "./abi";
import { hasControl, isName } from "./block";
import { Json } from "./json";
import { origin, target } from "./redirect";
import { Response } from "./response";

/** Why a request has no response. */
export enum HttpFault {
  /** It has a response. */
  None,
  /** The topic does not grant this host, or its address is private and not granted. */
  Denied,
  /** The method, the URL or a header is invalid. */
  Invalid,
  /** The response is larger than the topic allows, or the request is too large. */
  TooLarge,
  /** The request's timeout passed before the response was complete. */
  Timeout,
  /**
   * The host name is unknown, the host refuses connections, its certificate is invalid, or it
   * closed the connection.
   */
  Unavailable,
}

/**
 * An HTTP request. The host adds headers to it: `Idempotency-Key: TOPIC/ID`, which is the same in
 * every attempt of the job, `Duebox-Attempt`, `traceparent` and `User-Agent`. A handler may set its
 * own, except for `Duebox-Attempt`. A job that writes more than once to one server should give each
 * write its own key.
 */
export class Request {
  private names: Array<string> = new Array<string>();
  private values: Array<string> = new Array<string>();
  private content: Uint8Array = new Uint8Array(0);
  private timeoutMs: i64 = 0;
  private redirects: i32 = 0;

  /**
   * Creates a request without headers and body. The URL is an absolute http or https URL without
   * user information.
   */
  constructor(
    private method: string,
    private url: string,
  ) {}

  /**
   * Sets a header and replaces one of the same name. The name has letters, digits and . _ - in any
   * case; the value has no control characters.
   */
  header(name: string, value: string): this {
    const lower = name.toLowerCase();
    const at = this.names.indexOf(lower);
    if (at >= 0) {
      this.values[at] = value;
    } else {
      this.names.push(lower);
      this.values.push(value);
    }
    return this;
  }

  /** Sets the body. */
  body(bytes: Uint8Array): this {
    this.content = bytes;
    return this;
  }

  /** Sets the body to a text as UTF-8. */
  text(text: string): this {
    return this.body(Uint8Array.wrap(String.UTF8.encode(text)));
  }

  /** Sets the body to a JSON text and sets content-type. */
  json(text: string): this {
    return this.header("content-type", "application/json").text(text);
  }

  /** Sets the body to a value as JSON and sets content-type. */
  jsonValue(value: Json): this {
    return this.json(value.toString());
  }

  /**
   * Sets how many ms the whole exchange may take, redirects included. 0, the default, means the
   * job's remaining time, which is also the maximum.
   */
  timeout(ms: i64): this {
    this.timeoutMs = ms;
    return this;
  }

  /**
   * Sets how many redirects are followed; the default is none. Each hop must be granted like the
   * first. A 303, and a 301 or 302 in response to a POST, is followed by a GET without body.
   * `authorization` and `cookie` are not sent to another origin; other headers are. A redirect that
   * is not followed, or one too many, is the response.
   */
  follow(redirects: i32): this {
    this.redirects = redirects;
    return this;
  }

  /**
   * Sends the request and waits for the whole response, whatever its status. Check its `error`
   * first.
   */
  send(): Response {
    const started = this.redirects > 0 ? metaInt(Meta.Now) : 0;
    let response = this.exchange(this.timeoutMs);
    for (let hop = 0; hop < this.redirects && response.error === null; hop++) {
      if (!this.redirect(response)) break;
      let left = this.timeoutMs;
      if (left > 0) {
        left -= max<i64>(0, metaInt(Meta.Now) - started);
        if (left <= 0) return this.refused(HttpFault.Timeout, "no time was left to follow a redirect");
      }
      response = this.exchange(left);
    }
    return response;
  }

  /** Sends one hop; with a timeout of 0 it may take the job's remaining time. */
  private exchange(timeoutMs: i64): Response {
    const head = this.head();
    if (head === null) return this.refused(HttpFault.Invalid, this.mistake());
    const answer = httpSend(head, this.content, i32(min<i64>(timeoutMs, i32.MAX_VALUE)));
    if (answer >= 100) return new Response(answer, this.url, httpRead(Part.Head), httpRead(Part.Body));
    const why = httpRead(Part.Error);
    return this.refused(faultOf(answer), text(why, why.length));
  }

  /** Method, URL and headers as a block for the host; null if one of them is invalid. */
  private head(): string | null {
    if (this.mistake().length > 0) return null;
    let head = this.method + " " + this.url + "\n";
    for (let i = 0; i < this.names.length; i++) {
      head += this.names[i] + ": " + this.values[i] + "\n";
    }
    return head;
  }

  /** Why the request is invalid; empty if it is valid. */
  private mistake(): string {
    if (this.method.length == 0 || !isVisible(this.method)) return 'invalid method "' + this.method + '"';
    if (hasControl(this.url) || this.url.includes(" ")) return "the URL has a space or a control character";
    if (this.timeoutMs < 0) return "the timeout of a request is negative";
    for (let i = 0; i < this.names.length; i++) {
      if (!isName(this.names[i]) || hasControl(this.values[i])) {
        return 'the header "' + this.names[i] + '" has an invalid name or value';
      }
    }
    return "";
  }

  /**
   * Turns this into the request that a redirect leads to (RFC 9110, 15.4); false if there is none.
   */
  private redirect(response: Response): bool {
    const status = response.status;
    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308) return false;
    const location = response.header("location");
    if (location === null) return false;
    const url = target(this.url, location);
    if (url === null) return false;
    if (status == 303 ? this.method != "HEAD" : status < 303 && this.method == "POST") {
      this.method = "GET";
      this.content = new Uint8Array(0);
      for (let i = this.names.length - 1; i >= 0; i--) {
        if (this.names[i].startsWith("content-")) this.without(i);
      }
    }
    if (origin(this.url).toLowerCase() != origin(url).toLowerCase()) {
      this.without(this.names.indexOf("authorization"));
      this.without(this.names.indexOf("cookie"));
    }
    this.url = url;
    return true;
  }

  private without(at: i32): void {
    if (at < 0) return;
    this.names.splice(at, 1);
    this.values.splice(at, 1);
  }

  private refused(fault: HttpFault, why: string): Response {
    const response = new Response(0, this.url, new Uint8Array(0), new Uint8Array(0));
    response.fault = fault;
    response.error = why;
    return response;
  }
}

function faultOf(answer: i32): HttpFault {
  switch (answer) {
    case Code.Denied:
      return HttpFault.Denied;
    case Code.Invalid:
      return HttpFault.Invalid;
    case Code.TooLarge:
      return HttpFault.TooLarge;
    case Code.Timeout:
      return HttpFault.Timeout;
    default:
      return HttpFault.Unavailable;
  }
}

function isVisible(text: string): bool {
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c <= 0x20 || c > 0x7e) return false;
  }
  return true;
}
