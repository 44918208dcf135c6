//! How long a sequence's next draft may be: as long as its drafts have been right.

/// Adapts to what was accepted, between one token and the configured number. A draft costs rows of a step, and a
/// text that repeats nothing should cost as few as possible.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DraftLength {
    /// Length of the next draft; 0: not yet known.
    next: usize,
}

impl DraftLength {
    /// Most tokens of the next draft.
    pub(crate) fn next(self, most: usize) -> usize {
        if self.next == 0 { most } else { self.next.min(most) }
    }

    /// Learns from a draft: twice as long after one that was right throughout, else one more than what was right.
    pub(crate) fn learn(&mut self, drafted: usize, accepted: usize) {
        if drafted > 0 {
            self.next = if accepted == drafted { self.next(drafted).max(drafted) * 2 } else { accepted + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_shrink_when_wrong_and_grow_when_right() {
        let mut length = DraftLength::default();
        assert_eq!(length.next(8), 8);
        length.learn(8, 0);
        assert_eq!(length.next(8), 1);
        length.learn(1, 1);
        length.learn(2, 2);
        assert_eq!(length.next(8), 4);
        length.learn(4, 2);
        assert_eq!(length.next(8), 3);
        length.learn(0, 0);
        assert_eq!(length.next(8), 3);
        (0..100).for_each(|_| length.learn(length.next(8), length.next(8)));
        assert_eq!(length.next(8), 8);
    }
}
