//! Links between prefill and decode workers: restarts, strangers, and what is refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluicegate_backend::api::GenerateRequest;
use sluicegate_backend::engine::{Engine, PrefillPeer, PrefillServer, Secret, Workers};
use sluicegate_backend::verify::Place;

use crate::drive::{Dice, Setup, assert_idle, finish, request, secret};

fn linked() -> Setup {
    Setup { place: Place::Linked, delay: Duration::from_micros(300), ..Setup::default() }
}

fn decode(setup: &Setup, address: SocketAddr, secret: Secret) -> Engine {
    let workers = Workers::Remote { prefill: PrefillPeer { address, secret }, decode: setup.device() };
    Engine::start(workers, &setup.config).unwrap()
}

/// The prefill worker dies again and again; requests are asked for anew and come out exact.
#[test]
fn a_prefill_worker_that_restarts_loses_nothing() {
    let setup = linked();
    let mut running = setup.start();
    let address = running.server.as_ref().unwrap().address().to_string();
    let mut dice = Dice(31);
    let mut clients = Vec::new();
    for round in 0..3 {
        for _ in 0..30 {
            let r = request(&mut dice);
            let stream = running.submit(r.clone()).unwrap();
            clients.push((std::thread::spawn(|| finish(stream)), r));
        }
        std::thread::sleep(Duration::from_millis(5 + 7 * round));
        drop(running.server.take());
        let end = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(&address).is_ok() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        running.server = Some(setup.serve(&address));
    }
    for (client, r) in clients {
        client.join().unwrap().assert_exact(&r, false);
    }
    assert_idle(&running);
}

/// The decode worker dies; the prefill worker frees what it computed for it and serves the next one.
#[test]
fn a_decode_worker_that_dies_leaves_nothing_behind() {
    let setup = linked();
    let server = setup.serve("127.0.0.1:0");
    let mut dice = Dice(32);
    for _ in 0..3 {
        let engine = decode(&setup, server.address(), secret());
        let streams: Vec<_> = (0..30).map(|_| engine.submit(request(&mut dice)).unwrap()).collect();
        while engine.stats().decoding == 0 && engine.stats().finished_total == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(engine);
        drop(streams);
    }
    let end = Instant::now() + Duration::from_secs(5);
    while server.stats().running + server.stats().blocks_held + server.stats().slots_used > 0 {
        assert!(Instant::now() < end, "{:?}", server.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
    let engine = decode(&setup, server.address(), secret());
    let probe = request(&mut dice);
    finish(engine.submit(probe.clone()).unwrap()).assert_exact(&probe, false);
}

#[test]
fn without_a_prefill_worker_requests_fail_in_time_and_say_why() {
    let setup = linked();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let engine = decode(&setup, nobody, secret());
    let began = Instant::now();
    let got = finish(engine.submit(request(&mut Dice(33))).unwrap());
    assert!(got.failed.unwrap().contains("no link to the prefill worker"));
    assert!(began.elapsed() < Duration::from_secs(8));
}

#[test]
fn peers_with_another_secret_or_model_are_not_linked() {
    let setup = linked();
    let server = setup.serve("127.0.0.1:0");
    let wrong_secret = Secret::new("known to one end only").unwrap();
    let wrong_model = Setup { stateful: true, ..setup.clone() };
    for engine in [decode(&setup, server.address(), wrong_secret), decode(&wrong_model, server.address(), secret())] {
        let got = finish(engine.submit(request(&mut Dice(34))).unwrap());
        assert!(got.failed.unwrap().contains("no link"));
    }
    assert_eq!(server.stats().prompt_tokens_total, 0);
}

#[test]
fn strangers_do_no_harm() {
    let setup = linked();
    let running = setup.start();
    let address = running.server.as_ref().unwrap().address();
    let mut dice = Dice(35);
    for i in 0..20 {
        let mut stranger = TcpStream::connect(address).unwrap();
        let noise: Vec<u8> = (0..i * 13).map(|_| dice.roll(256) as u8).collect();
        stranger.write_all(&noise).unwrap();
        if i % 2 == 0 {
            let _ = stranger.read(&mut [0; 10]);
        }
        let r = request(&mut dice);
        finish(running.submit(r.clone()).unwrap()).assert_exact(&r, false);
    }
    assert_idle(&running);
}

/// The only step of a prompt stops behind its first layer until pages have come: they can only be that layer's.
#[test]
fn a_layer_is_sent_while_the_next_one_is_computed() {
    let (setup, held) = (linked(), Arc::new(AtomicBool::new(true)));
    let mut device = setup.device();
    let is_held = Arc::clone(&held);
    let end = Instant::now() + Duration::from_secs(30);
    device.is_held = Some(Box::new(move || is_held.load(Ordering::Acquire) && Instant::now() < end));
    let server = PrefillServer::start(device, &setup.config, "127.0.0.1:0".parse().unwrap(), secret()).unwrap();
    let engine = decode(&setup, server.address(), secret());
    let asked = GenerateRequest { prompt: (1..30).collect(), max_tokens: 8, ..request(&mut Dice(37)) };
    let stream = engine.submit(asked.clone()).unwrap();
    while engine.stats().transfer_pages_total == 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    held.store(false, Ordering::Release);
    assert!(Instant::now() < end, "no page came before the step was over");
    finish(stream).assert_exact(&asked, false);
}

#[test]
fn a_request_that_is_too_large_for_the_prefill_worker_is_refused_by_it() {
    let small = Setup { blocks: 10, ..linked() };
    let server = small.serve("127.0.0.1:0");
    let engine = decode(&linked(), server.address(), secret());
    let large = GenerateRequest { prompt: vec![5; 50], ..request(&mut Dice(36)) };
    let got = finish(engine.submit(large).unwrap());
    assert!(got.failed.unwrap().contains("takes 1 to 39 tokens, not 50"));
}

/// A peer of a release without TLS, or a stranger, gets an alert and nothing else.
#[test]
fn nothing_plain_is_accepted() {
    let server = linked().serve("127.0.0.1:0");
    let mut plain = TcpStream::connect(server.address()).unwrap();
    plain.write_all(b"sluice\x01\n and a hello of an older release, in clear").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21, "a TLS alert, not {answer:?}");
    assert!(Secret::new("short").is_none());
}
