//! Asks the shop's API for the state of a payment, `GET /payments/{id}`, and interprets the
//! response.
//!
//! Invariant: a query has either the provider's state or a verdict.

import { Job, Request, Response, Verdict } from "duebox-as/assembly";
import { isName } from "./name";

/** The meaning of a provider's state. */
export enum PaymentState {
  Open,
  Paid,
  Final,
  Unknown,
}

export class PaymentQuery {
  /** The verdict if the state is unknown; null if it is known. */
  refused: Verdict | null = null;
  /** Whether that verdict is a drop. */
  isFinal: bool = false;
  /** The state as the provider names it. */
  stateName: string = "";
  state: PaymentState = PaymentState.Unknown;

  /**
   * Sends the request with half of the job's time as its timeout, so that an API that hangs leads
   * to a nack with a reason and not to a timeout of the job.
   */
  static take(job: Job, id: string): PaymentQuery {
    const query = new PaymentQuery();
    const shop = job.config("shop");
    if (shop === null) {
      return query.later('the configuration value "shop" is missing; it is the origin of the API');
    }
    const origin = shop.endsWith("/") ? shop.substring(0, shop.length - 1) : shop;
    const request = new Request("GET", origin + "/payments/" + id);
    const token = job.config("token");
    if (token !== null) request.header("authorization", "Bearer " + token);
    query.judge(id, request.timeout(max<i64>(1, job.timeLeftMs / 2)).send());
    return query;
  }

  private judge(id: string, response: Response): void {
    const error = response.error;
    const status = response.status;
    if (error !== null) {
      this.later("the shop's API: " + error);
    } else if (status == 404 || status == 410) {
      this.isFinal = true;
      this.refused = Verdict.drop("there is no payment " + id + " ("  + status.toString() + ")");
    } else if (status == 401 || status == 403) {
      this.later("the shop's API refused the token (" + status.toString() + ")");
    } else if (!response.isSuccess) {
      this.isFinal = status >= 400 && status < 500 && status != 408 && status != 429;
      this.refused = response.verdict();
    } else {
      const stateName = response.json().get("state").string;
      if (stateName === null || !isName(stateName)) {
        this.later("the shop's API returned no state for the payment " + id);
        return;
      }
      this.stateName = stateName;
      this.state = stateOf(stateName);
      if (this.state == PaymentState.Unknown) {
        this.later('unknown state "' + stateName + '" of the payment ' + id);
      }
    }
  }

  /**
   * A nack: the job is not at fault and waits, by the topic's schedule, until the cause is
   * corrected.
   */
  private later(reason: string): PaymentQuery {
    this.refused = Verdict.nack(reason);
    return this;
  }
}

function stateOf(stateName: string): PaymentState {
  if (stateName == "open" || stateName == "pending" || stateName == "processing") return PaymentState.Open;
  if (stateName == "paid") return PaymentState.Paid;
  if (stateName == "failed" || stateName == "cancelled" || stateName == "expired" || stateName == "refused") {
    return PaymentState.Final;
  }
  return PaymentState.Unknown;
}
