// AbortController and AbortSignal. A request of a handler waits for its response, so a signal that is aborted before a
// request refuses it, and `AbortSignal.timeout` limits it; nothing else can run meanwhile that would abort it.

/** An Error with the name of a DOMException. */
function namedError(name, message) {
  const error = new Error(message);
  error.name = name;
  return error;
}

class AbortSignal {
  #reason;
  #isAborted = false;
  #listeners = [];
  #due;
  onabort = null;
  constructor(token) {
    if (token !== namedError) throw new TypeError("a signal is made by an AbortController");
  }
  static abort(reason) {
    const signal = new AbortSignal(namedError);
    abortSignal(signal, reason);
    return signal;
  }
  static timeout(wait) {
    const signal = new AbortSignal(namedError);
    const delay = milliseconds("AbortSignal.timeout", wait) ?? 0;
    signal.#due = Date.now() + delay;
    // It is also due while no timer can run.
    startTimer(() => abortSignal(signal, timedOut()), delay, [], false);
    return signal;
  }
  static any(signals) {
    const all = [...signals];
    const signal = new AbortSignal(namedError);
    const aborted = all.find((other) => other.aborted);
    if (aborted !== undefined) abortSignal(signal, aborted.reason);
    for (const other of all) {
      if (other.#due !== undefined) signal.#due = Math.min(signal.#due ?? Infinity, other.#due);
      other.addEventListener("abort", () => abortSignal(signal, other.reason));
    }
    return signal;
  }
  static dueOf(signal) { return signal.#due; }
  static abortNow(signal, reason = namedError("AbortError", "the operation was aborted")) {
    if (signal.#isAborted) return;
    signal.#isAborted = true;
    signal.#reason = reason;
    const event = { type: "abort", target: signal };
    signal.onabort?.call(signal, event);
    for (const { listener } of signal.#listeners.splice(0)) {
      if (typeof listener === "function") listener.call(signal, event);
      else listener.handleEvent(event);
    }
  }
  get aborted() {
    if (!this.#isAborted && this.#due !== undefined && Date.now() >= this.#due) abortSignal(this, timedOut());
    return this.#isAborted;
  }
  get reason() { return this.#reason; }
  throwIfAborted() {
    if (this.aborted) throw this.#reason;
  }
  addEventListener(type, listener) {
    const isKnown = this.#listeners.some((other) => other.listener === listener);
    if (type === "abort" && listener && !isKnown && !this.#isAborted) this.#listeners.push({ listener });
  }
  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((other) => type !== "abort" || other.listener !== listener);
  }
}

const { abortNow: abortSignal, dueOf: dueOfSignal } = AbortSignal;
delete AbortSignal.abortNow;
delete AbortSignal.dueOf;

const timedOut = () => namedError("TimeoutError", "the operation timed out");

class AbortController {
  signal = new AbortSignal(namedError);
  abort(reason) { abortSignal(this.signal, reason); }
}

/** The milliseconds that a signal leaves for a request. Throws if it is aborted; undefined if it sets no time. */
function timeLeftOf(signal) {
  if (signal === undefined || signal === null) return undefined;
  if (!(signal instanceof AbortSignal)) throw new TypeError("signal takes an AbortSignal");
  signal.throwIfAborted();
  const due = dueOfSignal(signal);
  return due === undefined ? undefined : Math.max(1, due - Date.now());
}
