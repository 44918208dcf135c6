//! What was given to a parser, kept so that the stream can be given to another parser.

use super::growing::Growing;

/// The pushes of one stream, in order.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// For each push: the length of its text times two, one more if it has ids; then their number; the text, the ids.
    log: Growing,
    pushes: usize,
    /// Bytes of text and ids.
    kept: usize,
    limit: usize,
    lost: bool,
}

impl Record {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Adds a push. Beyond the limit the record is given up, so that memory stays bounded.
    #[inline]
    pub(super) fn add(&mut self, text: &str, ids: &[u32]) {
        if self.lost {
            return;
        }
        self.kept += text.len() + size_of_val(ids);
        if self.kept > self.limit {
            *self = Self { limit: self.limit, lost: true, ..Self::default() };
            return;
        }
        number(&mut self.log, text.len() << 1 | usize::from(!ids.is_empty()));
        if !ids.is_empty() {
            number(&mut self.log, ids.len());
        }
        self.log.push(text.as_bytes());
        for id in ids {
            self.log.push(&id.to_le_bytes());
        }
        self.pushes += 1;
    }

    /// Whether the stream can be replayed.
    pub(super) fn is_complete(&self) -> bool {
        !self.lost
    }

    /// Number of pushes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.pushes
    }

    /// The pushes, to walk over.
    pub(super) fn pushes(&self) -> Pushes {
        Pushes { log: self.log.joined() }
    }

    /// The text from the n-th push on; empty if the record was given up.
    pub(super) fn text_from(&self, n: usize) -> String {
        self.pushes().iter().skip(n).map(|(text, _)| text).collect()
    }
}

/// The pushes of a record.
pub(super) struct Pushes {
    log: Vec<u8>,
}

impl Pushes {
    /// Text and ids of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Vec<u32>)> {
        let mut log = self.log.as_slice();
        std::iter::from_fn(move || {
            let head = read(&mut log)?;
            let ids = if head & 1 == 1 { read(&mut log)? } else { 0 };
            let text = std::str::from_utf8(log.split_off(..head >> 1)?).ok()?;
            let ids = log.split_off(..ids * size_of::<u32>())?.as_chunks().0;
            Some((text, ids.iter().map(|id| u32::from_le_bytes(*id)).collect()))
        })
    }
}

/// Seven bits a byte, the last byte has the eighth bit clear: most lengths take one.
#[inline]
fn number(log: &mut Growing, mut number: usize) {
    while number > 0x7f {
        log.push(&[number as u8 | 0x80]);
        number >>= 7;
    }
    log.push(&[number as u8]);
}

fn read(log: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *log.split_off_first()?;
        number |= usize::from(byte & 0x7f) << shift;
        if byte <= 0x7f {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_come_back_with_and_without_ids() {
        let mut record = Record::new(1 << 20);
        let long = "long ".repeat(1000);
        let pushes: [(&str, &[u32]); 7] =
            [("a", &[]), ("", &[1, u32::MAX]), ("bc", &[]), ("d", &[3]), ("", &[]), ("é", &[]), (&long, &[7; 300])];
        for (text, ids) in pushes {
            record.add(text, ids);
        }
        let kept = record.pushes();
        let back: Vec<_> = kept.iter().collect();
        assert_eq!(back.len(), record.len());
        for (n, ((text, ids), (wanted, wanted_ids))) in back.iter().zip(pushes).enumerate() {
            assert_eq!((*text, ids.as_slice()), (wanted, wanted_ids), "push {n}");
        }
        assert_eq!(record.text_from(0), format!("abcdé{long}"));
        assert_eq!((record.text_from(3), record.text_from(7)), (format!("dé{long}"), String::new()));
    }

    #[test]
    fn beyond_the_limit_nothing_is_kept() {
        let mut record = Record::new(8);
        record.add("12", &[1]);
        record.add("34", &[]);
        assert!(record.is_complete());
        record.add("5", &[]);
        assert!(!record.is_complete());
        assert_eq!((record.len(), record.text_from(0)), (0, String::new()));
    }
}
