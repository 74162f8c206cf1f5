//! The closed list of reason codes.
//!
//! Every reply that is not `executed` carries one. A code is stable; its texts may improve. `host-broker reason-codes`
//! prints this list, and a test compares it with the README.

use crate::reply::Status;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// The reason why a request was not executed, or its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Not a document of this protocol.
    MalformedRequest,
    /// More than [`crate::limits::REQUEST_BYTES_MAX`].
    OversizedRequest,
    /// The request contains a secret of the broker, or its result would.
    OwnSecret,
    /// A signature is missing or wrong.
    BadSignature,
    /// Older than [`crate::limits::REQUEST_AGE_MAX`].
    StaleRequest,
    /// This request id was used before, with other content or too long ago.
    ReplayedRequest,
    /// The `type` is not ours.
    UnknownType,
    /// The caller is not the main group.
    MainOnly,
    /// The group has too many calls in progress.
    Busy,
    /// The group's directory is not in the sandbox, or cannot be written to.
    NoMailbox,
    /// The host writes no heartbeat.
    HostDown,
    /// The shim gave up and took its request back.
    Withdrawn,
    /// The shim gave up; the host had already taken the request.
    NoAnswer,
    /// No active grant.
    NoGrant,
    /// The grant has expired.
    GrantExpired,
    /// The call needs a person as its subject, and there is no context token.
    ContextTokenMissing,
    /// The context token is not valid.
    ContextTokenInvalid,
    /// The context token has expired.
    ContextTokenExpired,
    /// The capability is not available in this chat, or to this person.
    CapabilityAccessDenied,
    /// The person has linked no account.
    CapabilityAuthRequired,
    /// The person has linked several accounts, and the call names none of them.
    CapabilityAccountAmbiguous,
    /// The link session does not exist, belongs to another caller, or was used.
    CapabilityAuthFlowInvalid,
    /// The link session has expired.
    CapabilityAuthFlowExpired,
    /// The provider or the person refused the access.
    CapabilityAuthFlowDenied,
    /// The request contains no authorization code.
    CapabilityCodeMissing,
    /// The request contains two authorization codes.
    CapabilityCodeConflict,
    /// The callback address belongs to another link session.
    CapabilityStateMismatch,
    /// The provider has no such action.
    UnknownAction,
    /// The action demands more than the grant gives.
    LevelTooLow,
    /// The grant does not list the action.
    ActionNotAllowed,
    /// The grant denies the action.
    ActionDenied,
    /// The provider is off.
    ProviderDisabled,
    /// An operator stopped this.
    KillSwitch,
    /// A production action without a task.
    TaskRequired,
    /// The task does not exist, is closed, or is another group's.
    TaskUnknown,
    /// The task's gate is not open.
    GateMissing,
    /// A person must approve first.
    ApprovalRequired,
    /// A person denied the call.
    ApprovalDenied,
    /// Nobody answered in time.
    ApprovalExpired,
    /// The parameters do not fit the action.
    InvalidParams,
    /// The input does not fit the operation of a capability.
    CapabilityInvalidInput,
    /// A guardrail of the action.
    Guardrail,
    /// The repository is not on the allow-list.
    RepoNotAllowed,
    /// The time range is wider than allowed.
    RangeTooWide,
    /// The operator's rules do not permit it.
    RuleDenied,
    /// The call would complete the trifecta, or send data that must not leave.
    Trifecta,
    /// More calls a minute than allowed.
    RateLimited,
    /// More in a day than allowed.
    QuotaExceeded,
    /// The provider has failed too often in a row.
    BreakerOpen,
    /// The definition of the tool differs from the accepted one.
    DefinitionChanged,
    /// The path leads out of the workspace.
    PathOutside,
    /// The path is denied to every caller.
    PathDenied,
    /// No file may be created there.
    CreateNotAllowed,
    /// A file or the new content is larger than allowed.
    TooLarge,
    /// The patch is not one, or does not fit.
    PatchFailed,
    /// The file has changed since the proposal was made.
    BaseChanged,
    /// No proposal of this group has that id.
    ProposalUnknown,
    /// The proposal was not approved or not applied in time.
    ProposalExpired,
    /// The flow does not exist, or the caller cannot see it.
    UnknownFlow,
    /// Flows are not available for this harness.
    FlowHarnessUnsupported,
    /// External agents are forbidden.
    FlowExternalAgentPolicyForbidden,
    /// External agents are disabled.
    FlowExternalAgentDisabled,
    /// The tool is not allowed for external agents.
    FlowExternalToolDenied,
    /// No step of the flow names the tool.
    FlowExternalToolUnknown,
    /// The external grant does not exist or is not available.
    FlowExternalGrantDenied,
    /// The external grant has expired.
    FlowExternalGrantExpired,
    /// The external grant was revoked.
    FlowExternalGrantRevoked,
    /// The external grant is for another flow or version.
    FlowExternalGrantFlowMismatch,
    /// The external grant does not include the tool.
    FlowExternalGrantToolDenied,
    /// External agents cannot read flows under this host name.
    FlowHostedProjectionDisabled,
    /// An imported flow names a tool that is not allowed.
    FlowImportExternalToolDenied,
    /// The caller cannot write flows of this scope.
    FlowImportScopeDenied,
    /// The operator token is not valid for this request.
    OperatorTokenDenied,
    /// The provider refused or failed, definitely.
    ProviderFailed,
    /// The provider was too slow; nothing was changed.
    ProviderTimeout,
    /// The provider limits its callers.
    ProviderRateLimited,
    /// The provider's result does not match its declaration.
    InvalidOutput,
    /// The backend of a capability is unreachable or has failed.
    CapabilityBackendUnavailable,
    /// The capability's result does not match its declaration, or contains credentials.
    CapabilityInvalidOutput,
    /// The effect may or may not have happened.
    OutcomeUnknown,
    /// The ledger cannot be written.
    EvidenceUnavailable,
    /// Cancelled before it started.
    Cancelled,
    /// The call is still in progress.
    StillRunning,
    /// This key was used with other parameters.
    IdempotencyConflict,
    /// No request of this caller has that id.
    UnknownRequest,
}

/// The text names no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such code")]
pub struct NoSuchCode;

impl Code {
    /// All codes, in the order in which a request may meet them.
    pub const ALL: &'static [Self] = &[
        Self::MalformedRequest,
        Self::OversizedRequest,
        Self::OwnSecret,
        Self::BadSignature,
        Self::StaleRequest,
        Self::ReplayedRequest,
        Self::UnknownType,
        Self::MainOnly,
        Self::Busy,
        Self::NoMailbox,
        Self::HostDown,
        Self::Withdrawn,
        Self::NoAnswer,
        Self::NoGrant,
        Self::GrantExpired,
        Self::ContextTokenMissing,
        Self::ContextTokenInvalid,
        Self::ContextTokenExpired,
        Self::CapabilityAccessDenied,
        Self::CapabilityAuthRequired,
        Self::CapabilityAccountAmbiguous,
        Self::CapabilityAuthFlowInvalid,
        Self::CapabilityAuthFlowExpired,
        Self::CapabilityAuthFlowDenied,
        Self::CapabilityCodeMissing,
        Self::CapabilityCodeConflict,
        Self::CapabilityStateMismatch,
        Self::UnknownAction,
        Self::LevelTooLow,
        Self::ActionNotAllowed,
        Self::ActionDenied,
        Self::ProviderDisabled,
        Self::KillSwitch,
        Self::TaskRequired,
        Self::TaskUnknown,
        Self::GateMissing,
        Self::ApprovalRequired,
        Self::ApprovalDenied,
        Self::ApprovalExpired,
        Self::InvalidParams,
        Self::CapabilityInvalidInput,
        Self::Guardrail,
        Self::RepoNotAllowed,
        Self::RangeTooWide,
        Self::RuleDenied,
        Self::Trifecta,
        Self::RateLimited,
        Self::QuotaExceeded,
        Self::BreakerOpen,
        Self::DefinitionChanged,
        Self::PathOutside,
        Self::PathDenied,
        Self::CreateNotAllowed,
        Self::TooLarge,
        Self::PatchFailed,
        Self::BaseChanged,
        Self::ProposalUnknown,
        Self::ProposalExpired,
        Self::UnknownFlow,
        Self::FlowHarnessUnsupported,
        Self::FlowExternalAgentPolicyForbidden,
        Self::FlowExternalAgentDisabled,
        Self::FlowExternalToolDenied,
        Self::FlowExternalToolUnknown,
        Self::FlowExternalGrantDenied,
        Self::FlowExternalGrantExpired,
        Self::FlowExternalGrantRevoked,
        Self::FlowExternalGrantFlowMismatch,
        Self::FlowExternalGrantToolDenied,
        Self::FlowHostedProjectionDisabled,
        Self::FlowImportExternalToolDenied,
        Self::FlowImportScopeDenied,
        Self::OperatorTokenDenied,
        Self::ProviderFailed,
        Self::ProviderTimeout,
        Self::ProviderRateLimited,
        Self::InvalidOutput,
        Self::CapabilityBackendUnavailable,
        Self::CapabilityInvalidOutput,
        Self::OutcomeUnknown,
        Self::EvidenceUnavailable,
        Self::Cancelled,
        Self::StillRunning,
        Self::IdempotencyConflict,
        Self::UnknownRequest,
    ];

    /// The word on the wire and in the ledger: `level_too_low`.
    pub fn word(self) -> &'static str {
        self.entry().word
    }

    /// What it means, in one sentence.
    pub fn meaning(self) -> &'static str {
        self.entry().meaning
    }

    /// What to do next, in one sentence.
    pub fn remedy(self) -> &'static str {
        self.entry().remedy
    }

    /// The status of a reply that carries this code.
    pub fn status(self) -> Status {
        self.entry().status
    }

    #[expect(clippy::too_many_lines, reason = "one table, one entry for each code")]
    fn entry(self) -> Entry {
        let denied = |word, meaning, remedy| Entry { word, status: Status::Denied, meaning, remedy };
        let failed = |word, meaning, remedy| Entry { word, status: Status::Failed, meaning, remedy };
        let timeout = |word, meaning, remedy| Entry { word, status: Status::Timeout, meaning, remedy };
        match self {
            Self::MalformedRequest => denied(
                "malformed_request",
                "The document is not a request of this protocol.",
                "Correct the document and send it under a new request id.",
            ),
            Self::OversizedRequest => {
                denied("oversized_request", "The document is larger than 1 MiB.", "Send a smaller request.")
            }
            Self::OwnSecret => denied(
                "own_secret",
                "The request contains a secret of the broker, or its result would contain one.",
                "Remove the secret; the broker passes it to the provider itself.",
            ),
            Self::BadSignature => denied(
                "bad_signature",
                "The request's signature is missing or wrong, or its timestamp is too far from the host's clock.",
                "Ask the operator to check that the shim and the host use the same key file.",
            ),
            Self::StaleRequest => denied(
                "stale_request",
                "The request is older than 150 seconds and was not executed.",
                "Send the request again if you still need it.",
            ),
            Self::ReplayedRequest => denied(
                "replayed_request",
                "This request id was used before and was not executed again.",
                "Use a new request id.",
            ),
            Self::UnknownType => denied(
                "unknown_type",
                "The request's type is not one of this protocol.",
                "Use one of the documented types, such as ext_call.",
            ),
            Self::MainOnly => denied(
                "main_only",
                "Only the main group can send this request.",
                "Ask the main group's agent or the operator.",
            ),
            Self::Busy => denied(
                "busy",
                "This group has too many calls in progress.",
                "Wait until one of them ends, then try again.",
            ),
            Self::NoMailbox => failed(
                "no_mailbox",
                "The group's directory is not mounted in this sandbox, or cannot be written to; nothing was sent.",
                "Ask the operator to mount the group's directory into the sandbox.",
            ),
            Self::HostDown => failed(
                "host_down",
                "The host broker is not running; the request was withdrawn and not executed.",
                "Ask the operator to start the host broker: host-broker serve.",
            ),
            Self::Withdrawn => timeout(
                "withdrawn",
                "No reply arrived in time; the request was withdrawn and not executed.",
                "Try again, or ask the operator to check host-broker status.",
            ),
            Self::NoAnswer => timeout(
                "no_answer",
                "No reply arrived in time; the host has taken the request and may still execute it.",
                "Get the result with ext_result before you try again.",
            ),
            Self::NoGrant => denied(
                "no_grant",
                "This group has no access to that provider.",
                "Ask the main group's agent or the operator for a grant.",
            ),
            Self::GrantExpired => denied(
                "grant_expired",
                "This group's access to that provider has expired.",
                "Ask the main group's agent or the operator to renew the grant.",
            ),
            Self::ContextTokenMissing => denied(
                "context_token_missing",
                "This call needs a person as its subject, and there is no context token.",
                "Ask the operator to give the sandbox a context token: host-broker token mint.",
            ),
            Self::ContextTokenInvalid => denied(
                "context_token_invalid",
                "The context token is not valid for this call.",
                "Ask the operator for a new token for this group; host-broker token verify explains the error.",
            ),
            Self::ContextTokenExpired => denied(
                "context_token_expired",
                "The context token has expired.",
                "Ask the operator to renew the token; the shim reads a token file for every request.",
            ),
            Self::CapabilityAccessDenied => denied(
                "capability_access_denied",
                "This capability is not available in this chat or to this person.",
                "Use the capability in a chat of an allowed type, such as a private chat.",
            ),
            Self::CapabilityAuthRequired => denied(
                "capability_auth_required",
                "The person has not linked this account to the capability.",
                "Link an account with ext_auth_begin if available, or ask the operator: host-broker account link.",
            ),
            Self::CapabilityAccountAmbiguous => denied(
                "capability_account_ambiguous",
                "The person has linked several accounts to this capability.",
                "Name one account in account_ref.",
            ),
            Self::CapabilityAuthFlowInvalid => denied(
                "capability_auth_flow_invalid",
                "The link session does not exist, belongs to another caller, or was used.",
                "Start a new link session with ext_auth_begin.",
            ),
            Self::CapabilityAuthFlowExpired => denied(
                "capability_auth_flow_expired",
                "The link session has expired.",
                "Start a new link session with ext_auth_begin and ask the person to complete it in time.",
            ),
            Self::CapabilityAuthFlowDenied => denied(
                "capability_auth_flow_denied",
                "The person or the provider refused the access.",
                "Ask the person, and start a new link session with ext_auth_begin if they agree.",
            ),
            Self::CapabilityCodeMissing => denied(
                "capability_code_missing",
                "`callback_url` or `code` contains no authorization code.",
                "Ask the person to copy the complete address after sign-in, or the displayed code.",
            ),
            Self::CapabilityCodeConflict => denied(
                "capability_code_conflict",
                "The request contains two authorization codes.",
                "Send either callback_url or code, with one authorization code.",
            ),
            Self::CapabilityStateMismatch => denied(
                "capability_state_mismatch",
                "The callback address does not belong to this link session.",
                "Ask the person to sign in on the page of this link session and to copy the resulting address.",
            ),
            Self::UnknownAction => denied(
                "unknown_action",
                "The provider has no such action.",
                "List the available actions with ext_capabilities.",
            ),
            Self::LevelTooLow => denied(
                "level_too_low",
                "The action needs a higher level than the group's grant gives.",
                "Ask the main group's agent or the operator for a higher level.",
            ),
            Self::ActionNotAllowed => denied(
                "action_not_allowed",
                "The grant does not include this action.",
                "Ask the main group's agent or the operator to add the action to the grant.",
            ),
            Self::ActionDenied => denied(
                "action_denied",
                "The grant denies this action explicitly.",
                "Use another action; a higher level does not permit a denied action.",
            ),
            Self::ProviderDisabled => denied(
                "provider_disabled",
                "The provider is switched off or lacks its secret.",
                "Ask the operator to check host-broker provider list.",
            ),
            Self::KillSwitch => {
                denied("kill_switch", "An operator has stopped these calls.", "Wait until the operator lifts the stop.")
            }
            Self::TaskRequired => denied(
                "task_required",
                "A production action needs a task_id.",
                "Ask the main group for a task and name it in task_id.",
            ),
            Self::TaskUnknown => denied(
                "task_unknown",
                "The task does not exist, is not open, or is not assigned to this group.",
                "Name an open task of this group.",
            ),
            Self::GateMissing => denied(
                "gate_missing",
                "The gate that production actions need is not open for this task.",
                "Ask an authorized group or person to approve the gate. Each approval is valid for one call.",
            ),
            Self::ApprovalRequired => denied(
                "approval_required",
                "A person must approve this call.",
                "Wait for the approval; if the status is pending, get the result with ext_result.",
            ),
            Self::ApprovalDenied => denied(
                "approval_denied",
                "A person denied this call.",
                "Do not repeat the call unless a new reason answers the denial.",
            ),
            Self::ApprovalExpired => denied(
                "approval_expired",
                "The approval request expired without an answer; nothing was executed.",
                "Call again when an approver is available.",
            ),
            Self::InvalidParams => denied(
                "invalid_params",
                "The parameters do not fit the action.",
                "Correct every listed error and call again.",
            ),
            Self::CapabilityInvalidInput => denied(
                "capability_invalid_input",
                "The input does not fit the operation.",
                "Correct every listed error and call again.",
            ),
            Self::Guardrail => denied(
                "guardrail",
                "A guardrail of the action forbids this call.",
                "Change the call so that the guardrail permits it.",
            ),
            Self::RepoNotAllowed => denied(
                "repo_not_allowed",
                "The repository is not on the operator's allow-list.",
                "Use an allowed repository, or ask the operator to extend EXT_GITHUB_REPOS.",
            ),
            Self::RangeTooWide => {
                denied("range_too_wide", "The time range is wider than allowed.", "Use a shorter time range.")
            }
            Self::RuleDenied => denied(
                "rule_denied",
                "The operator's rules do not permit this call.",
                "Change the call as the reason states, or ask the operator to check host-broker explain.",
            ),
            Self::Trifecta => denied(
                "trifecta",
                "The call would send data that must not leave, or would complete the trifecta.",
                "Remove the data that the reason names, or ask the operator.",
            ),
            Self::RateLimited => denied(
                "rate_limited",
                "This group exceeds its rate limit of calls per minute.",
                "Wait for retry_after_ms, then try again.",
            ),
            Self::QuotaExceeded => denied(
                "quota_exceeded",
                "This group has used its daily quota.",
                "Wait until the next day (UTC), or ask the operator for a higher quota.",
            ),
            Self::BreakerOpen => denied(
                "breaker_open",
                "The circuit breaker is open because the provider failed too often.",
                "Wait for retry_after_ms, then try again.",
            ),
            Self::DefinitionChanged => denied(
                "definition_changed",
                "The server's definition of this tool differs from the accepted one, so the call was refused.",
                "Ask the operator to review the difference: host-broker provider accept.",
            ),
            Self::PathOutside => denied(
                "path_outside",
                "The path leads out of the workspace.",
                "Use a path relative to the workspace, without `..` and without links.",
            ),
            Self::PathDenied => denied(
                "path_denied",
                "The operator denies access to this path for every caller.",
                "Continue without this file, or ask the operator.",
            ),
            Self::CreateNotAllowed => denied(
                "create_not_allowed",
                "Files cannot be created at this path.",
                "Create the file in a directory that the operator allows.",
            ),
            Self::TooLarge => denied(
                "too_large",
                "The file or the new content is larger than allowed.",
                "Read fewer lines, or make a smaller change.",
            ),
            Self::PatchFailed => denied(
                "patch_failed",
                "The patch is malformed or does not fit the files; nothing was changed.",
                "Check which hunk failed, read the file again and send a new patch.",
            ),
            Self::BaseChanged => denied(
                "base_changed",
                "The file has changed since the proposal was made; nothing was changed.",
                "Read the file again and make a new proposal.",
            ),
            Self::ProposalUnknown => denied(
                "proposal_unknown",
                "No open proposal of this group has that id and path.",
                "List open proposals with list_proposals, or make a new proposal.",
            ),
            Self::ProposalExpired => denied(
                "proposal_expired",
                "The proposal was not approved or not applied in time; nothing was changed.",
                "Make a new proposal if you still need the change.",
            ),
            Self::UnknownFlow => denied(
                "unknown_flow",
                "The flow or version does not exist, or this caller cannot see it.",
                "List the available flows with flow_list.",
            ),
            Self::FlowHarnessUnsupported => denied(
                "FLOW_HARNESS_UNSUPPORTED",
                "Flows are not available for this harness.",
                "Ask the operator to enable external agents in [flows.external_agent].",
            ),
            Self::FlowExternalAgentPolicyForbidden => denied(
                "FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN",
                "The operator has forbidden external agents.",
                "Continue without external agents.",
            ),
            Self::FlowExternalAgentDisabled => denied(
                "FLOW_EXTERNAL_AGENT_DISABLED",
                "External agents are disabled.",
                "Ask the operator to enable external agents in [flows.external_agent].",
            ),
            Self::FlowExternalToolDenied => denied(
                "FLOW_EXTERNAL_TOOL_DENIED",
                "The operator does not allow this tool for external agents.",
                "Ask the operator to allow the tool in [flows.external_agent].",
            ),
            Self::FlowExternalToolUnknown => denied(
                "FLOW_EXTERNAL_TOOL_UNKNOWN",
                "No step of this version of the flow names the tool.",
                "Request only tools that the flow's steps name as external_tool.",
            ),
            Self::FlowExternalGrantDenied => denied(
                "FLOW_EXTERNAL_GRANT_DENIED",
                "The external grant does not exist, is used up, or is not available for this version of the flow.",
                "Ask the issuer of the grant for a new one.",
            ),
            Self::FlowExternalGrantExpired => denied(
                "FLOW_EXTERNAL_GRANT_EXPIRED",
                "The external grant has expired.",
                "Ask the issuer of the grant for a new one.",
            ),
            Self::FlowExternalGrantRevoked => denied(
                "FLOW_EXTERNAL_GRANT_REVOKED",
                "The external grant was revoked.",
                "Ask the issuer for a new grant; a revoked grant cannot be restored.",
            ),
            Self::FlowExternalGrantFlowMismatch => denied(
                "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH",
                "The external grant is for another flow, or for a version that is no longer canonical.",
                "Ask the issuer for a grant for the current version.",
            ),
            Self::FlowExternalGrantToolDenied => denied(
                "FLOW_EXTERNAL_GRANT_TOOL_DENIED",
                "The external grant does not include this tool.",
                "Call a tool that the grant includes.",
            ),
            Self::FlowHostedProjectionDisabled => denied(
                "FLOW_HOSTED_PROJECTION_DISABLED",
                "Flows are not available to external agents under this host name.",
                "Ask the operator to enable hosted_projection in [flows.external_agent].",
            ),
            Self::FlowImportExternalToolDenied => denied(
                "FLOW_IMPORT_EXTERNAL_TOOL_DENIED",
                "The flow names an external tool that is not allowed; nothing was imported.",
                "Ask the operator to allow the tool in [flows.external_agent], or remove it from the flow.",
            ),
            Self::FlowImportScopeDenied => denied(
                "FLOW_IMPORT_SCOPE_DENIED",
                "This caller cannot write flows of that scope; nothing was imported.",
                "Propose the flow with a token for this scope, or under another name.",
            ),
            Self::OperatorTokenDenied => denied(
                "operator_token_denied",
                "The operator token is unknown, expired or revoked, or does not permit this request.",
                "Ask the operator for a new token: host-broker operator-token create.",
            ),
            Self::ProviderFailed => failed(
                "provider_failed",
                "The provider refused or failed; nothing was changed.",
                "Read the provider's message and correct the call.",
            ),
            Self::ProviderTimeout => timeout(
                "provider_timeout",
                "The provider did not answer in time; nothing was changed.",
                "Try again, if possible with a smaller request.",
            ),
            Self::ProviderRateLimited => failed(
                "provider_rate_limited",
                "The provider limits its callers; nothing was changed.",
                "Wait for retry_after_ms, then try again.",
            ),
            Self::InvalidOutput => failed(
                "invalid_output",
                "The provider returned an invalid result; nothing was changed.",
                "Report this to the operator; another attempt rarely helps.",
            ),
            Self::CapabilityBackendUnavailable => failed(
                "capability_backend_unavailable",
                "The backend of the capability is unreachable or has failed; nothing was changed.",
                "Try again later; if the error persists, ask the operator to run host-broker provider check.",
            ),
            Self::CapabilityInvalidOutput => failed(
                "capability_invalid_output",
                "The capability returned an invalid result; nothing was changed.",
                "Report this to the operator; another attempt rarely helps.",
            ),
            Self::OutcomeUnknown => failed(
                "outcome_unknown",
                "The effect may or may not have happened.",
                "Check the target before you try again; ext_result shows when the outcome is settled.",
            ),
            Self::EvidenceUnavailable => failed(
                "evidence_unavailable",
                "The ledger cannot be written, so nothing was executed.",
                "Report this to the operator; calls work again when the ledger can be written.",
            ),
            Self::Cancelled => failed(
                "cancelled",
                "The call was cancelled before it started.",
                "Call again if you still need the result.",
            ),
            Self::StillRunning => {
                failed("still_running", "The call is still in progress.", "Call ext_result after retry_after_ms.")
            }
            Self::IdempotencyConflict => denied(
                "idempotency_conflict",
                "This idempotency key was used with other parameters.",
                "Use a new key for a different call.",
            ),
            Self::UnknownRequest => denied(
                "unknown_request",
                "No request of this caller has that id, or its reply is no longer kept.",
                "Use the request_id of a call by this group from the last 24 hours.",
            ),
        }
    }
}

struct Entry {
    word: &'static str,
    status: Status,
    meaning: &'static str,
    remedy: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Code {
    type Err = NoSuchCode;

    fn from_str(text: &str) -> Result<Self, NoSuchCode> {
        Self::ALL.iter().copied().find(|code| code.word() == text).ok_or(NoSuchCode)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_its_own_word_and_two_sentences() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.meaning().ends_with('.') && code.remedy().ends_with('.'), "{code}");
            assert_eq!(code.word().parse(), Ok(*code));
            assert!(!matches!(code.status(), Status::Executed | Status::Pending), "{code}");
        }
    }
}
