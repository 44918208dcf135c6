//! The official OpenAI client for Python, against the running binary.

use std::process::Command;

use sluicegate_tests::{API_KEY, Config, Model, Server, Tenant, component, model, python, recording};

/// Key `sk-e2e-limited`: one request a minute.
const LIMITED: Tenant = Tenant {
    name: "limited",
    key_sha256: "eeab68907a64fa9f1dcebf0aef367801dafdde3310e8b3e190b9e71a944b678b",
    limits: "requests_per_minute = 1",
};

const CALL: &str = "Looking.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" \
                    string=\"true\">Kraków</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n\
                    </｜DSML｜invoke>\n</｜DSML｜tool_calls>";

#[test]
fn the_official_python_client_is_served() {
    let pieces: Vec<String> = CALL.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let mut lines = recording("weather", None, 0.0, &pieces);
    lines[0]["prompt_tail"] = "<｜Assistant｜></think>".into();
    let config = Config::new()
        .component(component("deepseek").unwrap())
        .component(component("qwen").unwrap())
        .tenant(LIMITED)
        .model(Model::native("smollm2", model("SmolLM2-135M-Instruct").unwrap()).format("hermes"))
        .model(Model::replay("dsml", lines).format("deepseek_v4"));
    let server = Server::start(&config).unwrap();
    let (interpreter, script) = python("openai_client.py").unwrap();
    let output = Command::new(interpreter)
        .arg(script)
        .env("OPENAI_BASE_URL", server.base_url().replace("127.0.0.1", "localhost"))
        .env("OPENAI_API_KEY", API_KEY)
        .env("LIMITED_KEY", "sk-e2e-limited")
        .env("SSL_CERT_FILE", server.certificate())
        .env_remove("HTTPS_PROXY")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.trim_end().ends_with("10 promises kept"), "{out}\n{err}");
}
