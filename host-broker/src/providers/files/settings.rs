//! `[providers.files]`: where the workspaces are, and what may be done in them.

use crate::providers::files::rules::{CREATABLE, DENIED};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::Group;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The most bytes that one read returns, whatever the configuration says.
pub const READ_BYTES_MAX: usize = 131_072;
/// The most bytes that a file may have after a change, whatever the configuration says.
pub const WRITE_BYTES_MAX: u64 = 524_288;
/// The most bytes of all files of one change, before and after it together.
pub(super) const SET_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The longest that a proposal may wait, in seconds.
const TTL_MAX_S: u64 = 7 * 24 * 3600;

/// The provider's table.
///
/// ```toml
/// [providers.files]
/// kind = "files"
/// workspaces = { developer = "/srv/agents/developer" }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The directory that is mounted into each group's sandbox. A group without a line has `workspaces/<group>` of the
    /// home; a path that is not absolute is beneath the home.
    pub workspaces: BTreeMap<Group, PathBuf>,
    /// For how long a person is asked about a proposal, in seconds. Absent means `expires_s` of `[approvals]`, as for every
    /// other question.
    pub hitl_ttl_seconds: Option<u64>,
    /// For how long after that an approved proposal can be applied, in seconds.
    pub apply_window_seconds: u64,
    /// How many bytes one read returns unless it asks for another number.
    pub max_read_bytes_default: usize,
    /// How many it returns at most; no more than 131072.
    pub max_read_bytes_hard: usize,
    /// How many bytes a file may have after a change; no more than 524288.
    pub max_write_bytes_hard: u64,
    /// Where files may be created, beside the root.
    pub allowlisted_create_dirs: Vec<String>,
    /// What nobody may ask for. A pattern means what it names and everything beneath it, at any depth, in any case.
    pub deny_path_globs: Vec<String>,
    /// There is no provider without evidence, so this can only be true.
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
    /// What is wrong with the values, and what to do.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check(&self) -> Result<(), String> {
        let fault = |fault: &str| Err(fault.to_owned());
        if !self.audit_log_enabled {
            return fault("audit_log_enabled can only be true: everything is recorded in the ledger; remove the line");
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
