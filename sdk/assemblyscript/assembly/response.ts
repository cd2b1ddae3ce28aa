//! The response to a request. It is read whole before the handler sees it, because the host keeps
//! only the last one. A missing response is a value too: `error` has the reason.

import { Meta, isUtf8, metaInt, text } from "./abi";
import { unixMsOf } from "./http-date";
import { Json } from "./json";
import { HttpFault } from "./request";
import { Verdict } from "./verdict";

/** The response to a request, whatever its status. */
export class Response {
  /** Why there is no response, as the host's message; null if there is one. */
  error: string | null = null;
  /** The kind of that error. */
  fault: HttpFault = HttpFault.None;

  constructor(
    /** The status, 100 to 599; 0 if there is no response. */
    readonly status: i32,
    /** The URL of the response: that of the request, or of its last redirect. */
    readonly url: string,
    private head: Uint8Array,
    /** The body as received: the host does not decompress it. */
    readonly bytes: Uint8Array,
  ) {}

  /** Whether the status is 200 to 299. */
  get isSuccess(): bool {
    return this.status >= 200 && this.status < 300;
  }

  /**
   * All headers, each as a name in lower case and a value. Several headers of one name are joined
   * by ", ", except for set-cookie.
   */
  headers(): Array<StaticArray<string>> {
    const headers = new Array<StaticArray<string>>();
    const lines = text(this.head, this.head.length).split("\n");
    for (let i = 0; i < lines.length; i++) {
      const colon = lines[i].indexOf(": ");
      if (colon > 0) headers.push([lines[i].substring(0, colon), lines[i].substring(colon + 2)]);
    }
    return headers;
  }

  /** The values of a header; the name is case-insensitive. */
  values(name: string): Array<string> {
    const lower = name.toLowerCase();
    const headers = this.headers();
    const values = new Array<string>();
    for (let i = 0; i < headers.length; i++) {
      if (headers[i][0] == lower) values.push(headers[i][1]);
    }
    return values;
  }

  /** The first header of this name, which is case-insensitive; null if it does not exist. */
  header(name: string): string | null {
    const values = this.values(name);
    return values.length > 0 ? values[0] : null;
  }

  /** The body as text; null if it is not UTF-8. */
  text(): string | null {
    return isUtf8(this.bytes) ? text(this.bytes, this.bytes.length) : null;
  }

  /** The body as JSON. Check its `error` first. */
  json(): Json {
    return Json.parse(this.bytes);
  }

  /**
   * How many ms the server asks to wait (Retry-After, in seconds or as a date); -1 if the header is
   * missing or malformed.
   */
  get retryAfterMs(): i64 {
    const header = this.header("retry-after");
    if (header === null) return -1;
    const value = header.trim();
    if (isDigits(value)) return 1000 * I64.parseInt(value, 10);
    const date = unixMsOf(value);
    return date < 0 ? -1 : max<i64>(0, date - metaInt(Meta.Now));
  }

  /**
   * The verdict that webhooks conventionally derive from a response. 200 to 299 is an ack. 408, 429
   * and 500 to 599 are a nack with the delay that the server asks for. Every other 400 to 499 is a
   * drop, because a repeat would get the same response. Anything else, such as a redirect or no
   * response, is a nack.
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

/** Whether the value is a plausible number of seconds: one to ten digits. */
function isDigits(value: string): bool {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if (c < 0x30 || c > 0x39) return false;
  }
  return value.length > 0 && value.length <= 10;
}
