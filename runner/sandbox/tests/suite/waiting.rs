//! Guests that wait for the network: they end at their deadline or when they are interrupted, occupy no thread,
//! and close their connections.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{
    Grants, Handler, HostServices, HttpClient, HttpConfig, Interrupt, InterruptReason, Invocation,
    Limits, RunReport, Sandbox, SandboxConfig,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::http_guest::{HTTP_GUEST, TestRequest, grant, payload};
use crate::support::{Lines, job};
use crate::web_servers::RawServer;

/// How many guests wait at the same time.
const GUESTS: usize = 64;
/// The time limit of a wait in a test, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many threads of this process have this name, including blocking threads of a runtime.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end while the list is read.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|known| known.trim_end() == name).count()
}

/// A server that accepts every request and sends no response. It counts received and open requests.
struct SilentServer {
    server: RawServer,
    taken: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
}

impl SilentServer {
    async fn serve() -> Self {
        let (taken, open) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (take, count) = (Arc::clone(&taken), Arc::clone(&open));
        let server = RawServer::serve(move |mut connection| {
            let (take, count) = (Arc::clone(&take), Arc::clone(&count));
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                take.add_permits(1);
                // Until the client disconnects.
                let _gone = connection.read_u8().await;
                count.fetch_sub(1, Ordering::SeqCst);
            }
        });
        Self { server: server.await, taken, open }
    }

    async fn has_received(&self, requests: usize) {
        let taken = self.taken.acquire_many(requests as u32);
        tokio::time::timeout(PATIENCE, taken).await.expect("all requests come").unwrap().forget();
    }

    async fn is_idle(&self) {
        let gone = async {
            while self.open.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the client hangs up");
    }
}

/// Many guests in their own sandbox.
struct ManyGuests {
    sandbox: Sandbox,
    handler: Handler,
    services: Arc<HostServices>,
    job: Invocation,
}

impl ManyGuests {
    /// Guests that send a request to this origin, on the current runtime.
    fn new(origin: &str, config: HttpConfig, ttr: Duration) -> Self {
        let size = SandboxConfig { max_jobs: GUESTS as u32, memory_max: 64 << 20, tables_max: 100 };
        let sandbox = Sandbox::new(&size).unwrap();
        let http = Some(grant(&[origin], &["127.0.0.1/32"]));
        let limits = Limits { tables: 100, ..Limits::default() };
        let handler = sandbox
            .load(HTTP_GUEST.as_bytes(), limits, Grants { http, ..Grants::default() })
            .unwrap();
        let client = HttpClient::with(tokio::runtime::Handle::current(), config);
        let services =
            Arc::new(HostServices { http: Some(client), ..HostServices::with_logs(Lines::new()) });
        let job = Invocation {
            payload: payload(&[TestRequest::from(&*format!("GET {origin}/\n"))]),
            ttr,
            ..job()
        };
        Self { sandbox, handler, services, job }
    }

    fn start(&self, interrupt: &Interrupt) -> JoinSet<RunReport> {
        let mut running = JoinSet::new();
        for _ in 0..GUESTS {
            let (handler, job, services) =
                (self.handler.clone(), self.job.clone(), Arc::clone(&self.services));
            let interrupt = interrupt.clone();
            running.spawn(async move { handler.run(job, interrupt, services).await });
        }
        running
    }
}

fn runtime(name: &str) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(name).enable_all().build().unwrap()
}

#[test]
fn guests_that_wait_for_a_server_occupy_no_thread_and_end_at_their_deadline() {
    const NAME: &str = "waits-server";
    runtime(NAME).block_on(async {
        let silent = SilentServer::serve().await;
        let origin = format!("http://{}", silent.server.address);
        let guests = ManyGuests::new(&origin, HttpConfig::default(), Duration::from_secs(5));
        let mut running = guests.start(&Interrupt::new());
        silent.has_received(GUESTS).await;
        assert_eq!(silent.open.load(Ordering::SeqCst), GUESTS, "all wait at the same time");
        assert_eq!(threads(NAME), 2, "no guest occupies a thread");
        while let Some(report) = running.join_next().await {
            match report.unwrap().outcome {
                Outcome::Failed(failure) => assert_eq!(failure.class, FailureClass::Timeout),
                other => panic!("{other:?}"),
            }
        }
        silent.is_idle().await;
    });
}

#[test]
fn guests_that_wait_for_a_name_occupy_no_thread_and_end_when_interrupted() {
    const NAME: &str = "waits-name";
    runtime(NAME).block_on(async {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let name_servers = vec![silent.local_addr().unwrap()];
        let config = HttpConfig { name_servers, ..HttpConfig::default() };
        let guests = ManyGuests::new("http://silent.test", config, Duration::from_secs(600));
        let interrupt = Interrupt::new();
        let mut running = guests.start(&interrupt);
        // Each guest queries two families of addresses, or waits for the query of another guest.
        let mut question = [0; 512];
        tokio::time::timeout(PATIENCE, silent.recv_from(&mut question)).await.unwrap().unwrap();
        assert_eq!(threads(NAME), 2);
        interrupt.raise(InterruptReason::Shutdown);
        while let Some(report) = running.join_next().await {
            let outcome = report.unwrap().outcome;
            assert!(matches!(outcome, Outcome::HostFault(_)), "{outcome:?}");
        }
        assert_eq!(threads(NAME), 2);
    });
}

#[tokio::test]
async fn a_dropped_run_closes_its_connection() {
    let silent = SilentServer::serve().await;
    let origin = format!("http://{}", silent.server.address);
    let guests = ManyGuests::new(&origin, HttpConfig::default(), PATIENCE);
    let running = guests.start(&Interrupt::new());
    silent.has_received(GUESTS).await;
    drop(running);
    silent.is_idle().await;
}

#[tokio::test]
async fn a_response_counts_towards_the_memory_budget() {
    let body = "x".repeat(600_000);
    let server =
        RawServer::say(format!("HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n{body}")).await;
    let origin = format!("http://{}", server.address);
    let guests = ManyGuests::new(&origin, HttpConfig::default(), PATIENCE);
    let memory = 200_usize << 16;
    let run =
        || guests.handler.run(guests.job.clone(), Interrupt::new(), Arc::clone(&guests.services));
    for (room, code) in [(1_000_000, 200), (500_000, -6)] {
        guests.sandbox.limit_memory((memory + room).div_ceil(7) * 8);
        let report = run().await;
        let result = report.result.unwrap_or_else(|| panic!("{:?}", report.outcome));
        assert_eq!(i32::from_le_bytes(result[..4].try_into().unwrap()), code);
        // That of the idle instance.
        assert_eq!(guests.sandbox.memory_held(), memory);
    }
}
