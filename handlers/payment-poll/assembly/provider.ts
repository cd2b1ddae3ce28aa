//! One look at a payment through the shop's API, `GET /payments/{id}`, and what the answer means.
//!
//! Invariant: a look has the provider's word, or a verdict in its place; never both.

import { Job, Request, Response, Verdict } from "duebox-as/assembly";
import { isName } from "./name";

/** What a provider's word means for us. */
export enum PaymentState {
  Open,
  Paid,
  Final,
  Unknown,
}

export class Look {
  /** The verdict if there is no word; null if there is one. */
  refused: Verdict | null = null;
  /** Whether that verdict is a drop. */
  isFinal: bool = false;
  /** The provider's own word. */
  said: string = "";
  state: PaymentState = PaymentState.Unknown;

  /** Asks. Half of the job's time is for it: an API that does not answer is a nack with its reason, and
   *  not the end of the job's time. */
  static take(job: Job, id: string): Look {
    const look = new Look();
    const shop = job.config("shop");
    if (shop === null) {
      return look.later('the configuration value "shop" is missing; it is the origin of the API');
    }
    const origin = shop.endsWith("/") ? shop.substring(0, shop.length - 1) : shop;
    const request = new Request("GET", origin + "/payments/" + id);
    const token = job.config("token");
    if (token !== null) request.header("authorization", "Bearer " + token);
    look.judge(id, request.timeout(max<i64>(1, job.timeLeftMs / 2)).send());
    return look;
  }

  private judge(id: string, response: Response): void {
    const error = response.error;
    const status = response.status;
    if (error !== null) {
      this.later("the shop's API: " + error);
    } else if (status == 404 || status == 410) {
      this.isFinal = true;
      this.refused = Verdict.drop("there is no payment " + id + " (" + status.toString() + ")");
    } else if (status == 401 || status == 403) {
      this.later("the shop's API wants another token (" + status.toString() + ")");
    } else if (!response.isSuccess) {
      this.isFinal = status >= 400 && status < 500 && status != 408 && status != 429;
      this.refused = response.verdict();
    } else {
      const said = response.json().get("state").string;
      if (said === null || !isName(said)) {
        this.later("the shop's API answers no state of the payment " + id);
        return;
      }
      this.said = said;
      this.state = meaning(said);
      if (this.state == PaymentState.Unknown) {
        this.later('the provider\'s word "' + said + '" for the payment ' + id + " is not known");
      }
    }
  }

  /** The job is not at fault: it waits, by the topic's schedule, for whoever mends what is wrong. */
  private later(reason: string): Look {
    this.refused = Verdict.nack(reason);
    return this;
  }
}

function meaning(said: string): PaymentState {
  if (said == "open" || said == "pending" || said == "processing") return PaymentState.Open;
  if (said == "paid") return PaymentState.Paid;
  if (said == "failed" || said == "cancelled" || said == "expired" || said == "refused") {
    return PaymentState.Final;
  }
  return PaymentState.Unknown;
}
