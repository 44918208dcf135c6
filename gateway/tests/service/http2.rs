//! Many streams on one HTTP/2 connection: each is on its own.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use hyper::{Request, http};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{PATIENCE, ask};
use crate::gateway::Gateway;

const RUNNING: &str = "sluicegate_requests_running{tenant=\"a\",model=\"m\"}";
const GONE: &str = "sluicegate_requests_total{tenant=\"a\",model=\"m\",outcome=\"client_gone\"}";

async fn connect(gateway: &Gateway) -> SendRequest<Bytes> {
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let io = TlsConnector::from(gateway.tls(&[b"h2"])).connect(name, tcp).await.unwrap();
    assert_eq!(io.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // Room for what a test leaves unread; a connection's window is the client's to choose.
    let (sender, connection) =
        h2::client::Builder::new().initial_connection_window_size(16 << 20).handshake(io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn chat(sender: &SendRequest<Bytes>, body: &Value) -> http::Response<RecvStream> {
    let request = Request::post("https://localhost/v1/chat/completions")
        .header("authorization", "Bearer key-a")
        .body(())
        .unwrap();
    let mut sender = sender.clone().ready().await.unwrap();
    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(body.to_string().into(), true).unwrap();
    tokio::time::timeout(PATIENCE, response).await.unwrap().unwrap()
}

async fn read(mut body: RecvStream) -> String {
    let mut text = Vec::new();
    while let Some(data) = tokio::time::timeout(PATIENCE, body.data()).await.unwrap() {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        text.extend_from_slice(&data);
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn one_reset_of_ten_ends_one() {
    let gateway = Gateway::start("", "");
    let connection = connect(&gateway).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(chat(&connection, &ask("[three]", true)).await.into_body());
    }
    gateway.until(RUNNING, 10.0, Duration::from_secs(2)).await;
    drop(streams.pop());
    gateway.until(GONE, 1.0, Duration::from_secs(2)).await;
    for stream in streams {
        assert!(read(stream).await.ends_with("data: [DONE]\n\n"));
    }
    assert!((gateway.metric(GONE).await - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn a_stalled_stream_does_not_hold_up_its_neighbours() {
    let gateway = Gateway::start("", "");
    let connection = connect(&gateway).await;
    let stalled = chat(&connection, &ask("[flood]", true)).await;
    let start = Instant::now();
    let mut neighbours = Vec::new();
    for _ in 0..20 {
        neighbours.push(chat(&connection, &ask("[second]", true)).await.into_body());
    }
    for neighbour in neighbours {
        assert!(read(neighbour).await.ends_with("data: [DONE]\n\n"));
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?} for streams of one second", start.elapsed());
    drop(stalled);
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
}

#[tokio::test]
async fn a_flood_of_resets_is_sent_away() {
    let gateway = Gateway::start("", "");
    let connection = connect(&gateway).await;
    for _ in 0..3000 {
        let Ok(mut sender) = connection.clone().ready().await else { break };
        let request = Request::post("https://localhost/v1/chat/completions")
            .header("authorization", "Bearer key-a")
            .body(())
            .unwrap();
        let Ok((response, mut stream)) = sender.send_request(request, false) else { break };
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    let start = Instant::now();
    let response = gateway.chat(&ask("[short]", false)).await;
    assert_eq!(response.status, 200);
    assert!(start.elapsed() < Duration::from_secs(5));
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
}

/// A stream that was given up must not look complete to a client that reads on; its neighbours go on.
#[tokio::test]
async fn a_stalled_stream_is_reset_when_its_client_reads_again() {
    let gateway = Gateway::start("slow_client_timeout_s = 1", "");
    let connection = connect(&gateway).await;
    let mut stalled = chat(&connection, &ask("[flood]", true)).await.into_body();
    let outcome = "sluicegate_requests_total{tenant=\"a\",model=\"m\",outcome=\"slow_client\"}";
    gateway.until(outcome, 1.0, Duration::from_secs(20)).await;
    gateway.until(RUNNING, 0.0, Duration::from_secs(2)).await;
    let neighbour = chat(&connection, &ask("[short]", true)).await.into_body();
    let error = loop {
        match tokio::time::timeout(PATIENCE, stalled.data()).await.unwrap() {
            Some(Ok(data)) => stalled.flow_control().release_capacity(data.len()).unwrap(),
            Some(Err(error)) => break error,
            None => panic!("the stream ended as if it were whole"),
        }
    };
    assert!(error.is_reset(), "{error}");
    assert!(read(neighbour).await.ends_with("data: [DONE]\n\n"));
}
