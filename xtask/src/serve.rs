//! From a fresh machine to a running server with a real model behind it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::workspace::{Workspace, write_atomically};
use crate::{demo_model, plugins, run};

const DEFAULT_PORT: u16 = 8443;
/// The server compiles plugins and loads the model before it listens.
const START_LIMIT: Duration = Duration::from_secs(600);
const FIRST_CONFIG: &str = include_str!("first_config.toml");

/// Prepares everything, then becomes the server, so that a signal to this process drains it. Returns only with an error.
///
/// # Errors
/// A step fails, the port is taken, or the server cannot be started.
pub(crate) fn serve(workspace: &Workspace, port: Option<u16>) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(DEFAULT_PORT)));
    check_free(address)?;
    plugins::build(workspace, None)?;
    run::step("build");
    workspace.build_binary()?;
    run::step("demo model");
    demo_model::ensure(workspace)?;
    let folder = workspace.root.join(".sluicegate");
    let config = folder.join("config.toml");
    if !config.exists() {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        write_atomically(&config, FIRST_CONFIG.as_bytes())?;
    }
    run::step("server");
    let this = std::env::current_exe().context("where am I?")?;
    let mut announce = Command::new(this);
    announce.args(["announce", &address.port().to_string()]).spawn().context("cannot start the announcement")?;
    let mut server = Command::new(workspace.binary());
    server.arg("serve").arg("--config").arg(&config).args(["--port", &address.port().to_string()]);
    let error = server.current_dir(&workspace.root).exec();
    Err(anyhow!(error).context(format!("cannot start `{}`", run::display(&server))))
}

fn check_free(address: SocketAddr) -> Result<()> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => bail!("cannot listen on {address} ({error}); stop what uses it, or add `--port N`"),
    }
}

/// Waits until the server that this process was started beside listens, then says how to talk to it.
///
/// # Errors
/// The server never listens.
pub(crate) fn announce(workspace: &Workspace, port: u16) -> Result<()> {
    let (server, started) = (parent_id(), Instant::now());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    while TcpStream::connect(address).is_err() {
        if parent_id() != server {
            return Ok(()); // It ended and has said why.
        }
        if started.elapsed() > START_LIMIT {
            bail!("the server does not listen on {address} after {} s", START_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{}", greeting(&workspace.root.join(".sluicegate/state"), port));
    Ok(())
}

/// Lines that work as pasted, from any folder.
fn greeting(state: &Path, port: u16) -> String {
    let state = state.display();
    format!(
        r#"
Sluicegate serves SmolLM2-135M-Instruct on https://127.0.0.1:{port}. Talk to it:

curl -N --cacert '{state}/tls/cert.pem' https://127.0.0.1:{port}/v1/chat/completions -H "Authorization: Bearer $(cat '{state}/api_key')" -H 'Content-Type: application/json' -d '{{"model": "smollm2", "stream": true, "max_tokens": 200, "messages": [{{"role": "user", "content": "Why is the sky blue?"}}]}}'

or with OpenAI's client (pip install openai):

SSL_CERT_FILE='{state}/tls/cert.pem' OPENAI_API_KEY="$(cat '{state}/api_key')" OPENAI_BASE_URL=https://127.0.0.1:{port}/v1 python3 -c '
from openai import OpenAI
question = [{{"role": "user", "content": "Why is the sky blue?"}}]
for chunk in OpenAI().chat.completions.create(model="smollm2", messages=question, max_tokens=200, stream=True):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
'

Ctrl-C stops it. Configuration: .sluicegate/config.toml; operators: https://127.0.0.1:8444/admin/plugins
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = check_free(taken.local_addr().unwrap()).unwrap_err().to_string();
        assert!(error.contains("--port"), "{error}");
    }

    #[test]
    fn the_curl_line_is_one_line_with_valid_json() {
        let text = greeting(Path::new("/a b/state"), 8443);
        let line = text.lines().find(|line| line.starts_with("curl")).unwrap();
        let body = line.split("-d '").nth(1).unwrap().trim_end_matches('\'');
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["stream"], true);
        assert!(line.contains("'/a b/state/tls/cert.pem'"));
    }
}
