//! A topic bound to its handler: what the manifest says of the topic, and the module that serves it.
//!
//! A reload makes a new one and puts it in the old one's place; a job that runs keeps the one it
//! started with.

use std::sync::Arc;
use std::time::Duration;

use duebox_sandbox::Handler;
use tokio::sync::watch;

use crate::manifest::Topic;

/// A topic and the module that serves it now.
pub struct Binding {
    /// The topic's settings.
    pub topic: Topic,
    /// The compiled module.
    pub handler: Handler,
    /// How long a lease holds unless it is renewed.
    pub lease: Duration,
}

/// Where the current binding of a topic is looked up.
pub type Bound = watch::Receiver<Arc<Binding>>;

/// The binding a job that starts now gets.
pub fn current(bound: &Bound) -> Arc<Binding> {
    Arc::clone(&bound.borrow())
}
