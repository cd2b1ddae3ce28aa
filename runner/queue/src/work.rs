//! What a runner does with jobs: lease, extend, settle, reclaim, promote, pull.

pub(crate) mod extend;
pub(crate) mod lease;
pub(crate) mod listen;
pub(crate) mod promote;
pub(crate) mod pull;
pub(crate) mod reclaim;
pub(crate) mod settle;
mod settle_leases;
pub(crate) mod turn;
pub(crate) mod wake_up;
