//! Frames: length, kind, key, payload, checksum. Little-endian.

use std::io::{self, Read, Write};

use crate::transfer::protocol::{Key, ToSink, ToSource};

/// Largest payload that is read; a page of the largest model is far below it.
const MAX_PAYLOAD: usize = 256 << 20;
/// Kind, room, generation, page.
const HEAD: usize = 1 + 8 + 8 + 4;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    ToSource(ToSource),
    ToSink(ToSink),
    /// Nothing; shows that the peer lives.
    Ping,
    /// What the source has for pages beside their frames.
    Offer,
    /// What the sink has chosen of it.
    Accept,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(super) key: Key,
    pub(super) body: Body,
    pub(super) payload: Vec<u8>,
    /// Whether the payload says where a page is, instead of being it.
    pub(super) carried: bool,
}

impl Frame {
    pub(super) fn new(key: Key, body: Body, payload: Vec<u8>) -> Self {
        Self { key, body, payload, carried: false }
    }

    /// A frame that belongs to no transfer.
    pub(super) fn of_link(body: Body, payload: Vec<u8>) -> Self {
        Self::new(Key { room: 0, generation: 0 }, body, payload)
    }

    /// The page that it brings.
    pub(super) fn page(&self) -> Option<u32> {
        if let Body::ToSink(ToSink::Page(page)) = self.body { Some(page) } else { None }
    }

    pub(super) fn ping() -> Self {
        Self::of_link(Body::Ping, Vec::new())
    }
}

fn kind(body: Body) -> (u8, u32) {
    match body {
        Body::ToSource(ToSource::Start) => (1, 0),
        Body::ToSource(ToSource::Grant) => (2, 0),
        Body::ToSource(ToSource::Ack) => (3, 0),
        Body::ToSource(ToSource::Abort) => (4, 0),
        Body::ToSink(ToSink::Started) => (16, 0),
        Body::ToSink(ToSink::Page(page)) => (17, page),
        Body::ToSink(ToSink::Finish) => (18, 0),
        Body::ToSink(ToSink::Closed) => (19, 0),
        Body::Ping => (32, 0),
        Body::Offer => (33, 0),
        Body::Accept => (34, 0),
    }
}

/// Kind of a page that is carried beside its frame.
const CARRIED: u8 = 20;

fn body(kind: u8, page: u32) -> Option<Body> {
    Some(match kind {
        1 => Body::ToSource(ToSource::Start),
        2 => Body::ToSource(ToSource::Grant),
        3 => Body::ToSource(ToSource::Ack),
        4 => Body::ToSource(ToSource::Abort),
        16 => Body::ToSink(ToSink::Started),
        17 | CARRIED => Body::ToSink(ToSink::Page(page)),
        18 => Body::ToSink(ToSink::Finish),
        19 => Body::ToSink(ToSink::Closed),
        32 => Body::Ping,
        33 => Body::Offer,
        34 => Body::Accept,
        _ => return None,
    })
}

fn head(frame: &Frame) -> [u8; HEAD] {
    let (kind, page) = kind(frame.body);
    let mut head = [0; HEAD];
    head[0] = if frame.carried { CARRIED } else { kind };
    head[1..9].copy_from_slice(&frame.key.room.to_le_bytes());
    head[9..17].copy_from_slice(&frame.key.generation.to_le_bytes());
    head[17..].copy_from_slice(&page.to_le_bytes());
    head
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// Writes one frame.
pub(super) fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let head = head(frame);
    let length = u32::try_from(frame.payload.len()).map_err(|_| io::Error::other("a frame is too long to send"))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&head)?;
    to.write_all(&frame.payload)?;
    to.write_all(&checksum(&head, &frame.payload).to_le_bytes())
}

/// Reads one frame. A frame that does not check breaks the link: nothing after it can be trusted.
pub(super) fn read(from: &mut impl Read) -> io::Result<Frame> {
    let broken = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    let length = u32::from_le_bytes(word) as usize;
    if length > MAX_PAYLOAD {
        return Err(broken(format!("a frame claims {length} bytes, more than {MAX_PAYLOAD}")));
    }
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    // Grown as bytes arrive, so that a false length costs nothing.
    let mut payload = Vec::new();
    if from.take(length as u64).read_to_end(&mut payload)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    from.read_exact(&mut word)?;
    if u32::from_le_bytes(word) != checksum(&head, &payload) {
        return Err(broken("a frame's checksum does not match its content".into()));
    }
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let page = u32::from_le_bytes(std::array::from_fn(|i| head[17 + i]));
    let body = body(head[0], page).ok_or_else(|| broken(format!("unknown frame kind {}", head[0])))?;
    Ok(Frame { key: Key { room: long(1), generation: long(9) }, body, payload, carried: head[0] == CARRIED })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_body() -> impl Strategy<Value = Body> {
        (prop_oneof![1..5_u8, 16..20_u8, 32..35_u8], any::<u32>()).prop_map(|(k, p)| body(k, p).unwrap())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bodies in prop::collection::vec((any_body(), any::<(u64, u64)>(), prop::collection::vec(any::<u8>(), 0..300)), 0..5)) {
            let frames: Vec<_> = bodies.into_iter().map(|(b, (room, generation), p)| Frame::new(Key { room, generation }, b, p)).collect();
            let mut bytes = Vec::new();
            frames.iter().for_each(|f| write(&mut bytes, f).unwrap());
            let mut from = &bytes[..];
            let back: Vec<_> = frames.iter().map(|_| read(&mut from).unwrap()).collect();
            prop_assert_eq!(back, frames);
            prop_assert!(read(&mut from).is_err());
        }

        #[test]
        fn a_changed_byte_is_noticed(payload in prop::collection::vec(any::<u8>(), 0..100), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let frame = Frame::new(Key { room: 1, generation: 2 }, Body::ToSink(ToSink::Page(3)), payload);
            let mut bytes = Vec::new();
            write(&mut bytes, &frame).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(read(&mut &bytes[..]).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&mut &bytes[..]);
        }
    }
}
