//! The crates depend on each other only in the directions of docs/internals/architecture.md.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// No provider knows the store, a proof or another provider.
const A_PROVIDER: &[&str] = &["filter", "model", "platform", "provider", "secrets", "shared"];

/// Each crate with the workspace crates that it may use. The page has the same table.
const ALLOWED: &[(&str, &[&str])] = &[
    ("shared", &[]),
    ("confinement", &[]),
    ("mcp-shim", &["confinement", "shared"]),
    ("model", &["shared"]),
    ("platform", &["confinement", "model", "shared"]),
    ("policy", &["model", "shared"]),
    ("rules", &["model", "policy", "shared"]),
    ("store", &["model", "platform", "shared"]),
    ("kernel", &["model", "policy", "shared", "store"]),
    ("secrets", &["kernel", "model", "platform", "shared"]),
    ("filter", &["model", "secrets", "shared"]),
    ("provider", &["filter", "kernel", "model", "platform", "secrets", "shared"]),
    ("provider-bridge", A_PROVIDER),
    ("provider-calendar", A_PROVIDER),
    ("provider-cloud-logs", A_PROVIDER),
    ("provider-files", A_PROVIDER),
    ("provider-github", A_PROVIDER),
    ("provider-mail", A_PROVIDER),
    ("provider-mcp", A_PROVIDER),
    ("provider-mock", A_PROVIDER),
    ("provider-passwords", A_PROVIDER),
    ("config", &["filter", "model", "platform", "policy", "provider", "rules", "secrets", "shared"]),
    (
        "engine",
        &[
            "config", "filter", "kernel", "model", "platform", "policy", "provider", "rules", "secrets", "shared",
            "store",
        ],
    ),
    (
        "host-broker",
        &[
            "config",
            "engine",
            "filter",
            "kernel",
            "model",
            "platform",
            "policy",
            "provider",
            "provider-bridge",
            "provider-calendar",
            "provider-cloud-logs",
            "provider-files",
            "provider-github",
            "provider-mail",
            "provider-mcp",
            "provider-mock",
            "provider-passwords",
            "rules",
            "secrets",
            "shared",
            "store",
        ],
    ),
    (
        "tests",
        &[
            "config",
            "engine",
            "filter",
            "host-broker",
            "kernel",
            "mcp-shim",
            "model",
            "platform",
            "policy",
            "provider",
            "provider-bridge",
            "provider-calendar",
            "provider-cloud-logs",
            "provider-files",
            "provider-github",
            "provider-mail",
            "provider-mcp",
            "provider-mock",
            "provider-passwords",
            "rules",
            "secrets",
            "shared",
            "store",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn metadata() -> Value {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    #[expect(clippy::disallowed_methods, reason = "cargo knows the dependencies")]
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_crate_uses_only_the_crates_below_it() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let listed: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed, "every crate of the workspace has a row");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = ALLOWED.iter().find(|(listed, _)| *listed == name).unwrap();
        // The tests of a crate may use crates above it; the product does not see them.
        let is_of_the_product = |dependency: &&Value| dependency["kind"] != "dev" || name == "tests";
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(is_of_the_product) {
            let used = dependency["name"].as_str().unwrap();
            assert!(!names.contains(used) || allowed.contains(&used), "{name} may not use {used}");
        }
    }
}

#[test]
fn the_architecture_page_has_the_same_table() {
    let page = std::fs::read_to_string(root().join("docs/internals/architecture.md")).unwrap();
    for &(name, allowed) in ALLOWED {
        let row =
            page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap_or_else(|| panic!("{name}"));
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap().trim();
        let used = if allowed.is_empty() { "—".to_owned() } else { words(allowed) };
        assert_eq!(cell, used, "{name}");
    }
}

fn words(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// `provider-github` → `github`
fn kind(name: &str) -> &str {
    name.strip_prefix("provider-").unwrap_or(name)
}

/// A re-export of a whole crate would give its users an edge that the table does not have.
#[test]
fn no_crate_reexports_another_crate_of_the_workspace() {
    for &(name, _) in ALLOWED {
        let places = [
            name.to_owned(),
            format!("shared/{name}"),
            format!("host-broker/{name}"),
            format!("host-broker/providers/{}", kind(name)),
        ];
        let directory = places.iter().map(|place| root().join(place)).find(|place| place.is_dir()).unwrap();
        let lib = std::fs::read_to_string(directory.join("src/lib.rs")).unwrap();
        for &(other, _) in ALLOWED {
            let other = other.replace('-', "_");
            for reexport in
                [format!("pub use {other};"), format!("pub use {other}::*"), format!("pub extern crate {other}")]
            {
                assert!(!lib.contains(&reexport), "{name}: {reexport}");
            }
        }
    }
}

/// One file tells the whole story of a call. It is read in one go only as long as it is short.
#[test]
fn the_file_of_the_pipeline_stays_short() {
    let pipeline = std::fs::read_to_string(root().join("host-broker/engine/src/pipeline.rs")).unwrap();
    let lines = pipeline.lines().count();
    assert!((100..=300).contains(&lines), "{lines} lines");
}
