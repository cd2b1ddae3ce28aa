//! Why Redis refused to store a job, in words. Each way in adds a remedy of its own.

use duebox_queue::Pushed;

/// Why a push was refused; `None` if it was not.
pub(crate) fn reason(pushed: Pushed) -> Option<&'static str> {
    match pushed {
        Pushed::Pushed | Pushed::Kept | Pushed::Replaced | Pushed::Successor => None,
        Pushed::Exists => Some("a live job has that id"),
        Pushed::Held => {
            Some("a job with that id is done, and the topic reserves ids for its unique_for")
        }
        Pushed::Full => Some("the topic has max_pending waiting jobs"),
        Pushed::BadDue => Some("Redis refused the due time"),
    }
}
