//! A raw HTTP/1.1 client over TLS: tests decide when it reads, stops, or goes away.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    pub(crate) io: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

/// A response; the body of an event stream is its events' text.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as its framing promises.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Payloads of the stream's events; comments are left out.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text();
        let lines = text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
        lines.map(str::to_owned).collect()
    }

    /// Content of all chunks of choice 0.
    pub(crate) fn content(&self) -> String {
        let chunk = |event: &String| serde_json::from_str::<Value>(event).ok();
        let delta = |c: Value| c["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        self.events().iter().filter_map(chunk).filter_map(delta).collect()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.complete && self.events().last().is_some_and(|e| e == "[DONE]")
    }

    /// The error envelope, checked for its shape.
    pub(crate) fn error(&self) -> Value {
        let body = self.json();
        let error = body["error"].as_object().unwrap_or_else(|| panic!("no error in {body}"));
        let fields: Vec<_> = error.keys().map(String::as_str).collect();
        assert_eq!(fields, ["message", "type", "param", "code"], "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1);
        body["error"].clone()
    }
}

/// A chat request for the recording with this marker.
pub(crate) fn ask(marker: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": marker}]})
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, tls: Arc<ClientConfig>) -> Self {
        let tcp = TcpStream::connect(address).await.unwrap();
        Self::over(tcp, tls).await
    }

    pub(crate) async fn over(tcp: TcpStream, tls: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let io = TlsConnector::from(tls).connect(name, tcp).await.unwrap();
        Self { io, buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, key: &str, body: &[u8]) {
        self.send_with(method, path, key, &[], body).await;
    }

    /// Sends a request with headers of its own.
    pub(crate) async fn send_with(
        &mut self,
        method: &str,
        path: &str,
        key: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) {
        let auth = if key.is_empty() { String::new() } else { format!("authorization: Bearer {key}\r\n") };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{auth}{headers}content-length: {length}\r\n\r\n");
        self.io.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        self.io.flush().await.unwrap();
    }

    pub(crate) async fn chat(&mut self, key: &str, body: &Value) {
        self.send("POST", "/v1/chat/completions", key, body.to_string().as_bytes()).await;
    }

    /// Reads more; false at the end.
    async fn fill(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        let read = tokio::time::timeout(PATIENCE, self.io.read(&mut chunk)).await.expect("the gateway is silent");
        let n = read.unwrap_or(0);
        self.buffer.extend_from_slice(&chunk[..n]);
        n > 0
    }

    /// Reads until the buffer holds `needle`.
    pub(crate) async fn read_until(&mut self, needle: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(needle) {
            assert!(self.fill().await, "ended without {needle}: {}", String::from_utf8_lossy(&self.buffer));
        }
    }

    /// Whether what has been read begins a 200.
    pub(crate) fn is_accepted(&self) -> bool {
        self.buffer.starts_with(b"HTTP/1.1 200")
    }

    /// A whole response.
    pub(crate) async fn response(&mut self) -> Response {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            assert!(self.fill().await, "the connection ended without an answer");
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        self.buffer.drain(..end + 4);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
            .collect();
        let length = headers.iter().find(|(n, _)| n == "content-length").map(|(_, v)| v.parse().unwrap());
        let (body, complete) = match length {
            Some(length) => self.sized(length).await,
            None => self.chunked().await,
        };
        Response { status, headers, body, complete }
    }

    async fn sized(&mut self, length: usize) -> (Vec<u8>, bool) {
        while self.buffer.len() < length {
            if !self.fill().await {
                return (std::mem::take(&mut self.buffer), false);
            }
        }
        (self.buffer.drain(..length).collect(), true)
    }

    async fn chunked(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(at) = find(&self.buffer, b"\r\n") else {
                if !self.fill().await {
                    return (body, false);
                }
                continue;
            };
            let size = std::str::from_utf8(&self.buffer[..at]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            while self.buffer.len() < at + 2 + size + 2 {
                if !self.fill().await {
                    return (body, false);
                }
            }
            body.extend_from_slice(&self.buffer[at + 2..at + 2 + size]);
            self.buffer.drain(..at + 2 + size + 2);
            if size == 0 {
                return (body, true);
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
