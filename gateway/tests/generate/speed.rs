//! What the path costs: not a test of right and wrong, so it runs on request only.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::{replay, request, run};

/// `cargo test --release -p sluicegate --test generate -- --ignored --nocapture speed`
#[tokio::test]
#[ignore = "measures; prints tokens a second on one core"]
async fn two_hundred_streams_on_one_core() {
    const STREAMS: usize = 200;
    const TOKENS: usize = 1000;
    for format in ["deepseek_v4", "hermes"] {
        let mut file = format!("{}\n", json!({"recording": "r", "prompt_tail": "</think>"}));
        for n in 0..TOKENS {
            writeln!(file, "{}", json!({"text": format!(" w{}", n % 97)})).expect("writing to a String");
        }
        writeln!(file, "{}", json!({"finish": "stop"})).expect("writing to a String");
        let route = replay(format, &format!("speed-{format}.jsonl"), &file);
        let begin = Instant::now();
        let streams = (0..STREAMS).map(|_| {
            let route = Arc::clone(&route);
            tokio::spawn(async move { run(&route, request("r")).await.0.content.len() })
        });
        let lengths = futures_util::future::join_all(streams).await;
        let time = begin.elapsed();
        assert!(lengths.iter().all(|length| length.as_ref().is_ok_and(|&length| length > TOKENS)));
        let tokens = (STREAMS * TOKENS) as f64;
        println!(
            "{format}: {:.0} tokens/s, {:.2} us a token",
            tokens / time.as_secs_f64(),
            time.as_secs_f64() * 1e6 / tokens
        );
    }
}
