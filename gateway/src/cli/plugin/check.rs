//! `sluicegate plugin check`: runs a case file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sluicegate_cases::{Verdict, load as load_cases};

use super::verdict::verdict;
use super::{BUILT, folder, load};
use crate::plugins::{Pinned, Registry, Settings};

/// Runs recorded cases through plugins: in the given chunks, in one, code point by code point, and cut in two at
/// every place. Prints a line for each case that fails, and the counts. Exit code 1 if any case fails.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The case file: a JSON array.
    #[arg(long)]
    cases: PathBuf,
    /// The component to test. Without it: the components of the folder, each case by its format.
    #[arg(long, conflicts_with = "dir")]
    plugin: Option<PathBuf>,
    /// The folder of components [default: target/plugins, else plugins].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only cases of this format.
    #[arg(long)]
    format: Option<String>,
    /// Also say how the result differs from a debatable expectation.
    #[arg(long, short)]
    verbose: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<()> {
        let shown = self.cases.display();
        let text = fs::read_to_string(&self.cases).with_context(|| format!("cannot read {shown}"))?;
        let cases = load_cases(&text).with_context(|| format!("{shown} is not a case file"))?;
        let registry = self.registry()?;
        let (mut passed, mut failed, mut debatable) = (0, 0, 0);
        let wanted = |case: &&sluicegate_cases::Case| self.format.as_ref().is_none_or(|format| *format == case.format);
        for case in cases.iter().filter(wanted) {
            let verdict = match find(&registry, case.format_name()) {
                Some(pinned) => verdict(&pinned, case),
                None => Verdict::Broken("no loaded plugin exports this format".to_owned()),
            };
            match verdict {
                Verdict::Met(_) if case.debatable => debatable += 1,
                Verdict::Met(_) => passed += 1,
                // The laws hold, and the truth of the expectation is arguable.
                Verdict::Differs(why) if case.debatable => {
                    debatable += 1;
                    if self.verbose {
                        println!("{} ({}), debatable: {}", case.id, case.format, line(&why));
                    }
                }
                Verdict::Differs(why) | Verdict::Broken(why) => {
                    failed += 1;
                    println!("{} ({}): {}", case.id, case.format, line(&why));
                }
            }
        }
        println!("{passed} passed, {failed} failed, {debatable} debatable");
        if failed > 0 {
            bail!("{failed} of {} cases failed", passed + failed + debatable);
        }
        Ok(())
    }

    fn registry(&self) -> Result<Registry> {
        let Some(file) = &self.plugin else {
            let dir = folder(self.dir.as_deref())?;
            // The tests of a checkout share this cache.
            let cache_dir = (dir == Path::new(BUILT)).then(|| PathBuf::from("target/compiled-plugins"));
            let registry = Registry::open(&dir, Settings { cache_dir, ..Settings::default() })?;
            for refusal in registry.status().refused {
                eprintln!("plugin {} refused: {}", refusal.plugin, refusal.reason);
            }
            return Ok(registry);
        };
        let registry = Registry::new(Settings::default())?;
        load(&registry, file)?;
        Ok(registry)
    }
}

/// The format of this name, or the only one that another system calls so.
fn find(registry: &Registry, name: &str) -> Option<Pinned> {
    if let Ok(pinned) = registry.pin(name) {
        return Some(pinned);
    }
    let known_as = |format: &crate::plugins::Descriptor| format.aliases.iter().any(|(_, alias)| alias == name);
    let mut known = registry.formats().into_iter().filter(known_as);
    let (only, more) = (known.next()?, known.next());
    if more.is_some() { None } else { registry.pin(&only.name).ok() }
}

/// One line, of a length that a terminal can show.
fn line(text: &str) -> String {
    const LONGEST: usize = 600;
    let flat = text.replace('\n', " ");
    if flat.len() <= LONGEST { flat } else { format!("{}…", &flat[..flat.floor_char_boundary(LONGEST)]) }
}
