//! The recording file: what it may say, and what is refused.

use super::recording::Recordings;

fn refuse(text: &str) -> String {
    Recordings::parse(text, "r.jsonl").unwrap_err().to_string()
}

#[test]
fn a_line_says_one_thing() {
    for (line, words) in [
        ("{}", "needs one of"),
        (r#"{"text":"a","finish":"stop"}"#, "text or ids and finish at once"),
        (r#"{"text":"a","match":"x"}"#, "belong on the \"recording\" line"),
        (r#"{"text":"a","stop_id":3}"#, "belong on the \"finish\" line"),
        (r#"{"ids":[1],"tokens":2}"#, "tokens belongs"),
        (r#"{"ids":[1],"logprobs":[]}"#, "one entry for each id"),
        (r#"{"finish":"because"}"#, "\"because\""),
        (r#"{"text":"a","delay_ms":-1}"#, "delay_ms"),
        (r#"{"txet":"a"}"#, "unknown field `txet`"),
        ("nonsense", "expected"),
    ] {
        let error = refuse(&format!("{{\"text\":\"ok\"}}\n{line}\n"));
        assert!(error.starts_with("r.jsonl:2: ") && error.contains(words), "{line}: {error}");
    }
    assert!(refuse("\n// only a comment\n").contains("no recording"));
    assert!(refuse("{\"finish\":\"stop\"}\n{\"text\":\"late\"}").contains("already ended"));
    assert!(Recordings::load("/nonexistent.jsonl".as_ref()).unwrap_err().to_string().contains("/nonexistent.jsonl"));
}

#[test]
fn the_longest_marker_that_fits_is_played_and_equal_ones_take_turns() {
    let file = r#"
{"recording":"a","match":"case-1"}
{"finish":"stop"}
{"recording":"b","match":"case-10"}
{"finish":"stop"}
{"recording":"c"}
{"finish":"stop"}
{"recording":"d","match":"case-1"}
{"finish":"stop"}
"#;
    let recordings = Recordings::parse(file, "r.jsonl").unwrap();
    let names = |text: &str| {
        let (_, members) = recordings.select(text).unwrap();
        members.iter().map(|&at| recordings.get(at).name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names("please case-10 now"), ["b"]);
    assert_eq!(names("case-1"), ["a", "d"]);
    assert_eq!(names("anything"), ["c"]);
    let marked = Recordings::parse("{\"recording\":\"a\",\"match\":\"x\"}\n{\"finish\":\"stop\"}", "r").unwrap();
    assert!(marked.select("y").is_none());
}
