//! The payment event in the payload, and its validation.
//!
//!     {"payment":{"id":"pay_81","order":42,"amount":"19.90","currency":"EUR"}}
//!
//! Other fields are ignored.
//!
//! Invariant: an event's id is safe in a log line and in a path, and the reason why it is malformed
//! is safe in a log line.

import { Json } from "duebox-as/assembly";
import { isName } from "./name";

export class Event {
  /** Why the event is invalid; null if it is valid. */
  malformed: string | null = null;
  /** The payment's id at the provider. */
  id: string = "";

  static read(json: Json): Event {
    const event = new Event();
    event.malformed = event.take(json);
    return event;
  }

  private take(json: Json): string | null {
    const error = json.error;
    if (error !== null) return error;
    const payment = json.get("payment");
    if (!payment.isObject) return 'the field "payment" is missing or not an object';
    const id = payment.get("id").string;
    if (id === null || !isName(id)) {
      return 'the field "payment.id" is not a name of 1 to 64 letters, digits or -_.:';
    }
    this.id = id;
    return null;
  }
}
