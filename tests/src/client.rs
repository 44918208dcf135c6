//! A client over TLS: one connection a request, so that closing it is the client going away.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::{Answer, Frames};

/// Talks to one listener with one key.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    tls: TlsConnector,
    authorization: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A whole response.
#[derive(Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {:?}", self.body))
    }

    /// This reply, if its status is 200.
    ///
    /// # Errors
    /// It is another; the error carries the body.
    pub fn ok(self) -> Result<Self> {
        ensure!(self.status == StatusCode::OK, "status {}: {:?}", self.status, self.body);
        Ok(self)
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, certificate: &Path, key: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(certificate)? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: Arc::new(config).into(), authorization: format!("Bearer {key}") })
    }

    /// `POST /v1/chat/completions`, not streamed.
    ///
    /// # Errors
    /// The connection fails. Another status than 200 is a reply.
    pub async fn chat(&self, request: &Value) -> Result<Reply> {
        self.send(Method::POST, "/v1/chat/completions", request.to_string().into()).await
    }

    /// `POST /v1/chat/completions` with `"stream": true`.
    ///
    /// # Errors
    /// The connection fails or the status is not 200.
    pub async fn stream(&self, request: &Value) -> Result<EventStream> {
        let mut request = request.clone();
        request["stream"] = true.into();
        let body = Bytes::from(request.to_string());
        let (response, connection) = self.open(Method::POST, "/v1/chat/completions", body).await?;
        if response.status() != StatusCode::OK {
            let reply = whole(response).await?;
            anyhow::bail!("status {}: {:?}", reply.status, reply.body);
        }
        Ok(EventStream {
            body: response.into_body(),
            frames: Frames::default(),
            ready: Vec::new(),
            _connection: connection,
        })
    }

    /// Streams to the end and assembles.
    ///
    /// # Errors
    /// The connection fails, the status is not 200 or the stream breaks the API's shape.
    pub async fn assemble(&self, request: &Value) -> Result<Answer> {
        self.stream(request).await?.assemble().await
    }

    /// Any request.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Reply> {
        let (response, _connection) = self.open(method, path, body).await?;
        whole(response).await
    }

    async fn open(&self, method: Method, path: &str, body: Bytes) -> Result<(Response<Incoming>, Connection)> {
        let tcp = TcpStream::connect(self.address).await.context("cannot connect")?;
        tcp.set_nodelay(true)?;
        let tls = self.tls.connect(ServerName::try_from("localhost")?, tcp).await.context("TLS handshake")?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        let connection = Connection(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let response = sender.send_request(request).await.context("no response")?;
        Ok((response, connection))
    }
}

async fn whole(response: Response<Incoming>) -> Result<Reply> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.context("the body broke off")?.to_bytes();
    Ok(Reply { status: head.status, headers: head.headers, body })
}

/// Dropped, it closes the socket.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A running stream. Dropped, it closes its connection.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    frames: Frames,
    /// Complete frames that nobody has taken, last first.
    ready: Vec<String>,
    _connection: Connection,
}

impl EventStream {
    /// The data of the next frame; `None` at the end.
    ///
    /// # Errors
    /// The connection breaks, or what comes is no stream of events.
    pub async fn next(&mut self) -> Result<Option<String>> {
        while self.ready.is_empty() {
            let Some(frame) = self.body.frame().await else {
                ensure!(self.frames.is_whole(), "the stream ended inside a frame");
                return Ok(None);
            };
            if let Ok(bytes) = frame.context("the stream broke off")?.into_data() {
                self.ready = self.frames.push(&bytes)?;
                self.ready.reverse();
            }
        }
        Ok(self.ready.pop())
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// See [`Self::next`]; or the stream breaks the API's shape.
    pub async fn assemble(mut self) -> Result<Answer> {
        let mut answer = Answer::default();
        while let Some(data) = self.next().await? {
            answer.push(&data)?;
        }
        Ok(answer)
    }
}
