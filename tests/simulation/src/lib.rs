//! Deterministic simulation of Duebox: the real workers, executor, poller, relay, scheduler and maintenance
//! over simulated time and a simulated Redis.
//!
//! A *life* is one run. Its seed chooses the settings, the jobs, what their handlers do, and every fault. The
//! same seed gives the same life, to the last command. A life has two parts: in the first, faults happen; in
//! the second it has no faults, and everything must end.
//!
//! | module | what it holds |
//! |---|---|
//! | `redis` | Redis in memory: its commands, and the Lua that runs the queue's own scripts |
//! | `network` | connections that lose, delay and cut what they carry |
//! | `turns` | which turns of workers are under way at once |
//! | `witness` | what happened to each lease, and what hit its holder |
//! | `life` | one life: daemons, handlers, producers, faults, and what must hold |
//! | `campaign` | many lives on several threads |

#![expect(clippy::expect_used, reason = "a simulation that cannot be set up has failed")]

pub mod campaign;
pub mod life;
pub mod network;
pub mod redis;
mod turns;
pub mod witness;
