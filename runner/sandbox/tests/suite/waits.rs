//! Guests that wait for the network: they end at their deadline or when they are interrupted, hold no thread
//! meanwhile, and leave nothing behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{
    Grants, Handler, HttpClient, HttpConfig, Interrupt, InterruptReason, Invocation, Limits,
    Report, Sandbox, SandboxConfig, World,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::asker::{ASKER, Ask, grant, payload};
use crate::kit::{Lines, job};
use crate::web::Raw;

/// Guests that wait at once.
const GUESTS: usize = 64;
/// As long as nobody should wait, however loaded the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Threads of this process that have this name, also those of a runtime's that only block.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end while the list is read.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|known| known.trim_end() == name).count()
}

/// A server that takes every request and answers none, what it has taken, and how many are still waiting.
struct Mute {
    server: Raw,
    taken: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
}

impl Mute {
    async fn serve() -> Self {
        let (taken, open) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (take, count) = (Arc::clone(&taken), Arc::clone(&open));
        let server = Raw::serve(move |mut connection| {
            let (take, count) = (Arc::clone(&take), Arc::clone(&count));
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                take.add_permits(1);
                // Until the client hangs up.
                let _gone = connection.read_u8().await;
                count.fetch_sub(1, Ordering::SeqCst);
            }
        });
        Self { server: server.await, taken, open }
    }

    async fn has_taken(&self, requests: usize) {
        let taken = self.taken.acquire_many(requests as u32);
        tokio::time::timeout(PATIENCE, taken).await.expect("all requests come").unwrap().forget();
    }

    async fn is_left_alone(&self) {
        let gone = async {
            while self.open.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the client hangs up");
    }
}

/// What many guests need: a sandbox of their own, and a world.
struct Crowd {
    sandbox: Sandbox,
    handler: Handler,
    world: Arc<World>,
    job: Invocation,
}

impl Crowd {
    /// Guests that ask this origin, on the runtime that is entered.
    fn new(origin: &str, config: HttpConfig, ttr: Duration) -> Self {
        let size = SandboxConfig { max_jobs: GUESTS as u32, memory_max: 64 << 20, tables_max: 100 };
        let sandbox = Sandbox::new(&size).unwrap();
        let http = Some(grant(&[origin], &["127.0.0.1/32"]));
        let limits = Limits { tables: 100, ..Limits::default() };
        let handler =
            sandbox.load(ASKER.as_bytes(), limits, Grants { http, ..Grants::default() }).unwrap();
        let client = HttpClient::with(tokio::runtime::Handle::current(), config);
        let world = Arc::new(World { http: Some(client), ..World::of(Lines::new()) });
        let job = Invocation {
            payload: payload(&[Ask::from(&*format!("GET {origin}/\n"))]),
            ttr,
            ..job()
        };
        Self { sandbox, handler, world, job }
    }

    fn start(&self, interrupt: &Interrupt) -> JoinSet<Report> {
        let mut running = JoinSet::new();
        for _ in 0..GUESTS {
            let (handler, job, world) =
                (self.handler.clone(), self.job.clone(), Arc::clone(&self.world));
            let interrupt = interrupt.clone();
            running.spawn(async move { handler.run(job, interrupt, world).await });
        }
        running
    }
}

fn runtime(name: &str) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(name).enable_all().build().unwrap()
}

#[test]
fn guests_that_wait_for_a_server_hold_no_thread_and_end_at_their_deadline() {
    const NAME: &str = "waits-server";
    runtime(NAME).block_on(async {
        let mute = Mute::serve().await;
        let origin = format!("http://{}", mute.server.address);
        let crowd = Crowd::new(&origin, HttpConfig::default(), Duration::from_secs(5));
        let mut running = crowd.start(&Interrupt::new());
        mute.has_taken(GUESTS).await;
        assert_eq!(mute.open.load(Ordering::SeqCst), GUESTS, "all wait at once");
        assert_eq!(threads(NAME), 2, "and none of them holds a thread");
        while let Some(report) = running.join_next().await {
            match report.unwrap().outcome {
                Outcome::Failed(failure) => assert_eq!(failure.class, FailureClass::Timeout),
                other => panic!("{other:?}"),
            }
        }
        mute.is_left_alone().await;
    });
}

#[test]
fn guests_that_wait_for_a_name_hold_no_thread_and_end_when_interrupted() {
    const NAME: &str = "waits-name";
    runtime(NAME).block_on(async {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let name_servers = vec![silent.local_addr().unwrap()];
        let config = HttpConfig { name_servers, ..HttpConfig::default() };
        let crowd = Crowd::new("http://silent.test", config, Duration::from_secs(600));
        let interrupt = Interrupt::new();
        let mut running = crowd.start(&interrupt);
        // Each asks for its addresses by itself, of two kinds, or waits with one that has asked already.
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
async fn a_run_that_is_dropped_hangs_up() {
    let mute = Mute::serve().await;
    let origin = format!("http://{}", mute.server.address);
    let crowd = Crowd::new(&origin, HttpConfig::default(), PATIENCE);
    let running = crowd.start(&Interrupt::new());
    mute.has_taken(GUESTS).await;
    drop(running);
    mute.is_left_alone().await;
}

#[tokio::test]
async fn what_a_response_holds_is_memory_of_all_guests() {
    let body = "x".repeat(600_000);
    let server = Raw::say(format!("HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n{body}")).await;
    let origin = format!("http://{}", server.address);
    let crowd = Crowd::new(&origin, HttpConfig::default(), PATIENCE);
    let memory = 200_usize << 16;
    let run = || crowd.handler.run(crowd.job.clone(), Interrupt::new(), Arc::clone(&crowd.world));
    for (room, code) in [(1_000_000, 200), (500_000, -6)] {
        crowd.sandbox.limit_memory((memory + room).div_ceil(7) * 8);
        let report = run().await;
        let result = report.result.unwrap_or_else(|| panic!("{:?}", report.outcome));
        assert_eq!(i32::from_le_bytes(result[..4].try_into().unwrap()), code);
        assert_eq!(crowd.sandbox.memory_held(), 0);
    }
}
