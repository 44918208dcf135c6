//! A plugin that loops, traps, eats memory or floods fails only the stream that made it do so.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sluicegate_tests::{Answer, Client, Config, Model, Server, guest, recording};

use crate::{ask, block_on};

const COMMANDS: [&str; 4] = ["@loop", "@trap", "@memory", "@flood"];
const NEIGHBOURS: usize = 12;
const WORDS: usize = 120;

#[test]
fn a_hostile_plugin_fails_only_its_own_stream() {
    block_on(async {
        let words = vec!["word "; WORDS];
        let mut lines = recording("long", Some("neighbour"), 25.0, &words);
        for command in COMMANDS {
            lines.extend(recording(command, Some(command), 5.0, &["before ", command, " after"]));
        }
        let config = Config::new()
            .component(guest("hostile")?)
            .model(Model::replay("hostile", lines).format("hostile"))
            .extra("[plugins.limits]\nbreaker_failures = 1000\n");
        let mut server = Server::start(&config)?;
        let client = server.client()?;

        let neighbours: Vec<_> = (0..NEIGHBOURS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.assemble(&ask("hostile", "neighbour")).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        for command in COMMANDS {
            check_fails(&client, command).await?;
        }
        for neighbour in neighbours {
            check_whole(&neighbour.await??)?;
        }
        check_whole(&client.assemble(&ask("hostile", "neighbour, afterwards")).await?)?;
        ensure!(server.is_running(), "the server is gone");
        let left = server.admin()?.get("/admin/requests").await?;
        ensure!(left == serde_json::json!([]), "requests are left: {left}");
        Ok(())
    });
}

async fn check_fails(client: &Client, command: &str) -> Result<()> {
    let started = Instant::now();
    let answer = client.assemble(&ask("hostile", command)).await?;
    let took = started.elapsed();
    ensure!(answer.content == "before ", "{command}: what came before it is kept: {answer:?}");
    ensure!(answer.finish_reason.is_none(), "{command}: a failed stream has no finish: {answer:?}");
    let Some(error) = &answer.error else { anyhow::bail!("{command}: no error event: {answer:?}") };
    ensure!(error["type"] == "server_error", "{command}: {error}");
    let message = error["message"].as_str().unwrap_or_default();
    ensure!(message.contains("hostile"), "{command}: the error should name the plugin: {error}");
    // The budget of a call is 20 ms; the rest is this machine's other work.
    ensure!(took < Duration::from_secs(5), "{command} took {took:?}");
    Ok(())
}

fn check_whole(answer: &Answer) -> Result<()> {
    ensure!(answer.error.is_none() && answer.done, "a neighbour failed: {answer:?}");
    ensure!(answer.content == "word ".repeat(WORDS), "a neighbour's text changed: {answer:?}");
    Ok(())
}
