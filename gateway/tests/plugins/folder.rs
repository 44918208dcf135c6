//! Loading from a folder, and following what happens in it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::plugins::{Registry, Settings};
use tempfile::TempDir;

use super::guest::{self, Guest};
use super::{content, open};

fn folder() -> TempDir {
    let dir = TempDir::new().expect("a folder");
    fs::write(dir.path().join("letters.wasm"), guest::plain()).expect("written");
    dir
}

fn opened(dir: &Path) -> Registry {
    Registry::open(dir, Settings::default()).expect("it opens")
}

fn serving(registry: &Registry) -> String {
    content(&open(registry).push("V", &[]).expect("it serves"))
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(15), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_good_component_of_a_folder_serves_and_bad_ones_are_reported() {
    let dir = folder();
    let numbers = Guest { formats: vec!["numbers".to_owned(), "digits".to_owned()], ..Guest::default() };
    fs::write(dir.path().join("numbers.wasm"), numbers.build()).expect("written");
    fs::write(dir.path().join("broken.wasm"), b"\0asm oh no").expect("written");
    fs::write(dir.path().join("Not A Name.wasm"), guest::plain()).expect("written");
    fs::write(dir.path().join("readme.txt"), b"hello").expect("written");
    let registry = opened(dir.path());
    let names: Vec<_> = registry.formats().into_iter().map(|format| format.name).collect();
    assert_eq!(names, ["digits", "letters", "numbers"]);
    let status = registry.status();
    assert_eq!(status.versions.len(), 2);
    assert_eq!(status.refused.iter().map(|refusal| refusal.plugin.as_str()).collect::<Vec<_>>(), ["broken"]);
    assert!(Registry::open(&dir.path().join("nowhere"), Settings::default()).is_err());
}

#[test]
fn a_changed_file_takes_over_and_a_bad_one_does_not() {
    let dir = folder();
    let registry = opened(dir.path());
    let _watch = registry.watch().expect("watched");
    let file = dir.path().join("letters.wasm");
    let mut long = open(&registry);

    fs::write(&file, guest::version(1)).expect("written");
    wait_for("version 1", || serving(&registry) == "0.1.1");
    assert_eq!(content(&long.push("V", &[]).expect("fine")), "0.1.0");

    fs::write(&file, b"garbage").expect("written");
    wait_for("the refusal", || !registry.status().refused.is_empty());
    assert_eq!(serving(&registry), "0.1.1");

    // Replaced by a rename, as careful programs do.
    fs::write(dir.path().join(".draft"), guest::version(2)).expect("written");
    fs::rename(dir.path().join(".draft"), &file).expect("renamed");
    wait_for("version 2", || serving(&registry) == "0.1.2");
    assert!(registry.status().refused.is_empty());

    fs::remove_file(&file).expect("removed");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(serving(&registry), "0.1.2", "a removed file is no reason to stop serving");
}

#[test]
fn a_file_written_in_two_halves_is_loaded_when_it_is_whole() {
    let dir = folder();
    let registry = opened(dir.path());
    let _watch = registry.watch().expect("watched");
    let wasm = guest::version(1);
    let mut file = fs::File::create(dir.path().join("letters.wasm")).expect("created");
    file.write_all(&wasm[..wasm.len() / 2]).expect("written");
    file.flush().expect("flushed");
    wait_for("the refusal of half a file", || !registry.status().refused.is_empty());
    assert_eq!(serving(&registry), "0.1.0");
    file.write_all(&wasm[wasm.len() / 2..]).expect("written");
    drop(file);
    wait_for("the whole file", || serving(&registry) == "0.1.1");
    assert!(registry.status().refused.is_empty());
}

#[test]
fn unchanged_bytes_are_not_built_again_and_installed_ones_survive_a_restart() {
    let dir = folder();
    let registry = opened(dir.path());
    let watch = registry.watch().expect("watched");
    fs::write(dir.path().join("letters.wasm"), guest::plain()).expect("touched");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(registry.status().totals.versions_loaded, 1);
    registry.install("letters", &guest::version(7)).expect("installed");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(registry.status().totals.versions_loaded, 2, "its own writing is no change");
    registry.install("letters", b"garbage").expect_err("refused");
    drop(watch);
    assert_eq!(serving(&opened(dir.path())), "0.1.7");
}
