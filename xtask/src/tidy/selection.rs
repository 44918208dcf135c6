//! `xtask`, `serve` and `test` must choose the same features of every dependency, else each builds many of them again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::run;
use crate::workspace::{Workspace, cargo};

/// Feature sets by package and version; a package that is built for the build machine too may have two.
type Selection = BTreeMap<String, BTreeSet<String>>;

/// Dependencies that are built with other features for the tests than for what is built before them.
pub(super) fn breaches(workspace: &Workspace) -> Result<Vec<String>> {
    let select = |packages: &[&str], edges: &str| -> Result<Selection> {
        let mut tree = cargo();
        tree.arg("tree").args(packages).args(["--prefix=none", "--format={p}\t{f}", "--edges", edges]);
        Ok(parse(&run::output(tree.current_dir(&workspace.root))?))
    };
    let tests = select(&["--workspace"], "normal,build,dev")?;
    let serve = select(&["--workspace"], "normal,build")?;
    let xtask = select(&["--package=xtask"], "normal,build")?;
    let mut found = compare("`serve`", &serve, &tests, "Cargo.toml: ask for the same ones in [workspace.dependencies]");
    found.extend(compare("`xtask`", &xtask, &tests, "xtask/Cargo.toml: ask for the same ones there"));
    Ok(found)
}

fn parse(tree: &str) -> Selection {
    let mut selection = Selection::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('\t')) {
        let features = features.trim_end_matches(" (*)").to_owned();
        selection.entry(package.to_owned()).or_default().insert(features);
    }
    selection
}

fn compare(first: &str, selected: &Selection, tests: &Selection, remedy: &str) -> Vec<String> {
    let differ = |(package, features): (&String, &BTreeSet<String>)| {
        let theirs = tests.get(package).filter(|theirs| !features.is_subset(theirs))?;
        Some(format!("{remedy}: tests build {package} with features {theirs:?}, {first} with {features:?}"))
    };
    selected.iter().filter_map(differ).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_only_tests_turn_on_is_named() {
        let serve = parse("serde v1.0.0\tderive,std\nlog v0.4.0\tstd (*)\n");
        let test = parse("serde v1.0.0\tderive,rc,std\nlog v0.4.0\tstd\nproptest v1.0.0\tstd\n");
        let found = compare("`serve`", &serve, &test, "Cargo.toml");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("serde v1.0.0") && found[0].contains("rc"), "{found:?}");
    }
}
