//! A persistent pool that runs one loop at a time: chunks are taken from a counter, so a core that is busy elsewhere
//! takes fewer, and nothing waits for a worker that took none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Spins before a worker parks: some 50 us, longer than the gaps between a step's operations.
const SPINS: u32 = 4_000;
/// Spins before the caller gives its core away while it waits for the last chunks.
const CALLER_SPINS: u32 = 2_000;

type Job<'a> = &'a (dyn Fn(usize, usize) + Sync);

struct Shared {
    /// Chunks of the present loop in the high half, the next one in the low half.
    tickets: AtomicU64,
    /// Points at the caller's `Job`; valid for whoever holds a ticket below the count, until `done` reaches it.
    job: AtomicPtr<Job<'static>>,
    done: AtomicU32,
    panicked: AtomicBool,
    parked: Vec<AtomicBool>,
    stop: AtomicBool,
}

/// Threads that share the chunks of a loop. The caller is worker 0.
pub struct Threads {
    shared: Arc<Shared>,
    workers: Vec<(Thread, Option<JoinHandle<()>>)>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

impl Threads {
    /// Starts `count - 1` workers; the caller of [`Self::run`] is the other one.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let others = count.max(1) - 1;
        let shared = Arc::new(Shared {
            tickets: AtomicU64::new(0),
            job: AtomicPtr::new(std::ptr::null_mut()),
            done: AtomicU32::new(0),
            panicked: AtomicBool::new(false),
            parked: (0..others).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(others) };
        for i in 0..others {
            let shared = Arc::clone(&pool.shared);
            let handle = thread::Builder::new().name(format!("kernel-{}", i + 1)).spawn(move || shared.work(i))?;
            pool.workers.push((handle.thread().clone(), Some(handle)));
        }
        Ok(pool)
    }

    /// Number of threads, the caller included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(worker, chunk)` once for each chunk, on all threads, and returns when all are done.
    ///
    /// # Panics
    /// If a chunk panicked.
    pub fn run(&mut self, chunks: usize, job: Job<'_>) {
        if chunks <= 1 || self.workers.is_empty() {
            for chunk in 0..chunks {
                job(0, chunk);
            }
            return;
        }
        let s = &*self.shared;
        s.done.store(0, Ordering::Relaxed);
        s.job.store((&raw const job).cast_mut().cast(), Ordering::Relaxed);
        // Publishes the job with the tickets. SeqCst pairs with the check after a worker says that it is parked.
        s.tickets.store((chunks as u64) << 32, Ordering::SeqCst);
        for (parked, (thread, _)) in s.parked.iter().zip(&self.workers) {
            if parked.load(Ordering::SeqCst) && parked.swap(false, Ordering::SeqCst) {
                thread.unpark();
            }
        }
        while s.take(0) {}
        let mut spins = 0;
        while s.done.load(Ordering::Acquire) < chunks as u32 {
            spins += 1;
            if spins < CALLER_SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
        assert!(!s.panicked.load(Ordering::Relaxed), "a kernel panicked on another thread");
    }
}

impl Shared {
    /// Takes one chunk and runs it; false if none is left.
    fn take(&self, worker: usize) -> bool {
        let left = |t: u64| (t as u32) < (t >> 32) as u32;
        if !left(self.tickets.load(Ordering::Relaxed)) {
            return false;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Acquire);
        if !left(ticket) {
            return false;
        }
        // SAFETY: a ticket below the count belongs to the loop whose caller stored this pointer before publishing the
        // count (the fetch_add read that store or its release sequence), and who waits until `done` counts this chunk.
        let job = unsafe { *self.job.load(Ordering::Relaxed) };
        let run = std::panic::AssertUnwindSafe(|| job(worker, ticket as u32 as usize));
        if std::panic::catch_unwind(run).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Release);
        true
    }

    fn work(&self, index: usize) {
        let mut idle = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if self.take(index + 1) {
                idle = 0;
            } else if idle < SPINS {
                idle += 1;
                std::hint::spin_loop();
            } else {
                self.parked[index].store(true, Ordering::SeqCst);
                let tickets = self.tickets.load(Ordering::SeqCst);
                if (tickets as u32) >= (tickets >> 32) as u32 && !self.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.parked[index].store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (thread, handle) in &mut self.workers {
            thread.unpark();
            if let Some(handle) = handle.take() {
                // A worker catches its jobs' panics, so it ends normally.
                drop(handle.join());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once_over_many_loops() {
        for count in [1, 2, 5] {
            let mut pool = Threads::new(count).unwrap();
            for round in 0..3_000 {
                let chunks = round % 37;
                let seen: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
                pool.run(chunks, &|worker, chunk| {
                    assert!(worker < count);
                    seen[chunk].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
                if round % 500 == 0 {
                    // Long enough for the workers to park.
                    thread::sleep(std::time::Duration::from_millis(3));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a kernel panicked")]
    fn a_panic_reaches_the_caller() {
        Threads::new(3).unwrap().run(8, &|_, chunk| assert!(chunk != 5, "chunk 5"));
    }
}
