//! Certificates that are replaced, and shutting down.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpStream;

use crate::client::{Client, ask};
use crate::gateway::Gateway;

fn write_pair(dir: &Path, cert_last: bool) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let put = |name: &str, text: String| {
        std::fs::write(dir.join("part"), text).unwrap();
        std::fs::rename(dir.join("part"), dir.join(name)).unwrap();
    };
    put("key.pem", made.signing_key.serialize_pem());
    if cert_last {
        std::thread::sleep(Duration::from_secs(1));
    }
    put("cert.pem", made.cert.pem());
}

async fn handshakes(gateway: &Gateway, cert: &Path) -> bool {
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(gateway.trust(cert, &[b"http/1.1"])).connect(name, tcp).await.is_ok()
}

#[tokio::test]
async fn certificates_are_replaced_while_streams_run() {
    let gateway = Gateway::start("", "");
    let dir = gateway.dir.path().join("state/tls");
    let kept = gateway.dir.path().join("kept.pem");
    let mut streaming = gateway.connect().await;
    streaming.chat("key-a", &ask("[slow]", true)).await;
    streaming.read_until("data: ").await;

    // Garbage, and a key without its certificate: the old pair stays.
    std::fs::copy(dir.join("cert.pem"), &kept).unwrap();
    std::fs::write(dir.join("cert.pem"), "garbage").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(handshakes(&gateway, &kept).await);

    let writing = dir.clone();
    tokio::task::spawn_blocking(move || write_pair(&writing, true)).await.unwrap();
    let start = Instant::now();
    while !handshakes(&gateway, &dir.join("cert.pem")).await {
        assert!(start.elapsed() < Duration::from_secs(4), "{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!handshakes(&gateway, &kept).await, "the old one is gone");
    assert!(streaming.response().await.is_done(), "the running stream is unharmed");
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let mut gateway = Gateway::start("drain_timeout_s = 20", "");
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.connect().await;
        client.chat("key-a", &ask("[three]", true)).await;
        client.read_until("data: ").await;
        clients.push(client);
    }
    let mut admin = Client::connect(gateway.admin, gateway.tls(&[b"http/1.1"])).await;
    admin.send("GET", "/ready", "key-admin", b"").await;
    assert_eq!(admin.response().await.status, 200);
    gateway.terminate();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut admin = Client::connect(gateway.admin, gateway.tls(&[b"http/1.1"])).await;
    admin.send("GET", "/ready", "key-admin", b"").await;
    assert_eq!(admin.response().await.status, 503);
    assert!(TcpStream::connect(gateway.address).await.is_err(), "no new connections");
    for mut client in clients {
        assert!(client.response().await.is_done());
    }
    assert_eq!(gateway.exit_code(Duration::from_secs(10)).await, 0);
}

#[tokio::test]
async fn at_the_limit_of_a_drain_streams_end_with_an_error() {
    let mut gateway = Gateway::start("drain_timeout_s = 1", "");
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.connect().await;
        client.chat("key-a", &ask("[slow]", true)).await;
        client.read_until("data: ").await;
        clients.push(client);
    }
    gateway.terminate();
    for mut client in clients {
        let response = client.response().await;
        assert!(response.complete);
        let last: Value = serde_json::from_str(response.events().last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "overloaded");
    }
    assert_eq!(gateway.exit_code(Duration::from_secs(10)).await, 0);
    assert_eq!(gateway.log().matches("outcome=\"overloaded\"").count(), 20, "{}", gateway.log());
}
