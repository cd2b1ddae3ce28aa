//! Which module serves a topic: the file, its checks, its deployments, and the breaker.
//!
//! A module that does not compile or fails its smoke cases never replaces one that serves.

pub mod binding;
pub mod breaker;
pub mod case_run;
pub(crate) mod deployment;
pub(crate) mod deployments;
pub(crate) mod entry;
pub mod history;
pub mod module_file;
pub mod modules;
pub(crate) mod reload;
pub(crate) mod rollback;
pub mod smoke;
pub mod trial;
