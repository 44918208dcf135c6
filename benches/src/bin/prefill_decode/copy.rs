//! A plain copy over loopback: what the link is compared with.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Bytes of one write and one read.
const PIECE: usize = 256 << 10;

/// Seconds for `bytes` from one thread to another.
pub(crate) fn seconds(bytes: usize) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut to = TcpStream::connect(listener.local_addr()?)?;
    let (mut from, _) = listener.accept()?;
    let began = Instant::now();
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let piece = vec![7; PIECE];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(PIECE);
            to.write_all(&piece[..now])?;
            left -= now;
        }
        Ok(())
    });
    let mut kept = vec![0; bytes];
    for piece in kept.chunks_mut(PIECE) {
        from.read_exact(piece)?;
    }
    let took = began.elapsed().as_secs_f64();
    sender.join().ok().context("the sender panicked")??;
    std::hint::black_box(kept);
    Ok(took)
}
