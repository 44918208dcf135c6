//! The promise between a stream's two ends: an engine that finds no room is woken by the client's next read.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

/// What carries the promise; another one explores every interleaving in the tests.
pub(super) trait Flag: Debug {
    /// Sets it and gives the old value, with acquire and release order.
    fn swap(&self, value: bool) -> bool;
}

impl Flag for AtomicBool {
    fn swap(&self, value: bool) -> bool {
        Self::swap(self, value, Ordering::AcqRel)
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Pause<F = AtomicBool>(F);

impl<F: Flag> Pause<F> {
    /// For the engine: whether there is room. If not, the next [`Self::has_read`] says that it must be woken.
    pub(super) fn has_room(&self, fits: impl Fn() -> bool) -> bool {
        if fits() {
            return true;
        }
        // Raised before the second look, so that a read between the two is not missed. A swap, not a store: it takes
        // over what a reader that lowered the flag just before has freed.
        self.0.swap(true);
        fits()
    }

    /// For the reader, after it has made room: whether the engine waits to be woken.
    pub(super) fn has_read(&self) -> bool {
        self.0.swap(false)
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    use super::{Flag, Pause};

    impl Flag for AtomicBool {
        fn swap(&self, value: bool) -> bool {
            Self::swap(self, value, Ordering::AcqRel)
        }
    }

    /// An engine that sleeps whenever it finds no room, and a reader that makes room twice: in no interleaving, and under
    /// no order of memory, does the engine sleep for ever. (Loom fails a model in which nobody can go on.)
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Pause(AtomicBool::new(false)), AtomicUsize::new(0)));
            let engine = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let (pause, room) = &*shared;
                    while !pause.has_room(|| room.load(Ordering::Acquire) >= 2) {
                        thread::park();
                    }
                }
            });
            let (pause, room) = &*shared;
            for _ in 0..2 {
                room.fetch_add(1, Ordering::Release);
                if pause.has_read() {
                    engine.thread().unpark();
                }
            }
            engine.join().unwrap();
        });
    }
}
