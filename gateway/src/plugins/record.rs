//! What was given to a parser, kept so that the stream can be given to another parser.

use std::ops::Range;

/// The pushes of one stream, in order.
#[derive(Debug, Default)]
pub(super) struct Record {
    text: String,
    ids: Vec<u32>,
    /// Ends of each push in `text`; small, because deltas are a few bytes each and thousands of streams live.
    ends: Vec<u32>,
    /// Ends in `ids`, up to the last push that had any.
    id_ends: Vec<u32>,
    limit: usize,
    lost: bool,
}

impl Record {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.min(u32::MAX as usize), ..Self::default() }
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
        self.ends.push(end(self.text.len()));
        if !ids.is_empty() {
            self.id_ends.resize(self.ends.len() - 1, end(self.ids.len()));
            self.ids.extend_from_slice(ids);
            self.id_ends.push(end(self.ids.len()));
        }
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
            Some(before) => self.ends.get(before).map_or("", |end| &self.text[*end as usize..]),
        }
    }

    fn ranges(&self, n: usize) -> (Range<usize>, Range<usize>) {
        let start = |ends: &[u32]| n.checked_sub(1).map(|before| ends.get(before).copied());
        let text = start(&self.ends).flatten().unwrap_or(0)..self.ends[n];
        let last = end(self.ids.len());
        let ids =
            start(&self.id_ends).map_or(0, |end| end.unwrap_or(last))..self.id_ends.get(n).copied().unwrap_or(last);
        (text.start as usize..text.end as usize, ids.start as usize..ids.end as usize)
    }
}

/// A place in the record; the limit keeps it small.
fn end(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_come_back_with_and_without_ids() {
        let mut record = Record::new(1 << 10);
        let pushes: [(&str, &[u32]); 6] = [("a", &[]), ("", &[1, 2]), ("bc", &[]), ("d", &[3]), ("", &[]), ("é", &[])];
        for (text, ids) in pushes {
            record.add(text, ids);
        }
        for (n, push) in pushes.iter().enumerate() {
            assert_eq!(record.get(n), *push, "push {n}");
        }
        assert_eq!((record.text_from(0), record.text_from(3), record.text_from(6)), ("abcdé", "dé", ""));
        record.add(&"x".repeat(1 << 10), &[]);
        assert!(!record.is_complete());
    }
}
