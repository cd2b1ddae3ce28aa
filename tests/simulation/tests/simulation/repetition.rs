//! What a caller is told of a call that the connection repeats.

use std::io;
use std::sync::Arc;

use duebox_job::{JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Pushed, Queue, QueueError, Transport};
use duebox_simulation::redis::server::{Refusal, Server};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use parking_lot::Mutex;
use redis::{Pipeline, RedisError, Value};

/// A Redis whose reply to the first script is lost, and which is out of memory from then on.
struct Fills {
    server: Mutex<Server>,
    is_full: Mutex<bool>,
}

impl Fills {
    fn execute(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut server = self.server.lock();
        let replies = server.execute(commands);
        let is_script = String::from_utf8_lossy(&commands.get_packed_pipeline()).contains("EVAL");
        let is_carried_out = !replies.iter().any(|reply| matches!(reply, Value::ServerError(_)));
        if is_script && is_carried_out && !std::mem::replace(&mut *self.is_full.lock(), true) {
            server.refuse(Refusal::OutOfMemory);
            return Err(RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe)));
        }
        Ok(replies)
    }
}

impl Transport for Fills {
    fn send<'t>(&'t self, commands: &'t Pipeline) -> BoxFuture<'t, Result<Vec<Value>, RedisError>> {
        Box::pin(async { self.execute(commands) })
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<BoxStream<'static, (String, String)>, RedisError>> {
        Box::pin(async { Ok(Box::pin(stream::empty()) as BoxStream<'static, _>) })
    }
}

/// The first try has stored the job. Redis would refuse to store it again, but has the answer of the first try.
#[test]
fn a_push_is_answered_once_more_by_a_redis_that_is_full_by_then() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let redis = Fills { server: Mutex::new(Server::new(None, false)), is_full: Mutex::new(false) };
    let queue = Queue::over(Arc::new(redis), "duebox");
    let topic = TopicName::new("mail").unwrap();
    let push = async |id: &str| {
        let job = NewJob::new(JobId::new(id).unwrap(), "{}");
        queue.push(&topic, &[job], IfExists::Reject).await
    };
    runtime.block_on(async {
        assert_eq!(push("a").await.unwrap(), [Pushed::Pushed], "with its repetition");
        let found = queue.get(&topic, &JobId::new("a").unwrap()).await.unwrap();
        assert!(found.is_some(), "the first try stored it");
        let refused = push("b").await;
        assert!(matches!(refused, Err(QueueError::Refused(_))), "{refused:?}");
    });
}
