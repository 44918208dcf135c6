//! Threads that compute masks. They start with the first request that has a grammar and end with the engine.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Most threads; a mask is computed by one.
const MOST_THREADS: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait. A sequence has at most one, so there are never more than running sequences.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct MaskPool {
    inner: Arc<Inner>,
    started: OnceLock<()>,
}

impl fmt::Debug for MaskPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskPool").field("started", &self.started.get().is_some()).finish_non_exhaustive()
    }
}

impl MaskPool {
    /// Runs a job soon.
    pub(crate) fn run(&self, job: Job) {
        self.started.get_or_init(|| self.start());
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.inner.changed.notify_one();
    }

    fn start(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.min(MOST_THREADS) {
            let inner = Arc::clone(&self.inner);
            let thread = std::thread::Builder::new().name("sluicegate-masks".into());
            if let Err(error) = thread.spawn(move || inner.work()) {
                tracing::error!(%error, "no thread for grammar masks; requests with grammars wait for those there are");
            }
        }
    }
}

impl Drop for MaskPool {
    fn drop(&mut self) {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.inner.changed.notify_all();
    }
}

impl Inner {
    /// Works until the pool is dropped and nothing waits.
    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
