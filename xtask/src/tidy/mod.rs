//! Source rules that no compiler checks: size, first lines, doors to heavy dependencies, the direction of edges, one choice of features.

mod edges;
mod selection;
mod sources;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// Checks every rule and reports every breach.
///
/// # Errors
/// A rule is broken; the error lists each place.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let files = sources::read_all(&workspace.root)?;
    let mut breaches: Vec<String> = files.iter().flat_map(sources::breaches).collect();
    breaches.extend(edges::breaches(&workspace.packages));
    breaches.extend(selection::breaches(workspace)?);
    if !breaches.is_empty() {
        bail!("{} rule(s) broken:\n  {}", breaches.len(), breaches.join("\n  "));
    }
    eprintln!("    {} files in order", files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_in_order() {
        check(&Workspace::load().unwrap()).unwrap();
    }
}
