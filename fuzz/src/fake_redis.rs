//! A Redis that sends the replies it is given. A client reads them over a real connection, so
//! everything between the socket and the caller takes part.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use duebox_queue::{ConnectionSettings, Queue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;

use crate::reply_text;

/// The reply after the last one of the input.
const NO_MORE: &[u8] = b"-ERR there are no more replies\r\n";

/// The fake server, and the runtime on which it and its clients run.
pub struct FakeRedis {
    /// The runtime. It has one thread, so that an input has the same effect each time.
    pub runtime: Runtime,
    socket: PathBuf,
    replies: Arc<Mutex<VecDeque<Vec<u8>>>>,
}

impl FakeRedis {
    /// The server of this process.
    pub fn get() -> &'static Self {
        static SERVER: LazyLock<FakeRedis> = LazyLock::new(FakeRedis::start);
        &SERVER
    }

    fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("the runtime must start");
        let socket = std::env::temp_dir().join(format!("duebox-fuzz-{}.sock", std::process::id()));
        drop(std::fs::remove_file(&socket));
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(&socket).expect("the socket must be free")
        };
        let replies = Arc::<Mutex<VecDeque<_>>>::default();
        let given = Arc::clone(&replies);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&given)));
            }
        });
        Self { runtime, socket, replies }
    }

    /// How to connect to it.
    pub fn settings(&self) -> ConnectionSettings {
        ConnectionSettings::new(format!("unix://{}", self.socket.display()))
    }

    /// Connects to it.
    pub fn connect(&self) -> Queue {
        let queue = self.runtime.block_on(Queue::connect(&self.settings(), "duebox"));
        queue.expect("the fake server must accept the connection")
    }

    /// Replies to the next commands with these replies, and then with errors.
    pub fn answer_with(&self, text: &[u8]) {
        *self.replies.lock().expect("no thread has panicked") = reply_text::replies(text).into();
    }
}

/// Answers the commands of one connection.
async fn serve(stream: UnixStream, replies: Arc<Mutex<VecDeque<Vec<u8>>>>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    while let Some(command) = command(&mut reader).await {
        let reply = match command.as_slice() {
            // The handshake and the loading of the scripts are the same for all inputs.
            b"CLIENT" | b"PING" | b"SCRIPT" | b"SELECT" => b"+OK\r\n".to_vec(),
            _ => {
                let next = replies.lock().expect("no thread has panicked").pop_front();
                next.unwrap_or_else(|| NO_MORE.to_vec())
            }
        };
        if writer.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Reads a command; returns its name.
async fn command(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let count = number(reader, '*').await?;
    let mut name = None;
    for _ in 0..count {
        let mut arg = vec![0; number(reader, '$').await? + 2];
        reader.read_exact(&mut arg).await.ok()?;
        arg.truncate(arg.len() - 2);
        name.get_or_insert(arg);
    }
    name
}

async fn number(reader: &mut (impl AsyncBufReadExt + Unpin), sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    line.strip_prefix(sign)?.trim_end().parse().ok()
}
