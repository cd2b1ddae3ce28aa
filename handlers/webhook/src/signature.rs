//! The signature of a webhook by Standard Webhooks: HMAC-SHA256 over id, time and body, in base64,
//! preceded by its version.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duebox_sdk::Verdict;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secret shared by sender and receiver.
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// Parses `whsec_` and the key in base64, or any other text as the key itself. It is never
    /// shown.
    pub(crate) fn read(text: &str) -> Result<Self, Verdict> {
        let key = match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).unwrap_or_default(),
            None => text.as_bytes().to_vec(),
        };
        if key.is_empty() {
            let why = "the secret \"signing_key\" is empty, or not base64 after its whsec_";
            return Err(Verdict::nack(why));
        }
        Ok(Self(key))
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, sent_s: &str, body: &[u8]) -> String {
        // HMAC accepts a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        for part in [id.as_bytes(), b".", sent_s.as_bytes(), b".", body] {
            mac.update(part);
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}
