//! Running other programs: visible, bounded, with errors that name the command.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Announces a step of a longer task.
pub(crate) fn step(title: &str) {
    eprintln!("\x1b[1m==> {title}\x1b[0m");
}

/// The command as one would type it.
pub(crate) fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command whose output the user sees. A non-zero exit is an error.
///
/// # Errors
/// The program is missing, or it failed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = display(command);
    eprintln!("    {text}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// Runs a command quietly and returns its standard output.
///
/// # Errors
/// The program is missing, or it failed; the error carries what it wrote to standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let text = display(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{text}` wrote text that is not UTF-8"))
}

/// Runs a command for at most `limit`; past it the command is killed and `None` returned.
///
/// # Errors
/// The program is missing.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let text = display(command);
    eprintln!("    {text}   (at most {} s)", limit.as_secs());
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start `{text}`"))?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_command_is_killed_at_its_limit() {
        let started = Instant::now();
        let status = run_within(Command::new("sleep").arg("60"), Duration::from_millis(300)).unwrap();
        assert!(status.is_none());
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_failure_names_the_command_and_its_words() {
        let error = output(Command::new("ls").arg("/no/such/folder")).unwrap_err().to_string();
        assert!(error.contains("ls /no/such/folder") && error.contains("No such file"), "{error}");
    }
}
