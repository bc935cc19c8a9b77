//! Text files cut into chunks of whole records, which several threads read at once.
//!
//! The calling thread cuts, hands out, and takes the results in the order of the file; so what it does with them does not
//! depend on the threads. A bounded number of chunks is on its way.

use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::read_error;
use crate::error::EngineError;

/// How much text makes a chunk, bytes: some thousand records, and little enough that many fit into a cache of a processor.
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks on their way for each thread: one that it works on, and one that waits.
const CHUNKS_PER_THREAD: usize = 2;

/// A chunk, and where its result goes.
type Job<T> = (Vec<u8>, SyncSender<T>);

/// Reads `input` to its end. `whole` says how many bytes at the start of a text are whole records; `read` reads a chunk on
/// one of `threads` threads; `take` gets the results in order, with the bytes of each chunk.
///
/// # Errors
/// What reading the input or `take` met. A record of more than `record_bytes_max` bytes is handed to `read` as it stands.
pub(super) fn in_chunks<T: Send>(
    mut input: impl BufRead,
    record_bytes_max: usize,
    threads: usize,
    whole: impl Fn(&[u8]) -> usize,
    read: impl Fn(&[u8]) -> T + Sync,
    mut take: impl FnMut(T, u64) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let (jobs, queue) = sync_channel::<Job<T>>(threads * CHUNKS_PER_THREAD);
    let queue = Arc::new(Mutex::new(queue));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (queue, read) = (Arc::clone(&queue), &read);
            scope.spawn(move || work(&queue, read));
        }
        // Moved in, so that the threads end with it.
        let jobs = jobs;
        let mut on_their_way: VecDeque<(Receiver<T>, u64)> = VecDeque::new();
        let mut rest = Vec::new();
        loop {
            let chunk = next_chunk(&mut input, &mut rest, record_bytes_max, &whole)?;
            let is_end = chunk.is_none();
            if let Some(chunk) = chunk {
                let (result, receiver) = sync_channel(1);
                on_their_way.push_back((receiver, chunk.len() as u64));
                if jobs.send((chunk, result)).is_err() {
                    return Err(EngineError::internal("the threads of a COPY are gone"));
                }
            }
            while is_end && !on_their_way.is_empty() || on_their_way.len() >= threads * CHUNKS_PER_THREAD {
                let Some((receiver, bytes)) = on_their_way.pop_front() else {
                    break;
                };
                let result = receiver.recv();
                take(
                    result.map_err(|_| EngineError::internal("a thread of a COPY is gone"))?,
                    bytes,
                )?;
            }
            if is_end {
                return Ok(());
            }
        }
    })
}

fn work<T>(queue: &Mutex<Receiver<Job<T>>>, read: &impl Fn(&[u8]) -> T) {
    loop {
        // Whoever holds the lock waits for the next chunk; the others wait for the lock.
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((chunk, result)) = job else { return };
        // The caller has given up if nobody takes it.
        let _ = result.send(read(&chunk));
    }
}

/// The next whole records; `None` at the end. What is behind them stays in `rest`.
fn next_chunk(
    input: &mut impl BufRead,
    rest: &mut Vec<u8>,
    record_bytes_max: usize,
    whole: &impl Fn(&[u8]) -> usize,
) -> Result<Option<Vec<u8>>, EngineError> {
    let mut chunk = std::mem::take(rest);
    let mut wanted = CHUNK_BYTES;
    loop {
        while chunk.len() < wanted {
            let read = input.fill_buf().map_err(read_error)?;
            if read.is_empty() {
                return Ok((!chunk.is_empty()).then_some(chunk));
            }
            let taken = read.len().min(wanted - chunk.len());
            chunk.extend_from_slice(&read[..taken]);
            input.consume(taken);
        }
        let end = whole(&chunk);
        if end > 0 {
            *rest = chunk.split_off(end);
            return Ok(Some(chunk));
        }
        if chunk.len() > record_bytes_max {
            return Ok(Some(chunk));
        }
        wanted = chunk.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> usize {
        text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    fn read_all(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        let read = |chunk: &[u8]| {
            String::from_utf8_lossy(chunk)
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        in_chunks(text.as_bytes(), 16 << 20, 3, lines, read, |lines, _| {
            all.extend(lines);
            Ok(())
        })
        .expect("reads");
        all
    }

    #[test]
    fn records_come_whole_and_in_order() {
        let lines: Vec<String> = (0..300_000)
            .map(|row| {
                format!(
                    "row {row} {}
",
                    "x".repeat(row % 50)
                )
            })
            .collect();
        let text = lines.concat();
        assert_eq!(read_all(&text), text.lines().collect::<Vec<_>>());
    }

    #[test]
    fn long_records_and_a_missing_end_of_line_are_fine() {
        let text = format!("{}\n{}\nlast", "a".repeat(5 << 20), "b");
        assert_eq!(read_all(&text).len(), 3);
        assert!(read_all("").is_empty());
    }

    #[test]
    fn an_error_ends_it() {
        let text = "x\n".repeat(4 << 20);
        let ended = in_chunks(
            text.as_bytes(),
            1 << 20,
            2,
            lines,
            |_| (),
            |(), _| Err(EngineError::Canceled),
        );
        assert!(matches!(ended, Err(EngineError::Canceled)));
    }
}
