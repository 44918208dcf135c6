//! Clients that leave at any moment leave nothing behind.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use sluicegate_tests::{Admin, Client, Config, Model, Server, model, recording};
use tokio::sync::Semaphore;

use crate::{ask, block_on};

const STREAMS: u64 = 1_000;
/// How many run at once.
const AT_ONCE: usize = 40;

#[test]
fn a_thousand_aborted_streams_leave_nothing() {
    block_on(async {
        let words = vec!["word "; 200];
        let config = Config::new()
            .model(Model::native("smollm2", model("SmolLM2-135M-Instruct")?))
            .model(Model::replay("replay", recording("it", None, 5.0, &words)));
        let server = Server::start(&config)?;
        let (client, admin) = (server.client()?, server.admin()?);
        let before = client.assemble(&probe()).await?;

        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut running = Vec::new();
        for number in 0..STREAMS {
            let (client, place) = (client.clone(), Arc::clone(&places).acquire_owned().await?);
            running.push(tokio::spawn(async move {
                let aborted = abort(&client, number).await;
                drop(place);
                aborted
            }));
        }
        let mut read = 0;
        for stream in running {
            read += stream.await??;
        }
        ensure!(read > 100, "the aborts should hit streams that run; they had read {read} events");

        check_idle(&admin).await?;
        let after = client.assemble(&probe()).await?;
        ensure!(after.comparable().content == before.content, "the next answer changed: {before:?}, {after:?}");
        Ok(())
    });
}

fn probe() -> Value {
    let mut request = ask("smollm2", "Name three colours.");
    request["temperature"] = 0.into();
    request["max_tokens"] = 12.into();
    request
}

/// Opens a stream and leaves it at a moment that depends on `number`: in the queue, in prefill, while it generates.
/// Returns how many events had come.
async fn abort(client: &Client, number: u64) -> Result<usize> {
    let random = scramble(number);
    let mut request =
        ask(["smollm2", "replay"][usize::from(random.is_multiple_of(4))], &"A story about ants. ".repeat(20));
    request["max_tokens"] = 400.into();
    let patience = Duration::from_millis((random >> 8) % 400);
    let mut events = 0;
    let read = async {
        let mut stream = client.stream(&request).await?;
        while stream.next().await?.is_some() {
            events += 1;
        }
        anyhow::Ok(())
    };
    // Past its patience the future, and with it the connection, is dropped where it stands.
    if let Ok(ended) = tokio::time::timeout(patience, read).await {
        ended?;
    }
    Ok(events)
}

/// SplitMix64: the same moments in every run.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

async fn check_idle(admin: &Admin) -> Result<()> {
    let limit = Duration::from_secs(20);
    admin.wait("/admin/requests", limit, |requests| *requests == serde_json::json!([])).await?;
    let none_runs =
        |tenants: &Value| tenants.as_array().is_some_and(|all| all.iter().all(|t| t["requests_running"] == 0));
    admin.wait("/admin/tenants", limit, none_runs).await?;
    for gauge in IDLE {
        admin.wait_metric(gauge, limit, 0.0).await?;
    }
    let aborted = admin.metric("sluicegate_engine_requests_aborted_total").await?;
    ensure!(aborted.is_some_and(|n| n > 100.0), "the engine should have seen the aborts: {aborted:?}");
    Ok(())
}

/// What an idle gateway has none of.
const IDLE: [&str; 7] = [
    "sluicegate_requests_running",
    "sluicegate_engine_requests_running",
    "sluicegate_engine_requests_waiting",
    "sluicegate_engine_sequences_prefilling",
    "sluicegate_engine_sequences_decoding",
    "sluicegate_engine_slots_used",
    "sluicegate_kv_blocks_held",
];
