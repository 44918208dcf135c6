//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them, until told to drain.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::config::Limits;
use crate::metrics::Metrics;
use crate::peer::{Peer, Watched};
use crate::tls::TlsAcceptor;

/// A listener and what is served on it.
#[derive(Clone)]
pub struct Server {
    /// Endpoints.
    pub router: Router,
    /// TLS; none is plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// Limits of a connection.
    pub limits: Arc<Limits>,
    /// When to stop accepting, and to let connections end.
    pub stop: CancellationToken,
    /// When to drop connections.
    pub over: CancellationToken,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Server {
    /// Accepts connections until told to stop, and returns when the last one is closed.
    pub async fn run(self, listener: TcpListener) {
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(self.limits.max_connections));
        let http = self.http();
        loop {
            // The slot comes first: beyond the limit, connections wait in the kernel's backlog.
            let next = async {
                let slot = Arc::clone(&slots).acquire_owned().await;
                (slot, listener.accept().await)
            };
            let (slot, accepted) = tokio::select! {
                () = self.stop.cancelled() => break,
                next = next => next,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (server, http) = (self.clone(), http.clone());
                    connections.spawn(async move {
                        let _slot = slot;
                        server.connection(stream, &http).await;
                    });
                }
                Err(error) => {
                    // Out of file descriptors or the like; the next accept would fail at once again.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        connections.close();
        connections.wait().await;
    }

    fn http(&self) -> auto::Builder<TokioExecutor> {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.max_header_bytes as usize);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.max_concurrent_streams)
            .max_header_list_size(self.limits.max_header_bytes)
            // A client that opens and resets streams in a loop is sent away after this many that we had no time for.
            .max_pending_accept_reset_streams(32)
            .max_local_error_reset_streams(256)
            .max_send_buf_size(64 << 10)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(20));
        http
    }

    async fn connection(self, stream: TcpStream, http: &auto::Builder<TokioExecutor>) {
        let _open = self.metrics.connection();
        // Events are small and must not wait for company.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = &self.tls else {
            return self.serve(stream, http.clone()).await;
        };
        let handshake = tokio::time::timeout(self.limits.handshake_timeout, tls.accept(stream));
        match handshake.await {
            Ok(Ok(stream)) => {
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let http = if h2 { http.clone().http2_only() } else { http.clone().http1_only() };
                self.serve(stream, http).await;
            }
            Ok(Err(error)) => {
                self.metrics.handshake_failed();
                tracing::debug!(%error, "TLS handshake failed");
            }
            Err(_) => {
                self.metrics.handshake_failed();
                tracing::debug!("TLS handshake timed out");
            }
        }
    }

    async fn serve<I>(&self, io: I, http: auto::Builder<TokioExecutor>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = Arc::new(Peer::default());
        let io = TokioIo::new(Watched::new(io, Arc::clone(&peer)));
        let (router, of_request) = (self.router.clone(), Arc::clone(&peer));
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut router = router.clone();
            let active = of_request.request();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(&of_request));
            async move {
                let response = router.call(request).await;
                drop(active);
                Ok::<_, Infallible>(response.unwrap_or_else(|never| match never {}))
            }
        });
        let connection = http.serve_connection(io, service);
        tokio::pin!(connection);
        let mut draining = false;
        let mut idle = tokio::time::interval(self.limits.header_timeout);
        idle.tick().await;
        let mut seen = None;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = peer.is_cut() => return,
                () = self.over.cancelled() => return,
                () = self.stop.cancelled(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = idle.tick() => {
                    let (running, started) = peer.activity();
                    match seen.replace(started) {
                        Some(before) if before == started && running == 0 && draining => return,
                        Some(before) if before == started && running == 0 => {
                            draining = true;
                            connection.as_mut().graceful_shutdown();
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}
