//! The answer to a request: read whole before the handler sees it, because the host keeps no more than
//! the last one. That there is none is a value too: `error` says why.

import { Meta, isUtf8, metaInt, text } from "./abi";
import { unixMsOf } from "./http-date";
import { Json } from "./json";
import { HttpFault } from "./request";
import { Verdict } from "./verdict";

/** The answer to a request, whatever its status. */
export class Response {
  /** Why there is no answer, in the host's words; null if there is one. */
  error: string | null = null;
  /** What kind of error that is. */
  fault: HttpFault = HttpFault.None;

  constructor(
    /** The status, 100 to 599; 0 if there is no answer. */
    readonly status: i32,
    /** Where it came from: where the request went, or its last redirect. */
    readonly url: string,
    private head: Uint8Array,
    /** The body, as it came: the host unpacks nothing. */
    readonly bytes: Uint8Array,
  ) {}

  /** Whether the status is 200 to 299. */
  get isSuccess(): bool {
    return this.status >= 200 && this.status < 300;
  }

  /** All headers, each as a name in lower case and a value. Several of one name are one, joined by ", ",
   *  but for set-cookie. */
  headers(): Array<StaticArray<string>> {
    const headers = new Array<StaticArray<string>>();
    const lines = text(this.head, this.head.length).split("\n");
    for (let i = 0; i < lines.length; i++) {
      const colon = lines[i].indexOf(": ");
      if (colon > 0) headers.push([lines[i].substring(0, colon), lines[i].substring(colon + 2)]);
    }
    return headers;
  }

  /** The values of a header, the name in any case. */
  values(name: string): Array<string> {
    const lower = name.toLowerCase();
    const headers = this.headers();
    const values = new Array<string>();
    for (let i = 0; i < headers.length; i++) {
      if (headers[i][0] == lower) values.push(headers[i][1]);
    }
    return values;
  }

  /** The first header of this name, in any case; null if there is none. */
  header(name: string): string | null {
    const values = this.values(name);
    return values.length > 0 ? values[0] : null;
  }

  /** The body as text; null if it is not UTF-8. */
  text(): string | null {
    return isUtf8(this.bytes) ? text(this.bytes, this.bytes.length) : null;
  }

  /** The body as JSON. Ask for its `error` first. */
  json(): Json {
    return Json.parse(this.bytes);
  }

  /** How many ms the server asks to wait (Retry-After, in seconds or as a date); -1 if it does not say, or
   *  not in a form that is known. */
  get retryAfterMs(): i64 {
    const header = this.header("retry-after");
    if (header === null) return -1;
    const value = header.trim();
    if (isDigits(value)) return 1000 * I64.parseInt(value, 10);
    const date = unixMsOf(value);
    return date < 0 ? -1 : max<i64>(0, date - metaInt(Meta.Now));
  }

  /**
   * What webhooks take an answer for: 200 to 299 is an ack; 408, 429 and 500 to 599 are a nack, with the
   * wait that the server asks for; every other 400 to 499 is a drop, because a repeat of the same request
   * would get the same; anything else, such as a redirect or no answer at all, is a nack.
   */
  verdict(): Verdict {
    const error = this.error;
    if (error !== null) return Verdict.nack(error);
    const status = this.status;
    const reason = "the server answered " + status.toString();
    if (this.isSuccess) return Verdict.ack();
    if (status == 408 || status == 429 || status >= 500) {
      const wait = this.retryAfterMs;
      return wait < 0 ? Verdict.nack(reason) : Verdict.retryAfter(wait, reason);
    }
    return status >= 400 ? Verdict.drop(reason) : Verdict.nack(reason);
  }
}

/** A number of seconds that is worth reading: one to ten digits. */
function isDigits(value: string): bool {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if (c < 0x30 || c > 0x39) return false;
  }
  return value.length > 0 && value.length <= 10;
}
