//! Sessions of the page. A browser sends a token once and then a cookie, which scripts cannot read.
//!
//! A session lives in the memory of this daemon for at most twelve hours. It allows what its token currently
//! allows, and ends when the token is removed. The number of sessions is bounded; a new one replaces the
//! oldest. Only the hash of a session id is stored, so reading the memory does not reveal a session.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};

use super::tokens::{self, Token, Tokens};

/// The lifetime of a session.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The most sessions of one token.
const OF_A_TOKEN_MAX: usize = 16;
/// The most sessions of all tokens together.
const SESSIONS_MAX: usize = 1_024;

/// The sessions of this daemon.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

struct Session {
    token: Arc<Token>,
    began: Instant,
}

impl Sessions {
    /// Opens a session for this token and returns its id.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub(crate) fn open(&self, token: Arc<Token>, now: Instant) -> io::Result<String> {
        let id = tokens::random()?;
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.is_alive(now));
        remove_oldest(&mut sessions, OF_A_TOKEN_MAX, |session| session.token.name == token.name);
        remove_oldest(&mut sessions, SESSIONS_MAX, |_| true);
        sessions.insert(hash(&id), Session { token, began: now });
        Ok(id)
    }

    /// The token of a session in its current version; `None` if the session or the token no longer exists.
    pub(crate) fn find(&self, id: &str, tokens: &Tokens, now: Instant) -> Option<Arc<Token>> {
        let mut sessions = self.sessions();
        let key = hash(id);
        let session = sessions.get(&key)?;
        let found = tokens.current(&session.token).filter(|_| session.is_alive(now));
        if found.is_none() {
            sessions.remove(&key);
        }
        found
    }

    /// Ends a session. An unknown id is ignored.
    pub(crate) fn close(&self, id: &str) {
        self.sessions().remove(&hash(id));
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.0.lock()
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < LIFE
    }
}

fn hash(id: &str) -> [u8; 32] {
    Sha256::digest(id.as_bytes()).into()
}

/// Removes the oldest matching session if `most` of them exist.
fn remove_oldest(
    sessions: &mut HashMap<[u8; 32], Session>,
    most: usize,
    matches: impl Fn(&Session) -> bool,
) {
    let matching = || sessions.iter().filter(|(_, session)| matches(session));
    if matching().count() < most {
        return;
    }
    let oldest = matching().min_by_key(|(_, session)| session.began).map(|(key, _)| *key);
    if let Some(oldest) = oldest {
        sessions.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(names: &[&str]) -> Tokens {
        let table = |name: &&str| {
            let hash = format!("{:064x}", name.bytes().map(u32::from).sum::<u32>());
            let rest = "scopes = [\"admin\"]\ntopics = [\"*\"]\n";
            format!("[{name}]\nsha256 = \"{hash}\"\n{rest}")
        };
        Tokens::parse(&names.iter().map(table).collect::<String>()).unwrap()
    }

    #[test]
    fn a_session_ends_by_age_by_logout_and_with_its_token() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let both = tokens(&["boss", "shop"]);
        let boss = both.iter().find(|token| token.name == "boss").unwrap();
        let id = sessions.open(Arc::clone(boss), now).unwrap();
        let name = |id: &str, tokens: &Tokens, at| {
            sessions.find(id, tokens, at).map(|token| token.name.clone())
        };
        assert_eq!(name(&id, &both, now).as_deref(), Some("boss"));
        assert_eq!(name("guess", &both, now), None);
        assert_eq!(name(&id, &both, now + LIFE), None);
        let id = sessions.open(Arc::clone(boss), now).unwrap();
        assert_eq!(name(&id, &tokens(&["shop"]), now), None);
        assert_eq!(name(&id, &both, now), None, "a session that ended stays ended");
        let id = sessions.open(Arc::clone(boss), now).unwrap();
        sessions.close(&id);
        assert_eq!(name(&id, &both, now), None);
    }

    #[test]
    fn a_new_session_replaces_the_oldest_of_its_token() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let both = tokens(&["boss", "shop"]);
        let token = |name: &str| both.iter().find(|token| token.name == name).unwrap();
        let shop = sessions.open(Arc::clone(token("shop")), now).unwrap();
        let open = |after: usize| {
            let at = now + Duration::from_secs(after as u64 + 1);
            sessions.open(Arc::clone(token("boss")), at).unwrap()
        };
        let ids: Vec<String> = (0..=OF_A_TOKEN_MAX).map(open).collect();
        assert!(sessions.find(&ids[0], &both, now).is_none());
        let alive = ids[1..].iter().chain([&shop]);
        assert!(alive.into_iter().all(|id| sessions.find(id, &both, now).is_some()));
    }
}
