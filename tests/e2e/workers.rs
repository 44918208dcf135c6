//! Prefill and decode in processes of their own: the same answers, whatever is left, killed or started again.
//!
//! `STORM=10000 cargo test --release --workspace --test e2e a_storm -- --nocapture` makes the storm larger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use sluicegate_tests::{Client, Worker};

use crate::block_on;
use crate::pair::{DEADLINE, PROMPTS, Pair, check_idle, request};

/// Requests in a burst.
const BURST: usize = 500;

#[test]
fn a_pair_answers_as_one_process_does() {
    block_on(async {
        let pair = Pair::new()?;
        let server = pair.gateway()?;
        let (client, admin) = (server.client()?, server.admin()?);
        // Nobody is there yet: a clear refusal, and in time.
        let began = Instant::now();
        let refused = client.chat(&request("pair", 0)).await?;
        ensure!(refused.status == 503 && refused.headers.contains_key("retry-after"), "{refused:?}");
        let why = refused.json()?["error"]["message"].as_str().unwrap_or_default().to_owned();
        ensure!(why.contains("no worker is up") && why.contains(&pair.decode.listen.to_string()), "{why}");
        ensure!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

        let _workers = (pair.start("prefill")?, pair.start("decode")?);
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        for n in 0..PROMPTS {
            let alone = client.assemble(&request("alone", n)).await?;
            let paired = client.assemble(&request("pair", n)).await?;
            assert_eq!(alone.comparable(), paired.comparable(), "request {n}");
        }
        Ok(())
    });
}

/// Random weights, whose output only a grammar can make a call or JSON.
#[test]
fn a_pair_keeps_what_a_request_promises() {
    block_on(async {
        let pair = Pair::new()?;
        let _workers = (pair.start("prefill")?, pair.start("decode")?);
        let server = pair.gateway()?;
        let (client, admin) = (server.client()?, server.admin()?);
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["open", "gate"],
            "properties": {"open": {"type": "boolean"}, "gate": {"enum": ["upper", "lower"]}},
        });
        let obeys = |text: &str| -> Result<()> {
            let value: Value = serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?;
            ensure!(value["open"].is_boolean() && (value["gate"] == "upper" || value["gate"] == "lower"), "{text}");
            Ok(())
        };
        for n in 0..6 {
            let mut call = request("pair", n);
            call["max_tokens"] = 400.into();
            let mut json = call.clone();
            call["tools"] = json!([{"type": "function", "function": {"name": "move_gate", "parameters": schema}}]);
            call["tool_choice"] = "required".into();
            call["parallel_tool_calls"] = false.into();
            json["response_format"] = json!({"type": "json_schema", "json_schema": {"schema": schema}});
            for mut asked in [call, json] {
                let paired = client.assemble(&asked).await?;
                match paired.tool_calls.as_slice() {
                    [call] if call.name == "move_gate" => obeys(&call.arguments)?,
                    [] if asked.get("tools").is_none() => obeys(&paired.content)?,
                    _ => bail!("{paired:?}"),
                }
                asked["model"] = "alone".into();
                let alone = client.assemble(&asked).await?;
                assert_eq!(alone.comparable(), paired.comparable(), "request {n}");
            }
        }
        // A wrong one is found by the gateway.
        let mut wrong = request("pair", 0);
        wrong["structured_outputs"] = json!({"regex": "[a-"});
        let refused = client.chat(&wrong).await?;
        ensure!(refused.status == 400, "{refused:?}");
        assert_eq!(refused.json()?["error"]["code"], "invalid_grammar");
        check_idle(&admin).await
    });
}

/// Case S12: rooms and addresses in a body are a client's words and mean nothing.
#[test]
fn a_client_cannot_choose_a_room() {
    block_on(async {
        let pair = Pair::new()?;
        let _workers = (pair.start("prefill")?, pair.start("decode")?);
        let server = pair.gateway()?;
        let (client, admin) = (server.client()?, server.admin()?);
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        let right = client.assemble(&request("pair", 5)).await?;
        let mut asked = request("pair", 5);
        asked["bootstrap_room"] = 7.into();
        asked["bootstrap_host"] = "192.0.2.9".into();
        asked["bootstrap_port"] = 1.into();
        let both = tokio::join!(client.assemble(&asked), client.assemble(&asked));
        for answer in [both.0?, both.1?] {
            assert_eq!(answer.comparable(), right.comparable());
        }
        check_idle(&admin).await
    });
}

#[derive(Debug, Default)]
struct Tally {
    left: usize,
    exact: usize,
    failed: usize,
}

#[test]
fn a_storm_leaves_nothing_and_breaks_nothing() {
    let requests: usize = std::env::var("STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    block_on(async {
        let pair = Arc::new(Pair::new()?);
        let server = pair.gateway()?;
        let (client, admin) = (server.client()?, server.admin()?);
        let mut right = Vec::new();
        for n in 0..PROMPTS {
            right.push(client.assemble(&request("alone", n)).await?.content);
        }
        let right = Arc::new(right);
        let stop = Arc::new(AtomicBool::new(false));
        let killer = {
            let (pair, stop) = (Arc::clone(&pair), Arc::clone(&stop));
            std::thread::spawn(move || kill_and_restart(&pair, &stop))
        };
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(20), 2.0).await?;
        let (began, mut tally, mut number) = (Instant::now(), Tally::default(), 0);
        while number < requests {
            let mut burst = Vec::new();
            for _ in 0..BURST.min(requests - number) {
                let (client, right, n) = (client.clone(), Arc::clone(&right), number);
                burst.push(tokio::spawn(async move { one(&client, n, &right).await }));
                number += 1;
            }
            for client in burst {
                match client.await?? {
                    None => tally.left += 1,
                    Some(true) => tally.exact += 1,
                    Some(false) => tally.failed += 1,
                }
            }
        }
        let took = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        let stopped = tokio::task::spawn_blocking(move || killer.join()).await?;
        let (_workers, kills) = stopped.map_err(|_| anyhow::anyhow!("the killer panicked"))??;
        println!("{requests} requests in {took:.1?}, {kills} kills: {tally:?}");
        ensure!(tally.left > requests / 3, "about half should leave: {tally:?}");
        ensure!(tally.exact > 0, "some should be answered all the same: {tally:?}");
        admin.wait_metric("sluicegate_worker_up", Duration::from_secs(10), 2.0).await?;
        let asked = Instant::now();
        let probe = client.assemble(&request("pair", 1)).await?;
        println!("the probe took {:?}", asked.elapsed());
        ensure!(asked.elapsed() < Duration::from_secs(10), "the probe took {:?}", asked.elapsed());
        assert_eq!(probe.content, right[1]);
        check_idle(&admin).await
    });
}

/// Kills either worker or both with SIGKILL, and starts them again, until it is told to stop.
fn kill_and_restart(pair: &Pair, stop: &AtomicBool) -> Result<((Worker, Worker), usize)> {
    let (mut prefill, mut decode, mut kills) = (pair.start("prefill")?, pair.start("decode")?, 0);
    let mut random = 1;
    while !stop.load(Ordering::Relaxed) {
        random = scramble(random);
        std::thread::sleep(Duration::from_millis(400 + random % 1500));
        let which = (random >> 32) % 5;
        if which != 0 {
            drop(prefill);
            prefill = pair.start("prefill")?;
            kills += 1;
        }
        if which == 0 || which > 2 {
            drop(decode);
            decode = pair.start("decode")?;
            kills += 1;
        }
    }
    Ok(((prefill, decode), kills))
}

/// One client. None if it left; else whether it was answered, exactly. Any other end is an error.
async fn one(client: &Client, number: usize, right: &[String]) -> Result<Option<bool>> {
    let random = scramble(number as u64 + 77);
    let request = request("pair", number);
    let right = &right[number % PROMPTS];
    if random.is_multiple_of(2) {
        // Past its patience the future, and with it the connection, is dropped where it stands.
        let patience = Duration::from_micros((random >> 8) % 400_000);
        let _ = tokio::time::timeout(patience, client.assemble(&request)).await;
        return Ok(None);
    }
    let limit = DEADLINE + Duration::from_secs(5);
    let mut asked = request.clone();
    asked["stream"] = (random & 4 == 0).into();
    if asked["stream"] == false {
        let reply =
            tokio::time::timeout(limit, client.chat(&asked)).await.context("a request outlived its deadline")??;
        let body = reply.json()?;
        return match reply.status.as_u16() {
            200 => {
                ensure!(body["choices"][0]["message"]["content"] == **right, "request {number}: {body}");
                Ok(Some(true))
            }
            502..=504 => Ok(Some(false)),
            other => bail!("status {other}: {body}"),
        };
    }
    let stream =
        match tokio::time::timeout(limit, client.stream(&asked)).await.context("a request outlived its deadline")? {
            Ok(stream) => stream,
            Err(error) if error.to_string().contains("status 50") => return Ok(Some(false)),
            Err(error) => return Err(error),
        };
    let answer = tokio::time::timeout(limit, stream.assemble()).await.context("a request outlived its deadline")??;
    if answer.error.is_some() {
        ensure!(right.starts_with(&answer.content), "request {number}: {answer:?}");
        return Ok(Some(false));
    }
    ensure!(answer.content == *right, "request {number}: {answer:?}, not {right:?}");
    Ok(Some(true))
}

fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
