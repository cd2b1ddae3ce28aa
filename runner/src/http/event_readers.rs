//! How many readers of job events there may be at once. One token may not have all of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::Caller;

/// Maximum number of readers.
const READERS_MAX: usize = 32;
/// Maximum number of readers with one token.
const READERS_OF_TOKEN_MAX: usize = READERS_MAX / 2;

/// Limits the number of readers.
pub(crate) struct EventReaders {
    all: Arc<Semaphore>,
    /// Of each token with readers.
    of_tokens: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The place of one reader, until it is dropped.
pub(super) struct ReaderPlace {
    _of_all: OwnedSemaphorePermit,
    _of_token: Option<OwnedSemaphorePermit>,
}

/// There are too many readers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadersFull {
    #[error("this daemon already has {READERS_MAX} event readers")]
    Daemon,
    #[error("this daemon already has {READERS_OF_TOKEN_MAX} event readers with this token")]
    Token,
}

impl Default for EventReaders {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(READERS_MAX)), of_tokens: Mutex::default() }
    }
}

impl EventReaders {
    /// A place for one more reader.
    pub(super) fn admit(&self, caller: &Caller) -> Result<ReaderPlace, ReadersFull> {
        let of_token = match caller.token_name() {
            Some(token) => Some(self.place_of(token).ok_or(ReadersFull::Token)?),
            None => None,
        };
        let of_all = Arc::clone(&self.all).try_acquire_owned();
        let of_all = of_all.map_err(|_| ReadersFull::Daemon)?;
        Ok(ReaderPlace { _of_all: of_all, _of_token: of_token })
    }

    /// A place among those of a token. Tokens without readers are forgotten.
    fn place_of(&self, token: &str) -> Option<OwnedSemaphorePermit> {
        let mut of_tokens = self.of_tokens.lock();
        of_tokens.retain(|_, places| places.available_permits() < READERS_OF_TOKEN_MAX);
        let places = of_tokens.entry(token.to_owned());
        let places = places.or_insert_with(|| Arc::new(Semaphore::new(READERS_OF_TOKEN_MAX)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_leaves_half_of_the_places_to_the_others() {
        let readers = EventReaders::default();
        let mut places: Vec<_> = (0..READERS_OF_TOKEN_MAX)
            .map(|_| readers.admit(&Caller::with_token("a")).unwrap())
            .collect();
        assert_eq!(readers.admit(&Caller::with_token("a")).err(), Some(ReadersFull::Token));
        places.extend(
            (0..READERS_OF_TOKEN_MAX).map(|_| readers.admit(&Caller::with_token("b")).unwrap()),
        );
        assert_eq!(readers.admit(&Caller::with_token("c")).err(), Some(ReadersFull::Daemon));
        assert_eq!(readers.admit(&Caller::Open).err(), Some(ReadersFull::Daemon));
        places.pop();
        assert!(readers.admit(&Caller::with_token("c")).is_ok());
        drop(places);
        drop(readers.admit(&Caller::with_token("c")));
        assert_eq!(readers.of_tokens.lock().len(), 1);
    }

    #[test]
    fn without_tokens_all_places_are_for_everyone() {
        let readers = EventReaders::default();
        let places: Vec<_> =
            (0..READERS_MAX).map(|_| readers.admit(&Caller::Open).unwrap()).collect();
        assert_eq!(readers.admit(&Caller::Open).err(), Some(ReadersFull::Daemon));
        drop(places);
        assert!(readers.admit(&Caller::Open).is_ok());
    }
}
