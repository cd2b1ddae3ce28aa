//! The event of a payment, as it comes in the payload, and what makes it malformed.
//!
//!     {"payment":{"id":"pay_81","order":42,"amount":"19.90","currency":"EUR","states":["open","paid"]}}
//!
//! `states` is what the provider said at each look; the last one stays. `state` alone is what it says
//! at every look. Fields that are not named here are the shop's own business. Invariant: a payment
//! is safe in a log line, and so is why it is malformed.

import { Json } from "duebox-as/assembly";

/** What a provider's word means for us. */
export enum PaymentState {
  Open,
  Paid,
  Final,
  Unknown,
}

const ID_LENGTH_MAX = 64;

export class Payment {
  /** Why the event cannot be acted on; null if it can. */
  malformed: string | null = null;
  id: string = "";
  /** The provider's own word at this look. */
  said: string = "";
  state: PaymentState = PaymentState.Unknown;

  /** Reads the event for the given look, counted from 1. */
  static read(event: Json, look: i32): Payment {
    const payment = new Payment();
    payment.malformed = payment.take(event, look);
    return payment;
  }

  private take(event: Json, look: i32): string | null {
    const error = event.error;
    if (error !== null) return error;
    const payment = event.get("payment");
    if (!payment.isObject) return 'the field "payment" is missing or no object';
    const id = payment.get("id").string;
    if (id === null || !isName(id)) {
      return 'the field "payment.id" is no name of 1 to 64 letters, digits or -_.:';
    }
    const said = wordAt(payment, look);
    if (said === null) return 'the payment has neither "state" nor "states" with a text for each look';
    this.id = id;
    this.said = said;
    this.state = meaning(said);
    if (this.state != PaymentState.Unknown) return null;
    return "the provider's word" + (isName(said) ? ' "' + said + '"' : "") + " is not known";
  }
}

/** The provider's word at a look. */
function wordAt(payment: Json, look: i32): string | null {
  const states = payment.get("states");
  if (states.isMissing) return payment.get("state").string;
  for (let i = 0; i < states.length; i++) {
    if (!states.at(i).isString) return null;
  }
  return states.at(min(max(look, 1), states.length) - 1).string;
}

function meaning(said: string): PaymentState {
  if (said == "open" || said == "pending" || said == "processing") return PaymentState.Open;
  if (said == "paid") return PaymentState.Paid;
  if (said == "failed" || said == "cancelled" || said == "expired" || said == "refused") {
    return PaymentState.Final;
  }
  return PaymentState.Unknown;
}

function isName(text: string): bool {
  if (text.length == 0 || text.length > ID_LENGTH_MAX) return false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const letter = (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
    const digit = code >= 0x30 && code <= 0x39;
    const mark = code == 0x2d || code == 0x5f || code == 0x2e || code == 0x3a;
    if (!letter && !digit && !mark) return false;
  }
  return true;
}
