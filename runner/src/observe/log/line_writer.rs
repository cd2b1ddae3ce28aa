//! Writes lines in batches: at most one write a millisecond, unless the buffer is full. A write for each
//! line would wake the reader for each line, which can cost both sides more CPU time than the jobs.

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::{Duration, Instant};

/// The shortest time between two writes.
const EVERY: Duration = Duration::from_millis(1);
/// The size of the buffer.
const BYTES_MAX: usize = 64 << 10;

/// Buffers lines until a flush, and keeps flushes apart. It sleeps, so it needs a thread of its own.
pub struct LineWriter<W: Write> {
    lines: BufWriter<W>,
    flushed_at: Option<Instant>,
}

impl<W: Write> LineWriter<W> {
    /// Wraps a writer.
    pub fn new(to: W) -> Self {
        Self { lines: BufWriter::with_capacity(BYTES_MAX, to), flushed_at: None }
    }
}

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.write(bytes)
    }

    /// The first line is written at once, those that follow soon after it a little later.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(at) = self.flushed_at
            && let Some(rest) = EVERY.checked_sub(at.elapsed())
        {
            thread::sleep(rest);
        }
        let flushed = self.lines.flush();
        self.flushed_at = Some(Instant::now());
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records each write with its time.
    #[derive(Default)]
    struct Writes(Vec<(Vec<u8>, Instant)>);

    impl Write for &mut Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push((bytes.to_vec(), Instant::now()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_between_two_flushes_are_one_write_and_writes_are_apart() {
        let mut writes = Writes::default();
        let mut lines = LineWriter::new(&mut writes);
        for burst in 0..10 {
            for line in 0..10 {
                writeln!(lines, "{burst} {line}").unwrap();
            }
            lines.flush().unwrap();
        }
        drop(lines);
        assert_eq!(writes.0.len(), 10);
        assert!(writes.0.windows(2).all(|two| two[1].1 - two[0].1 >= EVERY), "too close");
        let all: Vec<u8> = writes.0.into_iter().flat_map(|(bytes, _)| bytes).collect();
        assert!(all.starts_with(b"0 0\n0 1\n") && all.ends_with(b"9 8\n9 9\n"));
    }

    #[test]
    fn a_full_buffer_is_written_without_a_flush() {
        let mut writes = Writes::default();
        let mut lines = LineWriter::new(&mut writes);
        lines.write_all(&vec![b'x'; 3 * BYTES_MAX]).unwrap();
        drop(lines);
        assert_eq!(writes.0.iter().map(|(bytes, _)| bytes.len()).sum::<usize>(), 3 * BYTES_MAX);
    }
}
