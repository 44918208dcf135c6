//! Bytes that grow at their end a few at a time, as a stream's text does.

/// Bytes that lie in the struct itself.
const RECENT: usize = 87;

/// The last bytes lie beside the rest of what a push reads and writes, and move to the heap many at a time: thousands of streams
/// live, the caches are small, and a place on the heap for each would be fetched from memory for each token.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    earlier: Vec<u8>,
    recent: [u8; RECENT],
    used: u8,
}

impl Default for Growing {
    fn default() -> Self {
        Self { earlier: Vec::new(), recent: [0; RECENT], used: 0 }
    }
}

impl Growing {
    /// Appends `bytes`.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let used = usize::from(self.used);
        if let Some(place) = self.recent.get_mut(used..used + bytes.len()) {
            place.copy_from_slice(bytes);
            self.used += bytes.len() as u8;
        } else {
            self.spill(bytes);
        }
    }

    #[inline(never)]
    fn spill(&mut self, bytes: &[u8]) {
        self.earlier.extend_from_slice(&self.recent[..usize::from(self.used)]);
        self.earlier.extend_from_slice(bytes);
        self.used = 0;
    }

    /// All of them.
    pub(super) fn joined(&self) -> Vec<u8> {
        [self.earlier.as_slice(), &self.recent[..usize::from(self.used)]].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_join(pieces in vec(vec(any::<u8>(), 0..120), 0..40)) {
            let mut growing = Growing::default();
            let mut all = Vec::new();
            for piece in &pieces {
                growing.push(piece);
                all.extend_from_slice(piece);
                prop_assert_eq!(&growing.joined(), &all);
            }
        }
    }
}
