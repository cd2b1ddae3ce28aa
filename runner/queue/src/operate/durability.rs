//! Checks that the servers support the configured durability.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Pipeline;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::durability::{Copies, Waited};

/// How long the servers are asked, all at once: the connection counts as half open after twice this silence.
const ASKED_FOR: Duration = Duration::from_millis(500);

impl Queue {
    /// Asks each server for the copies that [`Durability`](crate::Durability) demands; returns what one of them lacks
    /// now, such as a replica.
    ///
    /// # Errors
    /// [`QueueError::Durability`] if a server can never keep it, [`QueueError::NotPermitted`] if its user may not wait,
    /// or another one if Redis gave no answer.
    pub async fn check_durability(&self) -> Result<Option<String>, QueueError> {
        let settings = self.connection.settings();
        let Some(copies) = settings.copies() else { return Ok(None) };
        let within = ASKED_FOR;
        let mut wait = Pipeline::with_capacity(1);
        wait.add_command(copies.wait(within));
        let servers = 0..self.connection.primaries();
        let asked = servers.map(|server| self.connection.send_to(server, &wait));
        let mut missing = None;
        for replies in join_all(asked).await {
            for reply in replies? {
                let reply = self.connection.check(reply).map_err(|error| {
                    let wanted = settings.durability().word();
                    match lack(copies, &error) {
                        Some(reason) => QueueError::Durability { wanted, reason },
                        None => error,
                    }
                })?;
                if let Waited::Short(lacks) = copies.read(&[reply], within) {
                    missing = Some(lacks);
                }
            }
        }
        Ok(missing)
    }
}

/// What a server that refuses to wait lacks.
fn lack(copies: Copies, error: &QueueError) -> Option<String> {
    match (copies, error) {
        (Copies::Disks { .. }, QueueError::Unsupported(_)) => {
            Some("the server has no WAITAOF, which came with Redis 7.2".to_owned())
        }
        (_, QueueError::Unsupported(reason) | QueueError::BadData(reason)) => Some(reason.clone()),
        _ => None,
    }
}
