//! The example loads, and wrong files are refused with the line and the key.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("test.toml"), Path::new("/etc/sluicegate"))
}

#[test]
fn the_example_loads() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.toml"));
    let config = Config::load(path).unwrap();
    assert_eq!(config.models.len(), 2);
    assert_eq!(config.tenants[0].name, "team-a");
}

/// Every value that the example does not mark "example" is the default.
#[test]
fn the_example_shows_the_defaults() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.toml"));
    let example = Config::load(path).unwrap();
    let base = path.parent().unwrap();
    let default = Config::parse("", path, base).unwrap();
    for (example, default) in [
        (format!("{:?}", example.server), format!("{:?}", default.server)),
        (format!("{:?}", example.admin), format!("{:?}", default.admin)),
        (format!("{:?}", example.limits), format!("{:?}", default.limits)),
        (format!("{:?}", example.plugins), format!("{:?}", default.plugins)),
        (format!("{:?}", example.engine), format!("{:?}", default.engine)),
    ] {
        assert_eq!(example, default);
    }
}

#[test]
fn relative_paths_start_at_the_file() {
    let text = "[engine]\ntuned_config_folder = \"t\"\n[[model]]\nname = \"m\"\nupstream.native.dir = \"models/m\"\n";
    let config = parse(text).unwrap();
    let Upstream::Native(native) = &config.models[0].upstream else { panic!("native expected") };
    assert_eq!(native.dir, Path::new("/etc/sluicegate/models/m"));
    assert_eq!(config.plugins.dir, Path::new("/etc/sluicegate/plugins"));
    assert_eq!(config.engine.tuned_config_folder.as_deref(), Some(Path::new("/etc/sluicegate/t")));
}

#[test]
fn errors_name_line_and_key() {
    let model = "[[model]]\nname = \"m\"\nupstream.native.dir = \"d\"\n";
    let check = |text: &str, expected: &str| {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}\ngave: {message}\nwanted: {expected}");
    };
    check("[server]\nlisten = 5", "test.toml:2: server.listen: ");
    check("[server]\n\nport = 5", "test.toml:3: server.port: unknown field `port`");
    check("[servers]\n", "test.toml:1: servers: unknown field `servers`");
    check("[server", "test.toml:1: syntax: ");
    check("[limits]\nkeep_alive_s = 0", "test.toml:2: limits.keep_alive_s: ");
    check("[limits]\nkeep_alive_s = -1.5", "a number of seconds above 0");
    check("[limits]\nmax_choices = 0", "limits.max_choices: must be at least 1");
    check("[server]\nlisten = \"0.0.0.0:80\"\ntls = false", "server.tls: 0.0.0.0 is not a loopback address");
    check("[admin]\nlisten = \"0.0.0.0:80\"\ntls = false", "admin.tls: ");
    check("[server]\nssl_certfile = \"c\"", "server.ssl_certfile: ");
    check(
        "[[tenant]]\nname = \"a\"\nkey_sha256 = [\"xyz\"]",
        "test.toml:3: tenant[0].key_sha256[0]: must be a SHA-256",
    );
    check("[[tenant]]\nname = \"a\"\nkey_sha256 = []", "tenant[0].key_sha256: needs at least one");
    check("[[tenant]]\nkey_sha256 = []", "test.toml:1: tenant[0]: missing field `name`");
    check("[[model]]\nname = \"m\"\nupstream.http = {}", "unknown variant `http`");
    check(&format!("{model}{model}"), "model[1].name: \"m\" is already the name of another model");
    check(&format!("{model}reasoning = \"maybe\""), "test.toml:4: model[0].reasoning: ");
    let hash = "ab".repeat(32);
    let unknown = format!("{model}[[tenant]]\nname = \"a\"\nkey_sha256 = [\"{hash}\"]\nmodels = [\"x\"]");
    check(&unknown, "tenant[0].models: no [[model]] is named \"x\"");
    check(&format!("[[tenant]]\nname = \"a\"\nkey_sha256 = [\"{hash}\"]\nweight = 0"), "tenant[0].weight: ");
    check("[engine]\ndevice = \"gpu\"", "engine.device: `gpu` is no device; use cpu, or cuda:0");
    check("[engine]\nlong_prefill_token_threshold = -1", "test.toml:2: engine.long_prefill_token_threshold: ");
    check("[engine]\nblock_size = 24", "engine.block_size: ");
    let speculative = "[engine.speculative_config]\nmethod = \"ngram\"\nnum_speculative_tokens";
    check(&format!("{speculative} = 0"), "engine.speculative_config.num_speculative_tokens: must be 1 to 64");
    check(&format!("{speculative} = 3\nprompt_lookup_max = 1"), "must be at least prompt_lookup_min");
    let workers = |addresses: &str, more: &str| {
        let keys = "dir = \"d\"\nsecret_file = \"s\"\n";
        format!("[[model]]\nname = \"m\"\n[model.upstream.workers]\n{keys}addresses = [{addresses}]\n{more}")
    };
    check(&workers("", ""), "upstream.workers.addresses: must name at least one worker");
    check(&workers("\"0.0.0.0:9\"", ""), "addresses[0]: nobody can be reached at 0.0.0.0:9");
    check(&workers("\"192.0.2.1:0\"", ""), "addresses[0]: nobody can be reached at 192.0.2.1:0");
    check("[engine]\nprefill = \"0.0.0.0:9\"", "engine.prefill: nobody can be reached at 0.0.0.0:9");
    check(&workers("\"127.0.0.1:9\", \"127.0.0.1:9\"", ""), "addresses[1]: 127.0.0.1:9 is named twice");
    check(&workers("\"127.0.0.1:9\"", "silence_ms = 10"), "upstream.workers.silence_ms: must be at least 500");
    check("[plugins.limits]\nisolation = \"none\"", "test.toml:2: plugins.limits.isolation: ");
}
