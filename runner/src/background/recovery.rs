//! Notices at once that Redis is back after an outage, or writes again, and that another server answers than
//! before. While an outage lasts it asks Redis ten times a second; otherwise only after the connection was
//! made again.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::Queue;
use redis::RedisResult;

use crate::monotonic;
use crate::redis_host::outage::{Outage, RETRY_MAX};

/// How often Redis is asked while an outage lasts.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// If Redis refuses to write again within this time, it refuses more than what is asked here.
const AT_ONCE: Duration = Duration::from_millis(50);

/// Watches Redis until the task is aborted.
pub async fn run(queue: Queue, outage: Arc<Outage>) {
    let mut connections = 0;
    let mut server: Option<String> = None;
    let (mut pause, mut wrote_at) = (ASK_EVERY, None);
    loop {
        if let Ok(run_id) = run_id(&queue).await {
            if server.as_ref().is_some_and(|known| *known != run_id) {
                outage.data_may_be_lost();
            }
            if server.replace(run_id).is_some() {
                outage.record_reconnect();
            }
            if outage.is_ongoing() && queue.declare_layout().await.is_ok() {
                outage.record_write();
                wrote_at = Some(monotonic::now());
            }
        }
        tokio::select! {
            biased;
            () = queue.reconnected(&mut connections) => {}
            () = async {
                outage.begins().await;
                let is_at_once = wrote_at.take().is_some_and(|at| at + AT_ONCE > monotonic::now());
                pause = if is_at_once { (pause * 2).min(RETRY_MAX) } else { ASK_EVERY };
                tokio::time::sleep(pause).await;
            } => {}
        }
    }
}

/// The id of the server's process. A server that still loads its data refuses the PING.
async fn run_id(queue: &Queue) -> RedisResult<String> {
    let mut commands = redis::pipe();
    commands.cmd("PING").ignore().cmd("INFO").arg("server");
    let (info,): (String,) = commands.query_async(&mut queue.redis()).await?;
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    Ok(run_id.unwrap_or_default().trim().to_owned())
}
