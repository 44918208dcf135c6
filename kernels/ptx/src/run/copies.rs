//! Asynchronous copies to shared memory: in flight until their group is waited for.

/// A copy; the rest of `bytes` after `filled` becomes zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: usize,
    pub(super) filled: usize,
}

#[derive(Debug, Default)]
pub(super) struct Copies {
    open: Vec<Copy>,
    /// The oldest first.
    groups: Vec<Vec<Copy>>,
}

impl Copies {
    pub(super) fn start(&mut self, copy: Copy) {
        self.open.push(copy);
    }

    pub(super) fn commit(&mut self) {
        self.groups.push(std::mem::take(&mut self.open));
    }

    /// The copies that have to arrive so that at most `pending` groups are left.
    pub(super) fn wait(&mut self, pending: usize) -> Vec<Copy> {
        let done = self.groups.len().saturating_sub(pending);
        self.groups.drain(..done).flatten().collect()
    }
}
