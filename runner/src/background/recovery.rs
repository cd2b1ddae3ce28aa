//! Notices at once that Redis is back after an outage, and that another server answers than before. While an
//! outage lasts it asks Redis ten times a second; otherwise only after the connection was made again.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::Queue;
use redis::RedisResult;

use crate::redis_host::outage::Outage;

/// How often Redis is asked while an outage lasts.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Watches Redis until the task is aborted.
pub(crate) async fn run(queue: Queue, outage: Arc<Outage>) {
    let mut connections = 0;
    let mut server: Option<String> = None;
    loop {
        if let Ok(run_id) = run_id(&queue).await {
            if server.as_ref().is_some_and(|known| *known != run_id) {
                outage.data_may_be_lost();
            }
            if server.replace(run_id).is_some() {
                outage.reconnected();
            }
        }
        tokio::select! {
            () = queue.reconnected(&mut connections) => {}
            () = async {
                outage.begins().await;
                tokio::time::sleep(ASK_EVERY).await;
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
