//! Sixty streams at once give what each gives alone.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use sluicegate::generate::Message;

use super::{replay, request, run};

const STREAMS: usize = 60;

/// A text of its own for every stream, cut at its own odd places, with delays that interleave the streams.
fn recordings() -> String {
    let mut file = String::new();
    for n in 0..STREAMS {
        let reasoning = format!("Thinking about {n}: {}", "step ".repeat(n % 7));
        let value = format!("value {n} with </｜DSML｜param and \"quotes\"\n{}", "é漢🌊".repeat(n % 5 + 1));
        let text = format!(
            "{reasoning}</think>Answer {n}.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"lookup\">\n<｜DSML｜parameter \
             name=\"code\" string=\"true\">{value}</｜DSML｜parameter>\n<｜DSML｜parameter name=\"limit\" \
             string=\"false\">{n}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
        );
        let header = json!({"recording": format!("s{n}"), "match": format!("[stream {n}]"), "prompt_tail": "<think>"});
        writeln!(file, "{header}").expect("writing to a String");
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let step = 1 + (at * 7 + n * 13) % 11;
            let piece: String = chars[at..chars.len().min(at + step)].iter().collect();
            let line = json!({"text": piece, "delay_ms": (at + n) % 3});
            writeln!(file, "{line}").expect("writing to a String");
            at += step;
        }
        writeln!(file, "{}", json!({"finish": "stop", "stop_id": 1})).expect("writing to a String");
    }
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_at_once_equal_sixty_in_turn() {
    let route = replay("deepseek_v4", "sixty.jsonl", &recordings());
    let ask = |n: usize| {
        let route = Arc::clone(&route);
        async move { run(&route, request(&format!("[stream {n}]"))).await.0 }
    };
    let together = futures_util::future::join_all((0..STREAMS).map(|n| tokio::spawn(ask(n)))).await;
    let together: Vec<Message> = together.into_iter().map(|message| message.expect("no stream panics")).collect();
    for (n, together) in together.into_iter().enumerate() {
        let alone = ask(n).await;
        assert_eq!(together, alone, "stream {n}");
        assert_eq!(alone.content, format!("Answer {n}."));
        let arguments: serde_json::Value = serde_json::from_str(&alone.tool_calls[0].arguments).expect("JSON");
        assert_eq!(arguments["limit"], n);
        let code = arguments["code"].as_str().expect("text");
        assert!(code.starts_with(&format!("value {n} with </｜DSML｜param")), "{code}");
    }
}
