//! A small name server on loopback with answers that a test chooses.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use duebox_sandbox::{Handler, HostServices, HttpClient, HttpConfig, Invocation, MemoryKv};
use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::net::UdpSocket;

use crate::http_guest::client;
use crate::support::{TestRun, run_in};

/// The name for which there is never an answer.
pub(crate) const SILENT: &str = "silent.test";

/// A network whose name server never answers.
pub(crate) struct SilentNetwork {
    client: HttpClient,
    _socket: UdpSocket,
}

impl SilentNetwork {
    pub(crate) async fn listen() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let name_servers = vec![socket.local_addr().unwrap()];
        let client = client(HttpConfig { name_servers, ..HttpConfig::default() });
        Self { client, _socket: socket }
    }

    /// Runs a handler on a job in this network, with its own store.
    pub(crate) async fn run(&self, handler: &Handler, job: Invocation) -> TestRun {
        let (http, kv) = (Some(self.client.clone()), Some(Arc::new(MemoryKv::new()) as _));
        run_in(handler, job, |logs| HostServices { http, kv, ..HostServices::with_logs(logs) })
            .await
    }
}

/// For each name its answers, one for each lookup; the last one is repeated.
type Zone = HashMap<String, Vec<Vec<IpAddr>>>;

/// The name server, and how many queries each name has received.
pub(crate) struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<HashMap<(String, RecordType), usize>>>,
}

impl NameServer {
    /// Serves these names. Answers are separated by `|`, and the addresses of an answer by blanks.
    pub(crate) async fn serve(names: &[(&str, &str)]) -> Self {
        let answer = |text: &str| text.split_whitespace().map(|one| one.parse().unwrap()).collect();
        let answers = |text: &str| text.split('|').map(answer).collect();
        let zone = names.iter().map(|(name, text)| ((*name).to_owned(), answers(text)));
        let zone: Zone = zone.collect();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let names = Self { address: socket.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&names.asked);
        tokio::spawn(async move {
            let mut bytes = [0; 4_096];
            while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
                let question = Message::from_vec(&bytes[..length]).unwrap();
                let name = question.queries[0].name().to_ascii().to_lowercase();
                let name = name.trim_end_matches('.').to_owned();
                let kind = question.queries[0].query_type();
                let number = {
                    let mut asked = asked.lock().unwrap();
                    let count = asked.entry((name.clone(), kind)).or_default();
                    *count += 1;
                    *count - 1
                };
                if name != SILENT {
                    let answer = answer_to(&question, zone.get(&name), number);
                    socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
                }
            }
        });
        names
    }

    /// A client that uses only this name server.
    pub(crate) fn config(&self) -> HttpConfig {
        HttpConfig { name_servers: vec![self.address], ..HttpConfig::default() }
    }

    /// How often the addresses of a name were queried.
    pub(crate) fn asked(&self, name: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.get(&(name.to_owned(), RecordType::A)).copied().unwrap_or(0)
    }
}

/// Answers with the addresses of the queried family. They must not be cached.
fn answer_to(question: &Message, answers: Option<&Vec<Vec<IpAddr>>>, number: usize) -> Message {
    let mut message = Message::response(question.metadata.id, OpCode::Query);
    let query = question.queries[0].clone();
    let Some(answers) = answers else {
        message.metadata.response_code = ResponseCode::NXDomain;
        message.add_query(query);
        return message;
    };
    let addresses = answers.get(number).or(answers.last()).unwrap();
    for address in addresses {
        let data = match (query.query_type(), address) {
            (RecordType::A, IpAddr::V4(address)) => RData::A((*address).into()),
            (RecordType::AAAA, IpAddr::V6(address)) => RData::AAAA((*address).into()),
            _ => continue,
        };
        message.add_answer(Record::from_rdata(query.name().clone(), 0, data));
    }
    message.add_query(query);
    message
}
