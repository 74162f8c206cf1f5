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
    /// What starts the host.
    pub fn host_broker(&self) -> PathBuf {
        handle(&self.host_broker)
    }

    /// What starts the shim.
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

fn build() -> Programs {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "-p", "host-broker", "-p", "mcp-shim", "--message-format=json"]);
    command.args(like_this_one());
    undisturbed(&mut command);
    let output = command.stderr(Stdio::piped()).output().expect("cargo can be started");
    assert!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    let find = |name: &str| {
        let path = output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter(|message| message.pointer("/target/name").is_some_and(|target| target == name))
            .find_map(|message| message.get("executable").and_then(Value::as_str).map(PathBuf::from));
        File::open(path.unwrap_or_else(|| panic!("cargo names no executable {name}"))).unwrap()
    };
    Programs { host_broker: find("host-broker"), mcp_shim: find("mcp-shim") }
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
