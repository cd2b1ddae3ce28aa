//! Write Duebox handlers in AssemblyScript: a function that takes a Job and returns a Verdict.
//!
//!     import { Job, Verdict, log, run } from "duebox-as/assembly";
//!
//!     function decide(job: Job): Verdict {
//!       log.info("closing order " + job.id);
//!       return Verdict.ack();
//!     }
//!
//!     export function handle(payloadLength: i32): i32 {
//!       return run(payloadLength, decide);
//!     }
//!
//! The layers are: your function → Job, Verdict, Json, log → abi.ts, which calls the imports of
//! docs/reference/abi.md. AssemblyScript cannot catch exceptions, so errors are values here. A `throw` or a
//! failed `assert` ends the attempt with class trap and its message as the reason.

import { random } from "./abi";
import { Job } from "./job";
import { Verdict } from "./verdict";

export { FollowUp, Priority } from "./follow-up";
export { Json, JsonKind } from "./json";
export { Job } from "./job";
export { KvAnswer, kv } from "./kv";
export { log } from "./log";
export { HttpFault, Request } from "./request";
export { Response } from "./response";
export { Verdict } from "./verdict";

/** Runs a handler on the job that the host passes in, and returns its verdict to the host. */
export function run(payloadLength: i32, handler: (job: Job) => Verdict): i32 {
  return handler(new Job(payloadLength)).settle();
}

/** Returns this many random bytes. */
export function randomBytes(length: i32): Uint8Array {
  const bytes = new Uint8Array(length);
  random(bytes);
  return bytes;
}
