//! The executables under test.
//!
//! `cargo test` does not promise to have built another package's executables, so they are built here, once for each
//! test process, in the profile and the target directory of the tests. They are kept open and started through that
//! handle: a build that happens meanwhile cannot exchange them in the middle of a test.

use serde_json::Value;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Both executables.
pub struct Programs {
    host_broker: File,
    mcp_shim: File,
}

impl Programs {
    /// The program that starts the host.
    pub fn host_broker(&self) -> PathBuf {
        handle(&self.host_broker)
    }

    /// The program that starts the shim.
    pub fn mcp_shim(&self) -> PathBuf {
        handle(&self.mcp_shim)
    }
}

fn handle(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// Builds them, or waits for whoever does.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(build)
}

/// A library of the workspace, or one that it uses.
#[derive(Debug)]
pub struct Library {
    /// The name by which programs use it.
    pub name: String,
    /// The file.
    pub file: PathBuf,
}

/// Returns the libraries that the programs are built from and that tests use by name.
pub fn libraries() -> Vec<Library> {
    const NAMED: [&str; 14] = [
        "config",
        "engine",
        "filter",
        "host_broker",
        "kernel",
        "model",
        "platform",
        "policy",
        "provider",
        "rules",
        "secrets",
        "shared",
        "store",
        "tokio",
    ];
    let found = artifacts().into_iter().filter_map(|message| {
        let name = message.pointer("/target/name")?.as_str()?.replace('-', "_");
        let is_library = message.pointer("/target/kind")?.as_array()?.iter().any(|kind| kind == "lib");
        let files = message.get("filenames")?.as_array()?.iter().filter_map(Value::as_str);
        let file = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|kind| kind == "rlib"))?;
        (is_library && NAMED.contains(&name.as_str())).then_some(Library { name, file })
    });
    let found: Vec<Library> = found.collect();
    assert_eq!(found.len(), NAMED.len(), "{found:?}");
    found
}

fn build() -> Programs {
    let artifacts = artifacts();
    let find = |name: &str| {
        let path = artifacts
            .iter()
            .filter(|message| message.pointer("/target/name").is_some_and(|target| target == name))
            .find_map(|message| message.get("executable").and_then(Value::as_str).map(PathBuf::from));
        File::open(path.unwrap_or_else(|| panic!("cargo names no executable {name}"))).unwrap()
    };
    Programs { host_broker: find("host-broker"), mcp_shim: find("mcp-shim") }
}

/// Builds the programs, and returns the messages of cargo. The selection and the features are those of
/// `cargo test --workspace`, which has built the same already.
fn artifacts() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--workspace", "--bins", "--message-format=json"]);
    command.args(like_this_one());
    undisturbed(&mut command);
    let output = command.stderr(Stdio::piped()).output().expect("cargo can be started");
    assert!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Builds a shim that runs in any image, as `.ci/static-shim` does, and returns its path.
pub fn static_shim() -> PathBuf {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(build_static_shim).clone()
}

fn build_static_shim() -> PathBuf {
    let said = Command::new("rustc").arg("-vV").output().expect("rustc can be started");
    let said = String::from_utf8(said.stdout).unwrap();
    let target = said.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--profile", "shim", "--target", target, "--locked", "-p", "mcp-shim"]);
    command.args(["--message-format=json", "--target-dir"]).args(like_this_one().pop());
    undisturbed(&mut command);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let output = command.stderr(Stdio::piped()).output().expect("cargo can be started");
    assert!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let mut messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let shim = messages.find_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
    shim.expect("cargo names the executable")
}

/// Takes away what cargo has set for this program. Some build scripts ask for it, and would build again because it
/// changed.
fn undisturbed(cargo: &mut Command) {
    for (name, _) in std::env::vars() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|set| name.starts_with(set)) {
            cargo.env_remove(name);
        }
    }
}

/// The profile, the target and the target directory of this very test executable:
/// `<directory>[/<target>]/<profile>/deps/<name>`.
fn like_this_one() -> Vec<std::ffi::OsString> {
    let exe = std::env::current_exe().unwrap();
    let folders: Vec<&Path> = exe.ancestors().skip(2).take(3).collect();
    let [profile, above, top] = folders.as_slice() else { panic!("not built by cargo: {}", exe.display()) };
    let name = profile.file_name().unwrap().to_string_lossy().into_owned();
    let triple = above.file_name().unwrap().to_string_lossy().into_owned();
    let has_triple = triple.matches('-').count() >= 2 && top.join("CACHEDIR.TAG").exists();
    let mut arguments = Vec::new();
    if name != "debug" {
        arguments.extend(["--profile".into(), name.into()]);
    }
    if has_triple {
        arguments.extend(["--target".into(), triple.into()]);
    }
    arguments.extend(["--target-dir".into(), if has_triple { top } else { above }.as_os_str().to_owned()]);
    arguments
}
