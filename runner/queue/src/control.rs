//! What daemons publish about themselves and about jobs, and the channel that reaches all of them.

pub(crate) mod channel;
pub(crate) mod events;
pub(crate) mod histories;
pub(crate) mod runners;
