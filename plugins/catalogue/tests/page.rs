//! The page is what the plugins say, the plugins say what the catalogue asks, and every arguable case has its policy.

use std::collections::BTreeSet;

use sluicegate_catalogue::debatable::{POLICIES, outcomes};
use sluicegate_catalogue::rows::{NOT_COVERED, names, rows};
use sluicegate_catalogue::{formats, page, plugins};

const CASES: &str = include_str!("../../cases/parser_cases.json");

#[test]
fn the_page_in_the_repository_is_up_to_date() {
    let plugins = plugins();
    let page = page::render(&formats(&plugins), &outcomes(&plugins, CASES).expect("cases that pass"));
    let differs = page.lines().zip(include_str!("../../FORMATS.md").lines()).find(|(new, old)| new != old);
    assert_eq!(differs, None, "run `cargo xtask formats`");
    assert_eq!(page, include_str!("../../FORMATS.md"), "run `cargo xtask formats`");
}

#[test]
fn every_row_is_covered_or_has_a_reason() {
    let formats = formats(&plugins());
    let covered: BTreeSet<&str> = formats.iter().flat_map(|(_, d)| d.catalogue.iter().map(String::as_str)).collect();
    let all: BTreeSet<&str> = rows().iter().map(|row| row.id).collect();
    assert_eq!((all.len(), all.iter().filter(|id| id.starts_with('R')).count()), (87, 31));
    assert!(covered.is_subset(&all), "{:?} are no rows", covered.difference(&all));
    for row in rows() {
        let excused = NOT_COVERED.iter().any(|(id, _)| *id == row.id);
        assert!(covered.contains(row.id) || excused, "{}: no format covers it and NOT_COVERED has no reason", row.id);
    }
}

/// Whoever comes with another system's parser name finds ours by it.
#[test]
fn every_name_of_every_system_leads_to_a_format() {
    let formats = formats(&plugins());
    let found = |row: &str, system: &str, name: &str| {
        formats.iter().any(|(_, d)| {
            d.catalogue.iter().any(|id| id == row) && d.aliases.iter().any(|(s, n)| s == system && n == name)
        })
    };
    let excused = |row: &str| NOT_COVERED.iter().any(|(id, _)| *id == row);
    let lost: Vec<_> = names().into_iter().filter(|n| !excused(n.row) && !found(n.row, n.system, n.name)).collect();
    assert!(lost.is_empty(), "no format of that row has the alias: {lost:#?}");
}

#[test]
fn format_names_are_unique_across_plugins() {
    let formats = formats(&plugins());
    let names: BTreeSet<&str> = formats.iter().map(|(_, d)| d.name.as_str()).collect();
    assert_eq!(names.len(), formats.len());
}

#[test]
fn every_arguable_case_passes_and_has_one_policy() {
    let ran = outcomes(&plugins(), CASES).expect("results that the cases accept");
    let ran: Vec<&str> = ran.iter().map(|(id, _)| id.as_str()).collect();
    let mut decided: Vec<&str> = POLICIES.iter().flat_map(|policy| policy.cases.iter().copied()).collect();
    decided.sort_unstable();
    let mut wanted = ran.clone();
    wanted.sort_unstable();
    assert_eq!(decided, wanted);
}
