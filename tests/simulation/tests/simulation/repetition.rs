//! What a caller is told of a call that the connection repeats.

use std::io;
use std::sync::Arc;

use duebox_job::{JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Queue, QueueError, Transport};
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

/// The first try has stored the job, so the refusal of the second must not say that nothing has changed.
#[test]
fn a_push_whose_repetition_is_refused_may_have_been_carried_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let redis = Fills { server: Mutex::new(Server::new(None, false)), is_full: Mutex::new(false) };
    let queue = Queue::over(Arc::new(redis), "duebox");
    let topic = TopicName::new("mail").unwrap();
    let job = NewJob::new(JobId::new("a").unwrap(), "{}");
    runtime.block_on(async {
        let pushed = queue.push(&topic, &[job], IfExists::Replace).await;
        assert!(matches!(pushed, Err(QueueError::NoAnswer(_))), "{pushed:?}");
        let found = queue.get(&topic, &JobId::new("a").unwrap()).await.unwrap();
        assert!(found.is_some(), "the first try stored it");
    });
}
