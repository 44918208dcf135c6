//! gRPC over the TLS that follows from the shared secret: the gateway's way in, and the worker's door.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sluicegate_backend::engine::Identity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic::transport::{Channel, Endpoint};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections that are through their handshake and wait to be served.
const WAITING: usize = 16;
/// How long the door waits when the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to a worker.
///
/// # Errors
/// Nobody listens, or whoever does knows another secret.
pub(crate) async fn connect(
    endpoint: Endpoint,
    address: SocketAddr,
    identity: &Identity,
) -> Result<Channel, tonic::transport::Error> {
    let connector = TlsConnector::from(Arc::clone(&identity.client));
    let dial = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move { dial(address, connector).await.map(TokioIo::new).map_err(Identity::explain) }
    });
    endpoint.connect_with_connector(dial).await
}

async fn dial(address: SocketAddr, connector: TlsConnector) -> io::Result<client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    // Keys are pinned, so the name says nothing; it is not sent either.
    let name = ServerName::try_from("sluicegate").map_err(io::Error::other)?;
    connector.connect(name, stream).await
}

/// Connections of gateways that know the secret.
#[derive(Debug)]
pub(crate) struct Incoming(mpsc::Receiver<io::Result<Accepted>>);

impl Incoming {
    /// Accepts until `stop`, each handshake on a task of its own, so that a stranger holds up nobody.
    pub(crate) fn of(listener: TcpListener, identity: &Identity, stop: CancellationToken) -> Self {
        let (send, accepted) = mpsc::channel(WAITING);
        let acceptor = TlsAcceptor::from(Arc::clone(&identity.server));
        tokio::spawn(async move {
            while let Some(next) = stop.run_until_cancelled(listener.accept()).await {
                let Ok((stream, peer)) = next else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let (acceptor, send) = (acceptor.clone(), send.clone());
                tokio::spawn(async move {
                    match shake_hands(stream, &acceptor).await {
                        // Nobody hears it once the worker ends.
                        Ok(stream) => drop(send.send(Ok(Accepted(stream))).await),
                        Err(error) => tracing::warn!(%peer, %error, "a gateway was refused"),
                    }
                });
            }
        });
        Self(accepted)
    }
}

async fn shake_hands(stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<server::TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(done) => done.map_err(Identity::explain),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no TLS handshake in time")),
    }
}

impl Stream for Incoming {
    type Item = io::Result<Accepted>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Accepted(server::TlsStream<TcpStream>);

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.0.get_ref().0.connect_info()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
