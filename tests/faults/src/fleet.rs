//! The daemons of a row. Each start is an incarnation with a name of its own, such as `r2-5`, which its
//! handlers report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use duebox_harness::{Daemon, LogLine, duebox_binary, send_signal};

use crate::ledger::{Ledger, Name};
use crate::load::Addresses;
use crate::process::Figures;

/// A place for one daemon after the other.
struct Seat {
    number: usize,
    starts: u32,
    binary: PathBuf,
    env: Vec<(String, String)>,
    running: Option<Running>,
}

/// A daemon that runs.
struct Running {
    daemon: Daemon,
    incarnation: String,
    address: std::net::SocketAddr,
}

/// The daemons.
pub(crate) struct Fleet {
    manifest: PathBuf,
    ledger: Arc<Ledger>,
    addresses: Addresses,
    seats: Vec<Seat>,
    /// Panics that daemons logged.
    pub(crate) panics: Vec<String>,
}

impl Fleet {
    pub(crate) fn new(manifest: &Path, ledger: &Arc<Ledger>, addresses: &Addresses) -> Self {
        let (ledger, addresses) = (Arc::clone(ledger), Arc::clone(addresses));
        let manifest = manifest.to_owned();
        Self { manifest, ledger, addresses, seats: Vec::new(), panics: Vec::new() }
    }

    /// Where producers find the daemons that run.
    pub(crate) fn addresses(&self) -> Addresses {
        Arc::clone(&self.addresses)
    }

    /// Adds a seat whose daemons have this environment, and starts the first one.
    pub(crate) fn add(&mut self, env: &[(&str, String)]) -> anyhow::Result<usize> {
        self.add_binary(&duebox_binary(), env)
    }

    /// The same with another binary.
    pub(crate) fn add_binary(
        &mut self,
        binary: &Path,
        env: &[(&str, String)],
    ) -> anyhow::Result<usize> {
        let number = self.seats.len();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let binary = binary.to_owned();
        self.seats.push(Seat { number, starts: 0, binary, env, running: None });
        self.start(number)?;
        Ok(number)
    }

    /// Starts a daemon in this seat and waits until it serves HTTP.
    pub(crate) fn start(&mut self, seat: usize) -> anyhow::Result<()> {
        let manifest = self.manifest.clone();
        let seat = self.seats.get_mut(seat).context("no such seat")?;
        ensure!(seat.running.is_none(), "a daemon runs in seat {}", seat.number);
        seat.starts += 1;
        let incarnation = format!("r{}-{}", seat.number, seat.starts);
        let daemon = Daemon::start_binary(&seat.binary, &manifest, |command| {
            command.env("INCARNATION", &incarnation).envs(seat.env.iter().cloned());
        });
        let line = daemon.wait_for_line("HTTP", |line| line.message() == "HTTP is served");
        let address = line.str("address").parse().context("the daemon's address is invalid")?;
        seat.running = Some(Running { daemon, incarnation, address });
        self.addresses.write().push(address);
        Ok(())
    }

    pub(crate) fn pid(&self, seat: usize) -> anyhow::Result<u32> {
        Ok(self.running(seat)?.daemon.pid())
    }

    /// Whether a daemon runs in this seat.
    pub(crate) fn runs(&self, seat: usize) -> bool {
        self.running(seat).is_ok()
    }

    pub(crate) fn address(&self, seat: usize) -> anyhow::Result<std::net::SocketAddr> {
        Ok(self.running(seat)?.address)
    }

    /// Kills the daemon of this seat (SIGKILL).
    pub(crate) fn kill(&mut self, seat: usize) -> anyhow::Result<()> {
        let mut ended = self.take(seat)?;
        let at = Instant::now();
        ended.daemon.kill();
        self.ledger.broke(&ended.incarnation, at, None);
        self.read_log(&mut ended);
        Ok(())
    }

    /// Records a daemon that something else has killed after `from`; false while it still runs.
    pub(crate) fn was_killed(&mut self, seat: usize, from: Instant) -> anyhow::Result<bool> {
        let running = self.seats.get_mut(seat).and_then(|seat| seat.running.as_mut());
        if running.context("no daemon runs in this seat")?.daemon.exited().is_none() {
            return Ok(false);
        }
        let mut ended = self.take(seat)?;
        self.ledger.broke(&ended.incarnation, from, None);
        self.read_log(&mut ended);
        Ok(true)
    }

    /// Freezes the daemon of this seat for so long.
    pub(crate) fn freeze(&mut self, seat: usize, time: Duration) -> anyhow::Result<()> {
        let running = self.running(seat)?;
        let from = Instant::now();
        send_signal("STOP", running.daemon.pid());
        // Producers would wait for it.
        let address = running.address;
        self.addresses.write().retain(|known| *known != address);
        std::thread::sleep(time);
        let running = self.running(seat)?;
        send_signal("CONT", running.daemon.pid());
        self.addresses.write().push(address);
        self.ledger.broke(&running.incarnation, from, Some(Instant::now()));
        Ok(())
    }

    pub(crate) fn signal(&self, seat: usize, name: &str) -> anyhow::Result<()> {
        send_signal(name, self.pid(seat)?);
        Ok(())
    }

    /// The resident memory of the largest daemon that runs, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let running = self.seats.iter().filter_map(|seat| seat.running.as_ref());
        running.map(|running| Figures::of(running.daemon.pid()).memory_kib).max().unwrap_or(0)
    }

    /// Stops all daemons (SIGTERM) and reads their logs. Returns what was wrong with their ends.
    pub(crate) fn stop(&mut self) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        for seat in 0..self.seats.len() {
            if self.seats[seat].running.is_some() {
                let mut ended = self.take(seat)?;
                let status = ended.daemon.terminate();
                if !status.success() {
                    wrong.push(format!("{} ended with {status} after SIGTERM", ended.incarnation));
                }
                self.read_log(&mut ended);
            }
        }
        wrong.append(&mut self.panics);
        Ok(wrong)
    }

    fn running(&self, seat: usize) -> anyhow::Result<&Running> {
        let running = self.seats.get(seat).and_then(|seat| seat.running.as_ref());
        running.context("no daemon runs in this seat")
    }

    fn take(&mut self, seat: usize) -> anyhow::Result<Running> {
        let running = self.seats.get_mut(seat).and_then(|seat| seat.running.take());
        let running = running.context("no daemon runs in this seat")?;
        self.addresses.write().retain(|address| *address != running.address);
        Ok(running)
    }

    /// Records the jobs that the log calls done, and panics.
    fn read_log(&mut self, ended: &mut Running) {
        ended.daemon.wait_exit();
        let lines = ended.daemon.lines();
        let mut books = self.ledger.books();
        for line in &lines {
            if line.has("settled", "done") {
                *books.done.entry(job(line)).or_default() += 1;
            } else if line.text().contains("panicked at") {
                self.panics.push(format!("{}: {}", ended.incarnation, line.text()));
            }
        }
    }
}

fn job(line: &LogLine) -> Name {
    Name::new(line.str("topic"), line.str("job_id"))
}
