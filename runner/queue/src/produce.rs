//! What puts jobs into the queue, and takes them back before they run.

pub(crate) mod cancel;
pub(crate) mod combine;
pub(crate) mod outbox;
pub(crate) mod push;
pub(crate) mod relay;
pub(crate) mod reschedule;
pub(crate) mod ticks;
