//! Redis as this process sees it: its clock, its outages, the server that the daemon manages itself, its
//! fitness to hold jobs, and the store of handlers.

pub mod clock;
pub mod fitness;
pub mod handler_store;
pub mod managed;
pub mod outage;
