//! `[broker]`, `[grant_ceiling]` and `[groups]`.

use crate::run::RunTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Level, Provider};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The general settings of the broker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerTable {
    /// The time that a caller waits for a reply, in milliseconds: 100 to 120000. A provider's `timeout_ms` takes
    /// precedence.
    pub call_timeout_ms: u64,
    /// The number of calls of one group that can be in progress at the same time; at least 1.
    pub max_concurrent_calls: usize,
    /// The treatment of documents whose type is not one of this protocol.
    pub unknown_requests: UnknownRequests,
    /// The hourly evidence budget of one group, external agent or operator token, in MiB: rows and stored bodies. Above it, the broker
    /// refuses the calls. Rows about requests that change nothing can use an eighth of it. Above that, the broker counts
    /// them in one row per minute. 0 means no limit.
    pub evidence_mib_per_hour: u64,
    /// The minimum free space on the disk of the home, in MiB, but at most a fiftieth of the disk. Below it, the broker
    /// first refuses the caller that has used most.
    pub free_space_mib: u64,
    /// The size of the ledger's database, in MiB, above which the oldest rows move into segments. Segments are
    /// compressed files in `segments/`; `evidence verify` and `export` read them. Only rows older than a day move. 0
    /// means that rows never move.
    pub ledger_mib: u64,
    /// The group of users, by name or number, whose processes can connect to the control socket. `[people]` sets the
    /// rights of each user. Absent means that only the daemon's own user can connect.
    pub socket_group: Option<String>,
}

/// The treatment of documents whose type is not one of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownRequests {
    /// Reject them.
    #[default]
    Reject,
    /// Ignore them: another host shares the directory.
    Ignore,
}

impl Default for BrokerTable {
    fn default() -> Self {
        Self {
            call_timeout_ms: u64::try_from(shared::limits::TIMEOUT_DEFAULT.as_millis()).unwrap_or(30_000),
            max_concurrent_calls: shared::limits::IN_FLIGHT_PER_GROUP,
            unknown_requests: UnknownRequests::Reject,
            evidence_mib_per_hour: 64,
            free_space_mib: 256,
            ledger_mib: 1024,
            socket_group: None,
        }
    }
}

/// The limit of the grants that the main group's agent can make without an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ceiling {
    /// The highest level that the agent can grant.
    pub max_level: Level,
    /// Whether the agent can grant actions that read private data.
    pub sensitive: bool,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self { max_level: Level::Read, sensitive: false }
    }
}

/// One group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupTable {
    /// Whether this is the main group. Only the main group's agent can administer grants.
    pub main: bool,
    /// The user id of the processes in the group's sandbox; absent means that any owner is accepted.
    pub uid: Option<u32>,
    /// The file with the key that signs the group's requests; absent means that requests are not signed.
    pub signing_key_file: Option<PathBuf>,
    /// The providers to which the group's agent may request access; absent means none. A person decides on each request.
    pub may_request: BTreeSet<Provider>,
    /// The end of the group's exposure: only by an operator's reset, or also by the first call of a new MCP client. The
    /// guide to exposure has the conditions.
    pub exposure_ends: ExposureEnd,
    /// The options of `host-broker run` for the group's agents.
    pub run: RunTable,
}

/// The end of a group's exposure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExposureEnd {
    /// An operator resets it, after the sandbox was recreated.
    #[default]
    Reset,
    /// The first call of a new MCP client also ends it. The agent must not run programs, nor keep files or memory.
    Conversation,
}
