//! One connection as its requests see it: whether the client has stopped sending, and a way to cut it.
//!
//! hyper takes the end of a client's sending side for its departure. For an HTTP/1.1 stream that is one of two things:
//! the client left, or it only closed its sending side and reads on. So the end is kept from hyper while a stream
//! runs, and the stream writes comments to find out: to a socket that was closed, the second one fails.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A connection's shared state.
#[derive(Debug, Default)]
pub struct Peer {
    /// The client's sending side has ended.
    ended: CancellationToken,
    /// The connection is to be dropped.
    cut: CancellationToken,
    /// Streams that keep an end from hyper.
    holding: AtomicUsize,
    /// An end was kept from hyper.
    held: AtomicBool,
    reader: AtomicWaker,
    active: AtomicUsize,
    begun: AtomicU64,
}

impl Peer {
    /// Completes when the client's sending side ends.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Drops the connection, whatever it is doing.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    /// Completes when the connection is to be dropped.
    pub async fn is_cut(&self) {
        self.cut.cancelled().await;
    }

    /// Counts a request for the idle check until the guard is dropped.
    #[must_use]
    pub fn request(self: &Arc<Self>) -> Active {
        self.active.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        Active(Arc::clone(self))
    }

    /// Keeps the end of the client's sending side from hyper until the guard is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>) -> Hold {
        self.holding.fetch_add(1, Ordering::AcqRel);
        Hold(Arc::clone(self))
    }

    /// Requests that run, and requests begun so far.
    #[must_use]
    pub fn activity(&self) -> (usize, u64) {
        (self.active.load(Ordering::Acquire), self.begun.load(Ordering::Acquire))
    }
}

/// See [`Peer::request`].
#[derive(Debug)]
pub struct Active(Arc<Peer>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

/// See [`Peer::hold`].
#[derive(Debug)]
pub struct Hold(Arc<Peer>);

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.holding.fetch_sub(1, Ordering::AcqRel) == 1 && self.0.held.load(Ordering::Acquire) {
            self.0.reader.wake();
        }
    }
}

/// A connection's bytes, watched for the end of the client's sending side.
pub struct Watched<I> {
    inner: I,
    peer: Arc<Peer>,
}

impl<I> Watched<I> {
    /// Watches `inner` on behalf of `peer`.
    pub fn new(inner: I, peer: Arc<Peer>) -> Self {
        Self { inner, peer }
    }
}

impl<I> fmt::Debug for Watched<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if buf.remaining() == 0 {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        if !self.peer.ended.is_cancelled() {
            match std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buf)) {
                Ok(()) if buf.filled().len() > before => return Poll::Ready(Ok(())),
                Ok(()) => {}
                // TLS without its closing message: the same end, less politely.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.peer.ended.cancel();
        }
        // Register before looking, so that a stream that ends in between wakes us.
        self.peer.reader.register(cx.waker());
        self.peer.held.store(true, Ordering::Release);
        if self.peer.holding.load(Ordering::Acquire) > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn an_end_is_kept_while_a_stream_runs_and_delivered_after() {
        let peer = Arc::new(Peer::default());
        let mut io = Watched::new(&b"hi"[..], Arc::clone(&peer));
        let hold = peer.hold();
        let mut buf = [0; 8];
        assert_eq!(io.read(&mut buf).await.unwrap(), 2);
        let read = tokio::spawn(async move { io.read(&mut [0; 8]).await.unwrap() });
        peer.ended().await;
        assert!(!read.is_finished());
        drop(hold);
        assert_eq!(read.await.unwrap(), 0);
    }

    #[tokio::test]
    async fn without_a_stream_the_end_is_the_end() {
        let peer = Arc::new(Peer::default());
        let mut io = Watched::new(&b""[..], Arc::clone(&peer));
        assert_eq!(io.read(&mut [0; 8]).await.unwrap(), 0);
        peer.ended().await;
    }
}
