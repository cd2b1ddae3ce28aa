// How the page learns that something happened: by the event stream where the daemon keeps events and the session may
// read them, else by asking once a second.

/** The kinds of events. A test compares them with the daemon's list. */
export const EVENTS = ['pushed', 'acked', 'retried', 'snoozed', 'released', 'dead', 'discarded', 'superseded', 'cancelled', 'reclaimed',
  'expired', 'requeued', 'purged', 'rescheduled'];

/** How often the page asks without the stream, and with it: not every change is an event. */
const EVERY_MS = 1_000;
const EVERY_WITH_STREAM_MS = 5_000;
/** With more events in a second the stream costs more than asking. */
const EVENTS_PER_SECOND = 200;
/** After that, or if the stream was refused, it is opened again no sooner than this. */
const AGAIN_MS = 60_000;

/** The event stream of what is shown. */
export class Live {
  /** `stirred` is called after an event, with the id of its job if it is of one. */
  constructor(stirred) {
    this.stirred = stirred;
    this.isAllowed = false;
    this.closedUntil = 0;
    this.received = 0;
    this.isOpen = false;
  }

  /** Follows the topics that a pattern matches; none for null. */
  follow(pattern) {
    if (pattern !== this.pattern) this.close();
    this.pattern = pattern;
    const isWanted = this.isAllowed && pattern && !document.hidden && performance.now() >= this.closedUntil;
    if (!isWanted || this.source) return;
    this.source = new EventSource(`/v1/events?topic=${encodeURIComponent(pattern)}`);
    this.source.onopen = () => {
      this.isOpen = true;
    };
    // The browser connects again by itself, unless the stream was refused; meanwhile the page asks.
    this.source.onerror = () => {
      this.isOpen = false;
      if (this.source?.readyState === EventSource.CLOSED) this.rest();
    };
    for (const kind of [...EVENTS, 'gap']) this.source.addEventListener(kind, (event) => this.take(event));
    this.source.addEventListener('end', (event) => {
      // A daemon that stops, or a page that was too slow, may connect again.
      if (['forbidden', 'off'].includes(JSON.parse(event.data).reason)) this.rest();
    });
    [this.secondAt, this.inSecond] = [0, 0];
  }

  take(event) {
    this.received += 1;
    if (performance.now() - this.secondAt > 1_000) [this.secondAt, this.inSecond] = [performance.now(), 0];
    this.inSecond += 1;
    if (this.inSecond > EVENTS_PER_SECOND) this.rest();
    this.stirred(JSON.parse(event.data).id);
  }

  rest() {
    this.closedUntil = performance.now() + AGAIN_MS;
    this.close();
  }

  close() {
    this.source?.close();
    this.source = null;
    this.isOpen = false;
  }

  /** How long to wait between two requests. */
  get everyMs() {
    return this.isOpen ? EVERY_WITH_STREAM_MS : EVERY_MS;
  }

  /** What the page uses, and the same in a sentence. */
  get words() {
    if (this.isOpen) return ['live, by events', `The daemon tells what happens; ${this.received} events so far. The page also asks every 5 s.`];
    return ['live, by polling', 'The page asks once a second, less often if answers are slow, and not while it is hidden.'];
  }
}
