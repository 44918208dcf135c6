//! `serve` and `test` must choose the same features of every dependency, else the second one builds half of them again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::run;
use crate::workspace::{Workspace, cargo};

/// Feature sets by package and version; a package that is built for the build machine too may have two.
type Selection = BTreeMap<String, BTreeSet<String>>;

/// Dependencies whose features the tests' own dependencies change.
pub(super) fn breaches(workspace: &Workspace) -> Result<Vec<String>> {
    let select = |edges: &str| -> Result<Selection> {
        let mut tree = cargo();
        tree.args(["tree", "--workspace", "--prefix=none", "--format={p}\t{f}", "--edges", edges]);
        Ok(parse(&run::output(tree.current_dir(&workspace.root))?))
    };
    Ok(compare(&select("normal,build")?, &select("normal,build,dev")?))
}

fn parse(tree: &str) -> Selection {
    let mut selection = Selection::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('\t')) {
        let features = features.trim_end_matches(" (*)").to_owned();
        selection.entry(package.to_owned()).or_default().insert(features);
    }
    selection
}

fn compare(serve: &Selection, test: &Selection) -> Vec<String> {
    let differ = |(package, features): (&String, &BTreeSet<String>)| {
        let tests = test.get(package).filter(|tests| !features.is_subset(tests))?;
        Some(format!(
            "Cargo.toml: tests build {package} with features {tests:?}, `serve` with {features:?}; ask for the same ones \
             in [workspace.dependencies]"
        ))
    };
    serve.iter().filter_map(differ).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_only_tests_turn_on_is_named() {
        let serve = parse("serde v1.0.0\tderive,std\nlog v0.4.0\tstd (*)\n");
        let test = parse("serde v1.0.0\tderive,rc,std\nlog v0.4.0\tstd\nproptest v1.0.0\tstd\n");
        let found = compare(&serve, &test);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("serde v1.0.0") && found[0].contains("rc"), "{found:?}");
    }
}
