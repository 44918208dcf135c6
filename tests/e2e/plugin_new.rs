//! `sluicegate plugin new`: what it writes builds in a checkout and passes its golden, for every family.

use std::fs;
use std::path::Path;
use std::process::Command;

use sluicegate_tests::binary;

/// What a checkout needs for plugins: the SDK, the laws, the contract, the workspace around them.
fn checkout(root: &Path, to: &Path) {
    for part in ["plugins/sdk", "plugins/laws", "plugins/cases", "wit"] {
        copy(&root.join(part), &to.join(part));
    }
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).expect("copied");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("readable");
    let manifest: Vec<&str> = manifest
        .lines()
        .map(|line| if line.starts_with("members = ") { "members = [\"plugins/*\"]" } else { line })
        .filter(|line| !line.starts_with("default-members"))
        .collect();
    fs::write(to.join("Cargo.toml"), manifest.join("\n")).expect("written");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in from.read_dir().expect("listed").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
#[ignore = "builds the SDK and five crates: minutes"]
fn every_family_builds_and_passes_its_golden() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().expect("a folder");
    checkout(&root, folder.path());
    for family in ["json", "tag-params", "channels", "python", "brace"] {
        let name = format!("acme_{}", family.replace('-', "_"));
        let mut new = Command::new(binary().expect("the binary"));
        new.args(["plugin", "new", &name, "--family", family]).current_dir(folder.path());
        assert!(new.status().expect("it runs").success(), "{family}");
    }
    let mut test = Command::new(env!("CARGO"));
    test.args([
        "test",
        "--release",
        "--offline",
        "--workspace",
        "--exclude",
        "sluicegate-sdk",
        "--exclude",
        "sluicegate-laws",
        "--exclude",
        "sluicegate-cases",
    ]);
    test.current_dir(folder.path()).env("CARGO_TARGET_DIR", root.join("target/plugin-new"));
    let output = test.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("test recorded_cases ... ok").count(), 5, "{said}");
}
