//! The toy DeepSeek-V4 calls tools: request, DeepSeek's renderer, V4 engine in reference arithmetic, `deepseek` component, the
//! official OpenAI client. What arrives is what an independent implementation of the model wrote, alone and among sixty.

use std::process::Command;

use sluicegate_tests::{API_KEY, Config, Model, Server, component, golden, python};

#[test]
fn stored_outputs_arrive_as_tool_calls_alone_and_among_sixty() {
    let folder = |format: &str| golden("tiny-dsv4-tools").unwrap().join(format);
    let config = Config::new()
        .component(component("deepseek").unwrap())
        .model(Model::native("bf16", folder("bf16")).format("deepseek_v4"))
        .model(Model::native("nvfp4", folder("nvfp4")).format("deepseek_v4"))
        .extra("[engine]\narithmetic = \"reference\"\nactivation_simulation = false\n");
    let server = Server::start(&config).unwrap();
    let (interpreter, script) = python("tool_calls.py").unwrap();
    let output = Command::new(interpreter)
        .arg(script)
        .env("OPENAI_BASE_URL", server.base_url().replace("127.0.0.1", "localhost"))
        .env("OPENAI_API_KEY", API_KEY)
        .env("SSL_CERT_FILE", server.certificate())
        .env("GOLDENS", folder("bf16").join("goldens.json"))
        .env("MODELS", "bf16,nvfp4")
        .env_remove("HTTPS_PROXY")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("bf16: 17 outputs alone and 60 at a time"), "{out}\n{err}");
}
