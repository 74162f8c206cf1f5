//! `[providers.files]`: the places of the workspaces, and the permitted operations.

use crate::rules::{CREATABLE, DENIED};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::Group;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The most bytes that one read returns under any configuration.
pub const READ_BYTES_MAX: usize = 131_072;
/// The most bytes that a file may have after a change under any configuration.
pub const WRITE_BYTES_MAX: u64 = 524_288;
/// The most bytes of all files of one change, before and after it together.
pub(super) const SET_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The longest that a proposal may wait, in seconds.
const TTL_MAX_S: u64 = 7 * 24 * 3600;

/// The settings of the provider of files.
///
/// ```toml
/// [providers.files]
/// kind = "files"
/// workspaces = { developer = "/srv/agents/developer" }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The directory that is mounted into each group's sandbox. Absent for a group means `workspaces/<group>` in the
    /// home. A relative path is relative to the home.
    pub workspaces: BTreeMap<Group, PathBuf>,
    /// The time after which the approval request of a proposal expires, in seconds: 1 to 604800. Absent means
    /// `expires_s` of `[approvals]`.
    pub hitl_ttl_seconds: Option<u64>,
    /// The time after the approval in which a proposal can be applied, in seconds: 1 to 604800.
    pub apply_window_seconds: u64,
    /// The number of bytes that one read returns by default: 1 to `max_read_bytes_hard`.
    pub max_read_bytes_default: usize,
    /// The largest number of bytes that one read returns: 1 to 131072.
    pub max_read_bytes_hard: usize,
    /// The largest size of a file after a change, in bytes: 1 to 524288.
    pub max_write_bytes_hard: u64,
    /// The directories in which files can be created, in addition to the root.
    pub allowlisted_create_dirs: Vec<String>,
    /// The paths that are denied to every caller. A pattern covers the path that it names and everything below, at any
    /// depth, in any case.
    pub deny_path_globs: Vec<String>,
    /// Whether calls are recorded; only true is valid, because every provider is recorded.
    pub audit_log_enabled: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workspaces: BTreeMap::new(),
            hitl_ttl_seconds: None,
            apply_window_seconds: 600,
            max_read_bytes_default: 32_000,
            max_read_bytes_hard: READ_BYTES_MAX,
            max_write_bytes_hard: WRITE_BYTES_MAX,
            allowlisted_create_dirs: CREATABLE.map(str::to_owned).to_vec(),
            deny_path_globs: DENIED.map(str::to_owned).to_vec(),
            audit_log_enabled: true,
        }
    }
}

impl Settings {
    /// The faults of the values, with their remedy.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check(&self) -> Result<(), String> {
        let fault = |fault: &str| Err(fault.to_owned());
        if !self.audit_log_enabled {
            return fault("audit_log_enabled must be true, because every call is recorded; remove the line");
        }
        for (name, seconds) in [
            ("hitl_ttl_seconds", self.hitl_ttl_seconds.unwrap_or(1)),
            ("apply_window_seconds", self.apply_window_seconds),
        ] {
            if !(1..=TTL_MAX_S).contains(&seconds) {
                return fault(&format!("{name} must be 1 to {TTL_MAX_S}, which is a week"));
            }
        }
        if !(1..=READ_BYTES_MAX).contains(&self.max_read_bytes_hard) {
            return fault(&format!("max_read_bytes_hard must be 1 to {READ_BYTES_MAX}"));
        }
        if !(1..=self.max_read_bytes_hard).contains(&self.max_read_bytes_default) {
            return fault("max_read_bytes_default must be 1 to max_read_bytes_hard");
        }
        if !(1..=WRITE_BYTES_MAX).contains(&self.max_write_bytes_hard) {
            return fault(&format!("max_write_bytes_hard must be 1 to {WRITE_BYTES_MAX}"));
        }
        Ok(())
    }

    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(self.apply_window_seconds)
    }
}
