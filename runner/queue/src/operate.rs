//! What operators ask and change: look up, list, count, requeue, prune, pause, examine.

pub(crate) mod dead;
pub(crate) mod doctor;
mod durability;
pub(crate) mod get;
pub(crate) mod inspect;
pub(crate) mod job;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod list_live;
pub(crate) mod list_state;
pub(crate) mod pause;
pub(crate) mod permissions;
pub(crate) mod recordings;
pub(crate) mod retention;
pub(crate) mod scan;
mod server_info;
pub(crate) mod slow_log;
