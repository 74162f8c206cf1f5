//! The units of systemd, as systemd itself judges them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The units with their highest exposure, in tenths. The drop-in is for homes with providers of the kinds `mcp` and
/// `bridge`: their sandboxes need namespaces, which rules out a lower exposure.
const EXPOSURES: [(&[&str], &str); 2] = [
    (&["host-broker.service"], "--threshold=20"),
    (&["host-broker.service", "sandboxed-providers.conf"], "--threshold=30"),
];

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("host-broker/packaging/systemd")
}

/// Runs systemd-analyze on a unit with its drop-ins, whose program is one that exists here. `None` if it is not installed.
fn analyzed(parts: &[&str], arguments: &[&str]) -> Option<(bool, String)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host-broker.service");
    // A file that is judged by itself has no drop-ins. Lines of a later section of the same name count as theirs do.
    let text: String = parts.iter().map(|part| std::fs::read_to_string(units().join(part)).unwrap()).collect();
    std::fs::write(&path, text.replace("/usr/bin/host-broker", "/bin/true")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the judge is another program")]
    let mut command = Command::new("systemd-analyze");
    // The manager of a user wants one.
    command.args(arguments).arg(&path).env("XDG_RUNTIME_DIR", folder.path());
    let Ok(output) = command.output() else {
        println!("skipped: systemd-analyze is not installed");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn systemd_reads_the_units_without_a_warning() {
    for (parts, manager) in [
        (&["host-broker.service"][..], "--system"),
        (&["host-broker.service", "sandboxed-providers.conf"], "--system"),
        (&["user/host-broker.service"], "--user"),
    ] {
        let Some((is_valid, said)) = analyzed(parts, &["verify", manager, "--man=no"]) else { return };
        // Other units of the machine may have faults of their own.
        assert!(is_valid && !said.contains("host-broker"), "{parts:?}: {said}");
    }
}

#[test]
fn the_service_of_the_system_is_confined() {
    for (parts, threshold) in EXPOSURES {
        let judged = analyzed(parts, &["security", "--offline=true", "--no-pager", threshold]);
        let Some((is_below, said)) = judged else { return };
        // Older versions cannot judge a file.
        if said.contains("unrecognized option") {
            println!("skipped: {said}");
            return;
        }
        println!("{}: {}", parts.join(" with "), said.lines().last().unwrap_or_default());
        assert!(is_below, "{said}");
    }
}
