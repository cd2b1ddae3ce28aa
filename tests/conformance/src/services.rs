//! The services that a case may use: two servers on loopback, a port without a listener, and the
//! topic's store.

use std::net::Ipv4Addr;
use std::sync::Arc;

use duebox_sandbox::{HostServices, HttpClient, HttpGrant, LogSink, MemoryKv, Origin};
use tokio::net::{TcpListener, TcpSocket};

use crate::server;

/// The largest response body that the cases' topic allows, in bytes.
const BODY_MAX: usize = 1 << 20;

/// Servers and a store. The servers run until the process exits.
pub struct Services {
    server: String,
    other: String,
    closed: String,
    client: HttpClient,
    store: Arc<MemoryKv>,
    /// Bound but not listening, so that no other process listens on the port.
    _closed: TcpSocket,
}

impl Services {
    /// Starts the servers.
    ///
    /// # Errors
    /// Fails if no port is free.
    pub async fn start() -> std::io::Result<Self> {
        let store = Arc::new(MemoryKv::new());
        let closed = TcpSocket::new_v4()?;
        closed.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            server: serve(&store).await?,
            other: serve(&store).await?,
            closed: format!("http://{}", closed.local_addr()?),
            client: HttpClient::new(tokio::runtime::Handle::current()),
            store,
            _closed: closed,
        })
    }

    /// Replaces the placeholders of a case: `{server}` and `{other}` are two servers, `{closed}` is
    /// a port without a listener, `{private}` is granted as an origin but not as an address, and
    /// `{denied}` is not granted.
    pub fn substitute(&self, text: &str) -> String {
        text.replace("{server}", &self.server)
            .replace("{other}", &self.other)
            .replace("{closed}", &self.closed)
            .replace("{private}", "http://10.0.0.1")
            .replace("{denied}", "http://127.0.0.1:9")
    }

    /// The network grant of the topic.
    pub(crate) fn grant(&self) -> HttpGrant {
        let places =
            ["{server}", "{other}", "{closed}", "{private}"].map(|name| self.substitute(name));
        let origin = |text: &String| text.parse::<Origin>();
        let allow = places.iter().map(origin).collect::<Result<_, _>>();
        let allow = allow.unwrap_or_else(|error| panic!("{places:?}: {error}"));
        let loopback = "127.0.0.1/32".parse();
        let private = vec![loopback.unwrap_or_else(|error| panic!("127.0.0.1/32: {error}"))];
        HttpGrant { allow, private, body_max: BODY_MAX }
    }

    /// The host services of a guest that logs to `logs`.
    pub(crate) fn host_services(&self, logs: Arc<dyn LogSink>) -> HostServices {
        let store = Arc::clone(&self.store);
        HostServices {
            http: Some(self.client.clone()),
            kv: Some(store),
            ..HostServices::with_logs(logs)
        }
    }
}

async fn serve(store: &Arc<MemoryKv>) -> std::io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let router = server::router(Arc::clone(store));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}"))
}
