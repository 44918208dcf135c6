//! A plugin is replaced under load: no stream fails, none mixes versions, old versions are freed.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sluicegate_tests::{Admin, Client, Config, Model, Server, guest, guest_bytes, recording};

use crate::{ask, block_on};

const STREAMS: usize = 200;
const REPLACEMENTS: usize = 20;
const DELTAS: usize = 50;
/// What the guest writes, as `VERSION` in its source.
const BUILT_VERSION: &str = "1.0.1000";

/// The guest with another version: the same code, other bytes where it keeps its name.
fn version(number: usize) -> Result<(String, Vec<u8>)> {
    let (mut component, name) = (guest_bytes("stamp")?, format!("1.0.{}", 1000 + number));
    let places: Vec<usize> = component
        .windows(BUILT_VERSION.len())
        .enumerate()
        .filter_map(|(at, bytes)| (bytes == BUILT_VERSION.as_bytes()).then_some(at))
        .collect();
    ensure!(places.len() == 1, "the guest should hold its version once, not {} times", places.len());
    component[places[0]..places[0] + name.len()].copy_from_slice(name.as_bytes());
    Ok((name, component))
}

#[test]
fn two_hundred_streams_survive_twenty_replacements() {
    block_on(async {
        let deltas = vec!["x"; DELTAS];
        let config = Config::new()
            .component(guest("stamp")?)
            .model(Model::replay("stamped", recording("it", None, 40.0, &deltas)).format("stamp"));
        let server = Server::start(&config)?;
        let (client, admin) = (server.client()?, server.admin()?);

        let streams = tokio::spawn(run_streams(client));
        for number in 1..=REPLACEMENTS {
            let (name, component) = version(number)?;
            if number % 2 == 0 {
                admin.install("stamp", component).await?.ok()?;
            } else {
                let folder = server.plugin_folder();
                std::fs::write(folder.join("stamp.new"), component)?;
                std::fs::rename(folder.join("stamp.new"), folder.join("stamp.wasm"))?;
            }
            let serves = |status: &Value| active(status) == [name.as_str()];
            admin.wait("/admin/plugins", Duration::from_secs(30), serves).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut seen = streams.await??;
        seen.sort();
        seen.dedup();
        ensure!(seen.len() >= REPLACEMENTS / 2, "streams should begin on many versions, not only on {seen:?}");
        check_freed(&admin).await
    });
}

/// Runs all streams, spread over the time that the replacements take. Returns the version that served each.
async fn run_streams(client: Client) -> Result<Vec<String>> {
    let mut running = Vec::new();
    for _ in 0..STREAMS {
        let client = client.clone();
        running.push(tokio::spawn(async move { client.assemble(&ask("stamped", "go")).await }));
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let mut versions = Vec::new();
    for stream in running {
        let answer = stream.await??;
        ensure!(answer.error.is_none() && answer.done, "a stream failed: {:?}", answer.error);
        versions.push(check_stamps(&answer.content)?);
    }
    Ok(versions)
}

/// The content is `[VERSION 0]x[VERSION 1]x...`: one version, no push lost, doubled or served by another parser.
fn check_stamps(content: &str) -> Result<String> {
    let version = content.strip_prefix('[').and_then(|rest| rest.split(' ').next()).context("no stamp")?.to_owned();
    let mut rest = content;
    let mut pushes = 0;
    while let Some(after) = rest.strip_prefix(&format!("[{version} {pushes}]")) {
        rest = after.trim_start_matches('x');
        pushes += 1;
    }
    ensure!(rest.is_empty(), "another version or a lost push after {pushes} pushes of {version}: {rest}");
    ensure!(content.matches('x').count() == DELTAS, "text was lost or doubled: {content}");
    Ok(version)
}

fn active(status: &Value) -> Vec<&str> {
    let versions = status["versions"].as_array().into_iter().flatten();
    versions.filter(|v| v["state"] == "active").filter_map(|v| v["version"].as_str()).collect()
}

async fn check_freed(admin: &Admin) -> Result<()> {
    let only_one = |status: &Value| status["versions"].as_array().is_some_and(|versions| versions.len() == 1);
    let status = admin.wait("/admin/plugins", Duration::from_secs(30), only_one).await?;
    let last = &status["versions"][0];
    ensure!(last["live_streams"] == 0, "streams are left: {status}");
    ensure!(status["refused"] == serde_json::json!([]), "a version was refused: {status}");
    Ok(())
}
