//! What clients hear when a worker is lost for good, and when there is too much of them.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use sluicegate_tests::{Config, Model, Server};

use crate::block_on;
use crate::pair::{DEADLINE, PROMPTS, Pair, TEMPLATE, check_idle, request};

/// Requests that are at a worker when it dies.
const CROWD: usize = 40;
/// Requests at once, for an engine that runs one and lets a few wait.
const SPIKE: usize = 120;

/// Case S11: the prefill worker dies and stays away. Every client gets its answer, or an error that says why; nothing is left;
/// and when the worker is back, so is the service.
#[test]
fn a_prefill_worker_that_dies_is_told_to_every_client() {
    block_on(async {
        let pair = Pair::new()?;
        let (prefill, _decode) = (pair.start("prefill")?, pair.start("decode")?);
        let server = pair.gateway()?;
        let (client, admin) = (server.client()?, server.admin()?);
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        let mut right = Vec::new();
        for n in 0..PROMPTS {
            right.push(client.assemble(&request("alone", n)).await?.content);
        }
        let ask = |n: usize| {
            let (client, mut asked) = (client.clone(), request("pair", n));
            asked["stream"] = false.into();
            tokio::spawn(async move { tokio::time::timeout(DEADLINE, client.chat(&asked)).await })
        };
        let crowd: Vec<_> = (0..CROWD).map(ask).collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(prefill);
        for (n, asked) in crowd.into_iter().enumerate() {
            let reply = asked.await???;
            let body = reply.json()?;
            match reply.status.as_u16() {
                200 => ensure!(body["choices"][0]["message"]["content"] == right[n % PROMPTS], "{n}: {body}"),
                502..=503 => {
                    let why = body["error"]["message"].as_str().unwrap_or_default();
                    ensure!(why.contains("worker"), "{n}: {body}");
                }
                other => anyhow::bail!("{n}: status {other}: {body}"),
            }
        }
        // Nobody is there to ask, and that is said at once.
        let refused = client.chat(&request("pair", 0)).await?;
        ensure!(refused.status == 503 && refused.headers.contains_key("retry-after"), "{refused:?}");
        let _prefill = pair.start("prefill")?;
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        assert_eq!(client.assemble(&request("pair", 1)).await?.content, right[1]);
        check_idle(&admin).await
    });
}

/// Case S15: many times more requests than places. Each is answered exactly or refused with a time to come back; then
/// everything is as before.
#[test]
fn a_spike_is_refused_in_part_and_changes_nothing_after() {
    block_on(async {
        let pair = Pair::new()?;
        let small = "[engine]\nmax_num_seqs = 1\nmax_queued_requests = 4\n";
        let alone = Model::native("alone", pair.model.clone()).template(TEMPLATE);
        let server = Server::start(&Config::new().model(alone).extra(small))?;
        let (client, admin) = (server.client()?, server.admin()?);
        let mut long = request("alone", 3);
        long["max_tokens"] = json!(60);
        let right = client.assemble(&long).await?.content;
        let ask = |_| {
            let (client, mut asked) = (client.clone(), long.clone());
            asked["stream"] = false.into();
            tokio::spawn(async move { tokio::time::timeout(DEADLINE, client.chat(&asked)).await })
        };
        let (mut answered, mut refused) = (0, 0);
        for asked in (0..SPIKE).map(ask).collect::<Vec<_>>() {
            let reply = asked.await???;
            match reply.status.as_u16() {
                200 => {
                    ensure!(reply.json()?["choices"][0]["message"]["content"] == right, "{reply:?}");
                    answered += 1;
                }
                503 => {
                    let wait: Result<u64, _> = reply.headers["retry-after"].to_str()?.parse();
                    ensure!(wait.is_ok_and(|seconds| (1..=120).contains(&seconds)), "{reply:?}");
                    refused += 1;
                }
                other => anyhow::bail!("status {other}: {reply:?}"),
            }
        }
        assert_eq!(answered + refused, SPIKE);
        ensure!(answered >= 5 && refused > 0, "{answered} answered, {refused} refused");
        assert_eq!(client.assemble(&long).await?.content, right);
        let limit = Duration::from_secs(10);
        for gauge in ["requests_running", "engine_requests_running", "engine_requests_waiting", "kv_blocks_held"] {
            admin.wait_metric(&format!("sluicegate_{gauge}"), limit, 0.0).await?;
        }
        Ok(())
    });
}
