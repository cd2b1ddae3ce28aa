//! The smallest handler of the AssemblyScript SDK: it acks and looks at nothing. Benchmarks run it, so
//! what it costs is what Duebox costs.

import { Job, Verdict, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, (job: Job): Verdict => Verdict.ack());
}
