// The shop's API. A response that decides about the job is thrown as a verdict.

import { drop, job, log, nack, type NamedVerdict, type Verdict } from "duebox";

/** The shop has decided about the job, or could not be asked. */
export class Refused extends Error {
  readonly verdict: NamedVerdict;

  constructor(verdict: NamedVerdict) {
    super(verdict.reason);
    this.verdict = verdict;
  }
}

/** Logs the one line `verdict=…` of a job, from which a ledger can be read. */
export function logged(verdict: Verdict, about: string): Verdict {
  log.info(`verdict=${typeof verdict === "object" ? verdict?.kind : verdict} ${about}`);
  return verdict;
}

/**
 * Sends a request with half of the job's time as its timeout, so that a shop that hangs leads to a nack with a reason.
 * The host adds an `Idempotency-Key`. Statuses other than 2xx and `expected` are thrown.
 */
export async function send(method: string, path: string, what: string, expected: number[] = []): Promise<Response> {
  const shop = job.config("shop", null);
  if (shop === null) throw new Refused(nack('the configuration value "shop" is missing; it is the origin of the API'));
  const token = job.secret("token", null);
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  const timeout = Math.max(1, job.timeLeft / 2);
  const sent = fetch(shop.replace(/\/$/, "") + path, { method, headers, timeout, redirect: "manual" });
  const response = await sent.catch((error: Error) => {
    throw new Refused(nack(`the shop: ${error.message}`));
  });
  if (response.ok || expected.includes(response.status)) return response;
  throw new Refused(refusal(response, what));
}

function refusal(response: Response, what: string): NamedVerdict {
  const { status } = response;
  if (status === 404 || status === 410) return drop(`the shop has no ${what} (${status})`);
  if (status === 401 || status === 403) return nack(`the shop refused the token (${status})`);
  return response.verdict();
}
