//! `sluicegate tune` measures, writes a profile, and engines on the same kind of device apply it; a wrong one is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use sluicegate_tests::{Config, Model, Server, binary, component, golden, model};

use crate::{ask, block_on};

/// Runs the binary to its end.
fn run(args: &[&str], paths: &[(&str, &Path)]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(args);
    for (flag, path) in paths {
        command.arg(flag).arg(path);
    }
    command.output().context("it starts")
}

/// Tunes a tiny model on the CPU, in the smallest search that there is. Returns the profile's path.
fn tune(folder: &Path) -> Result<PathBuf> {
    let sizes = "--concurrency 2 --input-len 8 --output-len 2 --max-num-batched-tokens 65 --threads 1";
    let mut args = vec!["tune", "--device", "cpu"];
    args.extend(sizes.split(' '));
    let done = run(&args, &[("--model", &golden("models/llama")?), ("--save-dir", folder)])?;
    let (report, errors) = (String::from_utf8(done.stdout)?, String::from_utf8(done.stderr)?);
    ensure!(done.status.success(), "{report}{errors}");
    ensure!(report.contains("knobs: long_prefill_token_threshold\n"), "{report}");
    let trial = report.lines().find(|line| line.starts_with("long_prefill_token_threshold 0 -> 64"));
    let trial = trial.with_context(|| format!("no comparison in\n{report}"))?;
    ensure!(trial.contains(" at    2 ") && trial.contains(" ms  ratio ") && trial.contains('['), "{trial}");
    let files: Vec<_> = folder.read_dir()?.flatten().map(|entry| entry.path()).collect();
    let [path] = &files[..] else { anyhow::bail!("one file expected: {files:?}") };
    ensure!(report.contains(&format!("written to {}", path.display())), "{report}");
    Ok(path.clone())
}

#[test]
fn a_profile_is_made_and_applied() {
    block_on(async {
        let folder = tempfile::tempdir()?;
        let path = tune(folder.path())?;
        // Whatever won.
        let text = std::fs::read_to_string(&path)?;
        let (before, _) = text.split_once("[knobs]").context("it has knobs")?;
        std::fs::write(&path, format!("{before}[knobs]\nlong_prefill_token_threshold = 3\n"))?;
        let answer = |extra: String| async move {
            let smollm2 = Model::native("smollm2", model("SmolLM2-135M-Instruct")?).format("hermes");
            let server = Server::start(&Config::new().component(component("qwen")?).model(smollm2).extra(&extra))?;
            let mut request = ask("smollm2", "Count to twenty.");
            request["temperature"] = 0.into();
            request["max_tokens"] = 8.into();
            let text = server.client()?.assemble(&request).await?.content;
            anyhow::Ok((text, server.log()))
        };
        let (plain, log) = answer(String::new()).await?;
        ensure!(!log.contains("tuned configuration"), "{log}");
        let (tuned, log) = answer(format!("[engine]\ntuned_config_folder = {:?}\n", folder.path())).await?;
        ensure!(
            log.contains("tuned configuration applied") && log.contains("long_prefill_token_threshold = 3"),
            "{log}"
        );
        ensure!(plain == tuned, "{plain:?} became {tuned:?}");
        Ok(())
    });
}

#[test]
fn a_wrong_profile_is_refused() {
    let check = |folder: &Path, expected: &str| -> Result<()> {
        let secret = folder.join("secret");
        std::fs::write(&secret, "known to both processes")?;
        let paths = [
            ("--model", golden("models/llama")?),
            ("--secret-file", secret),
            ("--tuned-config-folder", folder.to_owned()),
        ];
        let paths = paths.each_ref().map(|(flag, path)| (*flag, path.as_path()));
        let done = run(&["engine", "--role", "both", "--device", "cpu", "--listen", "127.0.0.1:0"], &paths)?;
        let errors = String::from_utf8(done.stderr)?;
        ensure!(!done.status.success() && errors.contains(expected), "{errors}\nwanted: {expected}");
        Ok(())
    };
    block_on(async {
        let folder = tempfile::tempdir()?;
        let path = tune(folder.path())?;
        let text = std::fs::read_to_string(&path)?;
        let line = text.lines().position(|line| line == "[knobs]").context("it has knobs")? + 2;
        let name = path.display();
        std::fs::write(&path, text.replace("[knobs]\n", "[knobs]\nblocks = 1\n"))?;
        check(folder.path(), &format!("{name}:{line}: knobs.blocks: unknown field `blocks`"))?;
        std::fs::write(&path, text.replace("name = \"", "name = \"not "))?;
        check(folder.path(), &format!("{name}:4: device.name: this profile is for \"not "))?;
        Ok(())
    });
}

#[test]
fn without_a_gpu_it_says_so() {
    // Where there is one, the first comparison would take minutes.
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    block_on(async {
        let done = run(&["tune", "--device", "cuda:0"], &[("--model", &golden("models/llama")?)])?;
        let report = String::from_utf8(done.stdout)?;
        ensure!(done.status.success() && report.starts_with("no GPU: "), "{report}");
        ensure!(report.contains("`--device cpu` tunes what the CPU has: long_prefill_token_threshold"), "{report}");
        Ok(())
    });
}
