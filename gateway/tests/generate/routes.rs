//! Routes that cannot work are refused before anything is served, with the reason.

use super::{build, file};

fn refuse(toml: &str) -> String {
    build(toml).expect_err("the route is refused").to_string()
}

fn recording() -> String {
    file("any.jsonl", "{\"finish\":\"stop\"}\n").display().to_string()
}

#[test]
fn an_unknown_format_is_refused_with_the_known_ones() {
    let error = refuse(&format!("name = \"m\"\nformat = \"klingon\"\n[upstream.replay]\nfile = {:?}\n", recording()));
    assert!(error.contains("model \"m\"") && error.contains("klingon") && error.contains("deepseek_v4"), "{error}");
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let error = refuse("name = \"m\"\n[upstream.replay]\nfile = \"/nonexistent.jsonl\"\n");
    assert!(error.contains("/nonexistent.jsonl"), "{error}");
    let error = refuse("name = \"m\"\n[upstream.native]\ndir = \"/nonexistent\"\n");
    assert!(error.contains("/nonexistent/tokenizer.json"), "{error}");
    let template = file("bad.jinja", "{% for %}");
    let error = refuse(&format!(
        "name = \"m\"\nchat_template = {:?}\n[upstream.replay]\nfile = {:?}\n",
        template.display().to_string(),
        recording()
    ));
    assert!(error.contains("bad.jinja, line 1"), "{error}");
}

/// The format's prompts need control tokens that this tokenizer does not have.
#[test]
fn a_format_that_does_not_fit_the_tokenizer_is_refused() {
    let folder = file("marker", "").parent().expect("a folder").join("wrong-model");
    std::fs::create_dir_all(&folder).expect("created");
    let mut tokenizer: serde_json::Value =
        serde_json::from_str(include_str!("../golden/deepseek/tiny-tokenizer.json")).expect("JSON");
    let added = tokenizer["added_tokens"].as_array_mut().expect("a list");
    added.retain(|token| token["content"] != "｜DSML｜");
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    let error = refuse(&format!(
        "name = \"m\"\nformat = \"deepseek_v4\"\n[upstream.replay]\nfile = {:?}\ntokenizer = {:?}\n",
        recording(),
        folder.display().to_string()
    ));
    assert!(error.contains("lacks ｜DSML｜"), "{error}");

    let error = refuse(&format!("name = \"m\"\n[upstream.native]\ndir = {:?}\n", folder.display().to_string()));
    assert!(error.contains("chat template"), "a native model needs prompts: {error}");
}

#[test]
fn a_model_answers_to_its_aliases() {
    let routes = build(&format!("name = \"m\"\naliases = [\"n\"]\n[upstream.replay]\nfile = {:?}\n", recording()))
        .expect("valid");
    assert_eq!(routes.get("n").expect("the alias").model, "m");
    assert_eq!(routes.get("o").expect_err("unknown").code, Some("model_not_found"));
}

/// What clients see of broken calls is the operator's choice.
#[tokio::test]
async fn policies_come_from_the_configuration() {
    let text = "Hm.\n<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": oops}\n</tool_call>";
    let recording = super::recording(&serde_json::json!({"recording": "r"}), text, 5, "stop");
    let recording = file("broken-calls.jsonl", &recording).display().to_string();
    let toml = |policy: &str| {
        format!("name = \"m\"\nformat = \"hermes\"\n{policy}\n[upstream.replay]\nfile = {recording:?}\n")
    };
    let message = |policy: &'static str| {
        let routes = build(&toml(policy)).expect("valid");
        async move { super::run(routes.get("m").expect("there"), super::request("r")).await.0 }
    };
    let plain = message("").await;
    assert_eq!(plain.tool_calls.len(), 1, "the client decides about tools it did not declare");
    assert!(!plain.content.contains("name"), "{}", plain.content);
    let shown = message("malformed_tool_calls = \"content\"\nundeclared_tools = \"hide\"").await;
    assert!(shown.tool_calls.is_empty());
    assert!(shown.content.contains("{\"name\":"), "up to where it went wrong: {}", shown.content);
}
