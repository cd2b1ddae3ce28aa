//! A walk through the keys of all servers, step by step.

use redis::{Pipeline, Value};

use crate::error::QueueError;
use crate::wire::connection::Connection;
use crate::wire::reply::{array, text};

/// The position at the start and at the end of a walk.
pub(crate) const START: &str = "0";

/// Takes one step: about so many keys from a position. Returns the next position and the keys that match.
///
/// In a cluster a position is the cursor of Redis and the number of the server. While the servers change, a walk may
/// miss keys; the next one meets them.
pub(crate) async fn step(
    connection: &Connection,
    position: &str,
    pattern: &str,
    count: u64,
) -> Result<(String, Vec<Value>), QueueError> {
    let (cursor, server) = position.split_once('@').unwrap_or((position, "0"));
    let server: usize = server.parse().unwrap_or(0);
    let mut scan = Pipeline::with_capacity(1);
    scan.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
    let reply = connection.send_to(server, &scan).await?.pop().unwrap_or(Value::Nil);
    let reply = connection.check(reply)?;
    let mut page = array(reply)?.into_iter();
    let cursor = text(&page.next().unwrap_or(Value::Nil))?.to_owned();
    let keys = array(page.next().unwrap_or(Value::Nil))?;
    let next = match (cursor.as_str(), server + 1) {
        (START, next) if next < connection.primaries() => format!("{START}@{next}"),
        (START, _) => START.to_owned(),
        _ if server == 0 => cursor,
        _ => format!("{cursor}@{server}"),
    };
    Ok((next, keys))
}
