//! Server-sent events, cut out of a byte stream.

use anyhow::{Result, bail};

/// Splits bytes into frames. Comments are dropped and counted.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    comments: usize,
}

impl Frames {
    /// Adds bytes and returns the data of each frame that they complete.
    ///
    /// # Errors
    /// A frame is neither a comment nor one `data:` line.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>> {
        self.buffer.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let frame = String::from_utf8(frame)?;
            match frame.trim_end().strip_prefix("data: ") {
                Some(data) => complete.push(data.to_owned()),
                None if frame.starts_with(':') => self.comments += 1,
                None => bail!("not a frame: {frame:?}"),
            }
        }
        Ok(complete)
    }

    /// Keep-alive comments so far.
    #[must_use]
    pub fn comments(&self) -> usize {
        self.comments
    }

    /// Whether the bytes so far end with a frame.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_frames() {
        let text = "data: {\"a\":1}\n\n: \n\ndata: ü\n\ndata: [DONE]\n\n".as_bytes();
        for cut in 0..=text.len() {
            let mut frames = Frames::default();
            let mut all = frames.push(&text[..cut]).unwrap();
            all.extend(frames.push(&text[cut..]).unwrap());
            assert_eq!(all, ["{\"a\":1}", "ü", "[DONE]"], "cut at {cut}");
            assert_eq!(frames.comments(), 1);
            assert!(frames.is_whole());
        }
    }

    #[test]
    fn other_lines_are_refused() {
        assert!(Frames::default().push(b"event: x\n\n").is_err());
    }
}
