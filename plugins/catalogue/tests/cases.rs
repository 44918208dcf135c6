//! Every recorded case and every worked example of every plugin, in every chunking.

use std::path::Path;

use sluicegate_catalogue::plugins;
use sluicegate_laws::case::{assert_cases, assert_golden};

#[test]
fn recorded_cases_and_worked_examples() {
    for plugin in plugins() {
        assert_cases(&plugin, include_str!("../../cases/parser_cases.json"), &[]);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(plugin.name).join("golden");
        assert_golden(&plugin, &golden.to_string_lossy());
    }
}
