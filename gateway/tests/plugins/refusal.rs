//! A component that is not right is refused with the reason, and the old one keeps serving.

use std::time::{Duration, Instant};

use sluicegate::plugins::{RefusedReason, Registry, Settings};

use super::guest::{self, Guest};
use super::{content, open, registry};

fn refused(registry: &Registry, wasm: Vec<u8>) -> RefusedReason {
    let reason = registry.load("letters", wasm).expect_err("this must be refused").reason;
    let mut stream = open(registry);
    assert_eq!(content(&stream.push("V", &[]).expect("the old one serves")), "0.1.0");
    let status = registry.status();
    assert_eq!(status.versions.len(), 1);
    assert_eq!(status.refused[0].reason, reason.to_string());
    reason
}

#[test]
fn files_that_are_no_plugin() {
    let registry = registry(Settings { max_component_bytes: 1 << 20, ..Settings::default() });
    let whole = guest::version(1);
    assert!(matches!(refused(&registry, Vec::new()), RefusedReason::Invalid(_)));
    assert!(matches!(refused(&registry, b"not wasm".to_vec()), RefusedReason::Invalid(_)));
    for part in 1..8 {
        let truncated = whole[..whole.len() * part / 8].to_vec();
        assert!(matches!(refused(&registry, truncated), RefusedReason::Invalid(_) | RefusedReason::World { .. }));
    }
    assert!(matches!(refused(&registry, vec![0; 2 << 20]), RefusedReason::TooLarge { .. }));
    registry.load("letters", whole).expect("the whole file loads");
}

#[test]
fn wrong_worlds() {
    let registry = registry(Settings::default());
    let imports = Guest { imports: true, ..Guest::default() }.build();
    assert_eq!(refused(&registry, imports), RefusedReason::Imports(vec!["log".to_owned()]));
    let reason = refused(&registry, guest::stranger()).to_string();
    assert!(reason.contains("sluicegate:format/types@0.1") && reason.contains("hello"), "{reason}");
    let wider = [
        ("note(string),", "note(string), hint(string),"),
        ("enum channel { content, reasoning }", "enum channel { content, reasoning, other }"),
    ];
    for change in wider {
        let wasm = Guest { contract: Some(change), ..Guest::default() }.build();
        assert!(matches!(refused(&registry, wasm), RefusedReason::Types { .. }), "{change:?}");
    }
}

#[test]
fn plugins_that_fail_before_they_serve() {
    let registry = registry(Settings::default());
    let failing = [
        Guest { describe: "unreachable", ..Guest::default() },
        Guest { describe: "(call $forever)", ..Guest::default() },
        Guest { describe: "(call $eat)", ..Guest::default() },
        Guest { start: "unreachable", ..Guest::default() },
        Guest { start: "(call $forever)", ..Guest::default() },
        Guest { start: "(call $eat)", ..Guest::default() },
    ];
    for guest in failing {
        let begun = Instant::now();
        let reason = refused(&registry, guest.build());
        assert!(matches!(reason, RefusedReason::Failed { .. }), "{reason}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{reason} took {:?}", begun.elapsed());
    }
}

#[test]
fn wrong_descriptions() {
    let registry = registry(Settings::default());
    let formats = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let wrong = [
        (Guest { formats: formats(&["Letters"]), ..Guest::default() }, "a-z"),
        (Guest { formats: formats(&["a", "a"]), ..Guest::default() }, "twice"),
        (Guest { formats: Vec::new(), ..Guest::default() }, "0 formats"),
        (Guest { version: "one".to_owned(), ..Guest::default() }, "semantic version"),
        (Guest { options_schema: "{".to_owned(), ..Guest::default() }, "options-schema is not JSON"),
        (Guest { options_schema: "[]".to_owned(), ..Guest::default() }, "not a JSON object"),
    ];
    for (guest, expected) in wrong {
        let reason = refused(&registry, guest.build()).to_string();
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_format_belongs_to_one_plugin_and_names_are_file_names() {
    let registry = registry(Settings::default());
    let reason = registry.load("other", guest::version(1)).expect_err("the format is taken").reason;
    assert_eq!(reason, RefusedReason::Taken { format: "letters".to_owned(), owner: "letters".to_owned() });
    for name in ["", "../etc", "A", ".hidden", "a/b", "-a"] {
        assert_eq!(registry.load(name, guest::version(1)).expect_err("no file name").reason, RefusedReason::Name);
    }
    assert!(registry.remove("letters"));
    assert!(registry.pin("letters").is_err());
    registry.load("other", guest::version(1)).expect("the format is free");
}
