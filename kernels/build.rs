//! Puts compiled CUDA kernels in the binary, if `cargo xtask kernels` has made any. Never fails: without them, and without
//! nvcc or a C++ compiler, the crate builds all the same and says at run time that it has no kernels.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=SLUICEGATE_KERNELS");
    let path = |name: &str| env::var_os(name).map(PathBuf::from);
    let target = || {
        let default = || path("CARGO_MANIFEST_DIR").unwrap_or_default().join("../target");
        path("CARGO_TARGET_DIR").unwrap_or_else(default).join("kernels")
    };
    let folder = path("SLUICEGATE_KERNELS").unwrap_or_else(target);
    // Cargo takes a folder that is not there for one that has changed, in every build; an empty one is watched quietly.
    if fs::create_dir_all(&folder).is_ok() {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("images.rs");
    let text = table(&fatbins(&folder));
    assert!(fs::write(&out, text).is_ok(), "cannot write {}", out.display());
}

fn fatbins(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "fatbin")).collect();
    found.sort();
    found.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn table(images: &[PathBuf]) -> String {
    let mut text = String::from("static IMAGES: &[&[u8]] = &[");
    for image in images {
        // Writing to a string does not fail.
        let _ = write!(text, "include_bytes!({:?}), ", image.display().to_string());
    }
    text + "];\n"
}
