//! Writes `plugins/FORMATS.md`; with `--check` only says whether it is up to date.

use std::path::Path;
use std::process::ExitCode;

use sluicegate_catalogue::{debatable, formats, page, plugins};

fn main() -> ExitCode {
    let check = std::env::args().nth(1).is_some_and(|argument| argument == "--check");
    match run(check) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = folder.join("FORMATS.md");
    let shown = path.display();
    let cases = folder.join("cases/parser_cases.json");
    let json = std::fs::read_to_string(&cases).map_err(|error| format!("{}: {error}", cases.display()))?;
    let plugins = plugins();
    let page = page::render(&formats(&plugins), &debatable::outcomes(&plugins, &json)?);
    let fresh = std::fs::read_to_string(&path).is_ok_and(|old| old == page);
    match (fresh, check) {
        (true, _) => Ok(format!("{shown} is up to date")),
        (false, true) => Err(format!("{shown} is out of date; run `cargo xtask formats`")),
        (false, false) => {
            std::fs::write(&path, page).map_err(|error| format!("{shown}: {error}"))?;
            Ok(format!("{shown} written"))
        }
    }
}
