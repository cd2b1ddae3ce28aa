//! The smallest handler of the AssemblyScript SDK: it acks without reading the job. Benchmarks run
//! it to measure the cost of Duebox itself.

import { Job, Verdict, run } from "duebox-as/assembly";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, (job: Job): Verdict => Verdict.ack());
}
