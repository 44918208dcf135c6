//! Which member may depend on which: gateway -> backend -> kernels, plugins -> sdk, and nothing back.

use crate::workspace::Package;

/// Allowed members for each folder, by package name; `x-*` is every name that begins so. The first folder that fits
/// counts; folders that are not listed may use anything.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("gateway", &["sluicegate-backend", "sluicegate-workers", "sluicegate-cases"]),
    ("workers", &["sluicegate-backend"]),
    ("backend", &["sluicegate-kernels"]),
    ("kernels/emulate", &["sluicegate-kernels", "sluicegate-ptx"]),
    ("kernels", &[]),
    ("plugins/sdk", &[]),
    ("plugins/cases", &[]),
    ("plugins/laws", &["sluicegate-sdk", "sluicegate-cases"]),
    ("plugins/catalogue", &["sluicegate-sdk", "sluicegate-laws", "format-*"]),
    ("plugins", &["sluicegate-sdk"]),
];

/// Members that look in from outside: nothing may depend on them.
const OUTSIDE: [&str; 4] = ["sluicegate-tests", "sluicegate-benches", "sluicegate-emulate", "xtask"];

pub(crate) fn breaches(packages: &[Package]) -> impl Iterator<Item = String> {
    packages.iter().flat_map(|package| {
        let allowed = ALLOWED.iter().find(|(folder, _)| package.folder.starts_with(folder)).map(|(_, names)| *names);
        let refused = move |used: &&String| {
            OUTSIDE.contains(&used.as_str()) || allowed.is_some_and(|names| !names.iter().any(|name| fits(name, used)))
        };
        let breach =
            |used: &String| format!("{}: may not depend on {used}", package.folder.join("Cargo.toml").display());
        package.uses.iter().filter(refused).map(breach)
    })
}

fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &str, uses: &str, expected: usize) {
        let package = Package {
            name: "it".into(),
            folder: folder.into(),
            is_component: false,
            uses: uses.split_whitespace().map(str::to_owned).collect(),
        };
        assert_eq!(breaches(&[package]).count(), expected, "{folder} uses {uses}");
    }

    #[test]
    fn edges_point_right() {
        check("gateway", "sluicegate-backend", 0);
        check("gateway", "sluicegate-kernels sluicegate-sdk", 2);
        check("gateway", "sluicegate-workers sluicegate-cases", 0);
        check("workers", "sluicegate-backend", 0);
        check("workers", "sluicegate sluicegate-kernels", 2);
        check("backend", "sluicegate sluicegate-workers", 2);
        check("kernels", "sluicegate-backend", 1);
        check("kernels/emulate", "sluicegate-kernels", 0);
        check("kernels", "sluicegate-emulate", 1);
        check("plugins/qwen", "sluicegate-sdk", 0);
        check("plugins/qwen", "sluicegate", 1);
        check("plugins/sdk", "format-qwen", 1);
        check("plugins/cases", "sluicegate sluicegate-sdk", 2);
        check("plugins/laws", "sluicegate-sdk sluicegate-cases", 0);
        check("plugins/catalogue", "format-qwen format-labs sluicegate-laws", 0);
        check("plugins/catalogue", "sluicegate", 1);
        check("benches", "sluicegate sluicegate-backend", 0);
        check("benches", "sluicegate-tests", 1);
    }
}
