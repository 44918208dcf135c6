//! What was given to a parser, kept so that the stream can be given to another parser.

use std::ops::Range;

/// The pushes of one stream, in order.
#[derive(Debug, Default)]
pub(super) struct Record {
    text: String,
    ids: Vec<u32>,
    /// Ends of each push in `text` and `ids`.
    ends: Vec<(usize, usize)>,
    limit: usize,
    lost: bool,
}

impl Record {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Adds a push. Beyond the limit the record is given up, so that memory stays bounded.
    pub(super) fn add(&mut self, text: &str, ids: &[u32]) {
        if self.lost {
            return;
        }
        if self.text.len() + text.len() + size_of_val(ids) + size_of_val(self.ids.as_slice()) > self.limit {
            *self = Self { limit: self.limit, lost: true, ..Self::default() };
            return;
        }
        self.text.push_str(text);
        self.ids.extend_from_slice(ids);
        self.ends.push((self.text.len(), self.ids.len()));
    }

    /// Whether the stream can be replayed.
    pub(super) fn is_complete(&self) -> bool {
        !self.lost
    }

    /// Number of pushes.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The n-th push.
    pub(super) fn get(&self, n: usize) -> (&str, &[u32]) {
        let (text, ids) = self.ranges(n);
        (&self.text[text], &self.ids[ids])
    }

    /// The text from the n-th push on; empty if the record was given up.
    pub(super) fn text_from(&self, n: usize) -> &str {
        match n.checked_sub(1) {
            None => &self.text,
            Some(before) => self.ends.get(before).map_or("", |(end, _)| &self.text[*end..]),
        }
    }

    fn ranges(&self, n: usize) -> (Range<usize>, Range<usize>) {
        let (text, ids) = if n == 0 { (0, 0) } else { self.ends[n - 1] };
        let (text_end, ids_end) = self.ends[n];
        (text..text_end, ids..ids_end)
    }
}
