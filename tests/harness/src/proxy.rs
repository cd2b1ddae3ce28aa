//! A TCP proxy in front of a server. It cuts, refuses, stalls and delays connections, and loses replies.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a stalled connection looks whether it may go on.
const STALL_POLL: Duration = Duration::from_millis(1);
/// Bytes passed on at once.
const CHUNK: usize = 64 * 1024;

/// A proxy on its own loopback port. Dropping it closes every connection through it.
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    over: AtomicBool,
    refuses: AtomicBool,
    stalls: AtomicBool,
    delay_us: AtomicU64,
    /// The reply to the next request that contains these bytes is lost after so many bytes of it.
    loses: Mutex<Option<(Vec<u8>, usize)>>,
    lost: AtomicUsize,
    /// Bytes of a request, and the longest reply to one that contains them.
    measured: Mutex<Option<(Vec<u8>, usize)>>,
    accepted: AtomicUsize,
    open: Mutex<Vec<Arc<Pair>>>,
}

/// The two sockets of a connection.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// The next reply is lost after so many bytes.
    loses: Mutex<Option<usize>>,
    /// The next part of a reply is to be measured.
    is_measured: AtomicBool,
    is_half_open: AtomicBool,
    is_closed: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of a loopback port.
    ///
    /// # Panics
    /// If no loopback port is free.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap_or_else(|error| panic!("no free loopback port: {error}"));
        let port = match listener.local_addr() {
            Ok(address) => address.port(),
            Err(error) => panic!("the proxy has no address: {error}"),
        };
        let faults = Arc::<Faults>::default();
        let accepting = Arc::clone(&faults);
        thread::spawn(move || accept(&listener, to, &accepting));
        Self { port, faults }
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a Redis behind the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Closes every open connection and returns their number.
    pub fn cut(&self) -> usize {
        let open = std::mem::take(&mut *lock(&self.faults.open));
        open.iter().for_each(|pair| pair.close());
        open.len()
    }

    /// Closes new connections as soon as they are made, or no longer.
    pub fn refuse(&self, refuses: bool) {
        self.faults.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Passes no bytes and leaves connections open, or passes them on again.
    pub fn stall(&self, stalls: bool) {
        self.faults.stalls.store(stalls, Ordering::SeqCst);
    }

    /// Delays each part of a reply.
    pub fn delay(&self, delay: Duration) {
        let us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.faults.delay_us.store(us, Ordering::SeqCst);
    }

    /// Loses the reply to the next request that contains `needle` in one part: the server gets the request,
    /// the client gets `after` bytes of the reply, and then the connection closes.
    pub fn lose_reply_to(&self, needle: &str, after: usize) {
        *lock(&self.faults.loses) = Some((needle.as_bytes().to_vec(), after));
    }

    /// Measures replies to requests that contain `needle` in one part.
    pub fn measure_replies_to(&self, needle: &str) {
        *lock(&self.faults.measured) = Some((needle.as_bytes().to_vec(), 0));
    }

    /// The longest measured reply in bytes; of one that arrives in parts, the first part.
    pub fn longest_reply(&self) -> usize {
        lock(&self.faults.measured).as_ref().map_or(0, |measured| measured.1)
    }

    /// Passes nothing more on the open connections and leaves them open; new ones work.
    pub fn half_open(&self) {
        let open = lock(&self.faults.open);
        open.iter().for_each(|pair| pair.is_half_open.store(true, Ordering::SeqCst));
    }

    /// Replies lost so far.
    pub fn lost(&self) -> usize {
        self.faults.lost.load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.faults.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        self.cut();
    }
}

impl Pair {
    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Both fail only if the socket is closed already.
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
    }
}

fn accept(listener: &TcpListener, to: u16, faults: &Arc<Faults>) {
    for client in listener.incoming() {
        if faults.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        faults.accepted.fetch_add(1, Ordering::SeqCst);
        if faults.refuses.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { continue };
        drop(client.set_nodelay(true));
        drop(server.set_nodelay(true));
        let pair = Arc::new(Pair {
            client,
            server,
            loses: Mutex::default(),
            is_measured: AtomicBool::default(),
            is_half_open: AtomicBool::default(),
            is_closed: AtomicBool::default(),
        });
        let mut open = lock(&faults.open);
        open.retain(|pair| !pair.is_closed.load(Ordering::SeqCst));
        open.push(Arc::clone(&pair));
        drop(open);
        for is_reply in [false, true] {
            let (pair, faults) = (Arc::clone(&pair), Arc::clone(faults));
            thread::spawn(move || {
                pump(&pair, &faults, is_reply);
                pair.close();
            });
        }
    }
}

/// Passes on one direction of a connection until it closes.
fn pump(pair: &Pair, faults: &Faults, is_reply: bool) {
    let (mut from, mut to) =
        if is_reply { (&pair.server, &pair.client) } else { (&pair.client, &pair.server) };
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut part = &buffer[..count];
        let is_stalled = || {
            let is_held = faults.stalls.load(Ordering::SeqCst);
            is_held || pair.is_half_open.load(Ordering::SeqCst)
        };
        while is_stalled() && !pair.is_closed.load(Ordering::SeqCst) {
            thread::sleep(STALL_POLL);
        }
        let mut is_lost = false;
        if is_reply {
            thread::sleep(Duration::from_micros(faults.delay_us.load(Ordering::SeqCst)));
            measure(pair, faults, count);
            if let Some(after) = lock(&pair.loses).as_mut() {
                part = &part[..count.min(*after)];
                is_lost = count > *after;
                *after -= part.len();
            }
        } else {
            arm(pair, faults, part);
        }
        let is_passed = to.write_all(part).is_ok();
        if is_lost {
            faults.lost.fetch_add(1, Ordering::SeqCst);
        }
        if is_lost || !is_passed {
            return;
        }
    }
}

/// Measures the first part of a reply, if it is meant.
fn measure(pair: &Pair, faults: &Faults, count: usize) {
    if pair.is_measured.swap(false, Ordering::SeqCst)
        && let Some((_, longest)) = lock(&faults.measured).as_mut()
    {
        *longest = (*longest).max(count);
    }
}

/// Marks the connection if this request is the one whose reply is to be lost, or measured.
fn arm(pair: &Pair, faults: &Faults, request: &[u8]) {
    let mut loses = lock(&faults.loses);
    let is_meant = |needle: &[u8]| request.windows(needle.len().max(1)).any(|part| part == needle);
    let is_measured = lock(&faults.measured).as_ref().is_some_and(|(needle, _)| is_meant(needle));
    pair.is_measured.fetch_or(is_measured, Ordering::SeqCst);
    if loses.as_ref().is_some_and(|(needle, _)| is_meant(needle)) {
        *lock(&pair.loses) = loses.take().map(|(_, after)| after);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisServer;

    fn ask(stream: &mut TcpStream, request: &str) -> Option<String> {
        stream.write_all(request.as_bytes()).ok()?;
        let mut reply = [0; 64];
        let count = stream.read(&mut reply).ok().filter(|count| *count > 0)?;
        Some(String::from_utf8_lossy(&reply[..count]).into_owned())
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap()
    }

    #[test]
    fn connections_are_cut_and_refused() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let mut client = connect(&proxy);
        assert_eq!(ask(&mut client, "PING\r\n").unwrap(), "+PONG\r\n");
        assert_eq!(proxy.cut(), 1);
        assert_eq!(ask(&mut client, "PING\r\n"), None);
        proxy.refuse(true);
        assert_eq!(ask(&mut connect(&proxy), "PING\r\n"), None);
        proxy.refuse(false);
        assert!(ask(&mut connect(&proxy), "PING\r\n").is_some());
    }

    #[test]
    fn a_lost_reply_belongs_to_a_command_that_was_carried_out() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        proxy.lose_reply_to("counter", 0);
        let mut client = connect(&proxy);
        assert!(ask(&mut client, "PING\r\n").is_some());
        assert_eq!(ask(&mut client, "INCR counter\r\n"), None);
        assert_eq!((proxy.lost(), server.cli(&["GET", "counter"]).as_str()), (1, "1"));
        assert_eq!(ask(&mut connect(&proxy), "INCR counter\r\n").unwrap(), ":2\r\n");
    }

    #[test]
    fn a_reply_is_measured() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        proxy.measure_replies_to("ECHO");
        let mut client = connect(&proxy);
        for request in ["ECHO abc\r\n", "PING\r\n", "ECHO a\r\n"] {
            assert!(ask(&mut client, request).is_some());
        }
        assert_eq!(proxy.longest_reply(), "$3\r\nabc\r\n".len());
    }

    #[test]
    fn a_half_open_connection_stays_silent_and_a_new_one_works() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let mut client = connect(&proxy);
        assert!(ask(&mut client, "PING\r\n").is_some());
        proxy.half_open();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(ask(&mut client, "PING\r\n"), None);
        assert!(ask(&mut connect(&proxy), "PING\r\n").is_some());
    }

    #[test]
    fn a_stalled_connection_goes_on() {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let mut client = connect(&proxy);
        proxy.stall(true);
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(ask(&mut client, "PING\r\n"), None);
        client.set_read_timeout(None).unwrap();
        proxy.delay(Duration::from_millis(5));
        proxy.stall(false);
        assert_eq!(ask(&mut client, "").unwrap(), "+PONG\r\n");
    }
}
