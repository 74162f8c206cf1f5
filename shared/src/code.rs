//! The closed list of reason codes.
//!
//! Every reply that is not `executed` carries one. A code is stable; its texts may improve. `host-broker reason-codes`
//! prints this list, and a test compares it with the README.

use crate::reply::Status;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Why a request was not executed, or what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Not a document of this protocol.
    MalformedRequest,
    /// More than [`crate::limits::REQUEST_BYTES_MAX`].
    OversizedRequest,
    /// The request holds a secret of the broker's own, or would show one.
    OwnSecret,
    /// A signature is missing or wrong.
    BadSignature,
    /// Older than [`crate::limits::REQUEST_AGE_MAX`].
    StaleRequest,
    /// This request id was used before, with other content or too long ago.
    ReplayedRequest,
    /// The `type` is not ours.
    UnknownType,
    /// Asked by a group that is not the main group.
    MainOnly,
    /// Too many calls of this group are under way.
    Busy,
    /// The group's directory is not in the sandbox, or cannot be written to.
    NoMailbox,
    /// The host does not beat.
    HostDown,
    /// The shim gave up and took its request back.
    Withdrawn,
    /// The shim gave up; the host had already taken the request.
    NoAnswer,
    /// No active grant.
    NoGrant,
    /// The grant has expired.
    GrantExpired,
    /// The call needs a person behind it, and there is no context token.
    ContextTokenMissing,
    /// There is one that is not to be believed.
    ContextTokenInvalid,
    /// There was one, and its time is over.
    ContextTokenExpired,
    /// The capability may not be used from this chat, or by this person.
    CapabilityAccessDenied,
    /// The person has no account there.
    CapabilityAuthRequired,
    /// The person has several accounts there, and the call does not say which it means.
    CapabilityAccountAmbiguous,
    /// There is no such flow, it is somebody else's, or it was used.
    CapabilityAuthFlowInvalid,
    /// The flow's time is over.
    CapabilityAuthFlowExpired,
    /// The provider, or whoever was asked there, said no.
    CapabilityAuthFlowDenied,
    /// What completes a flow has no code in it.
    CapabilityCodeMissing,
    /// What completes a flow is there twice.
    CapabilityCodeConflict,
    /// The address comes from another flow than the one that it is to complete.
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
    /// A person must agree first.
    ApprovalRequired,
    /// A person said no.
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
    /// Private data, content that others wrote and a way out would come together, or what would leave must not.
    Trifecta,
    /// More calls a minute than allowed.
    RateLimited,
    /// More in a day than allowed.
    QuotaExceeded,
    /// The provider has failed too often in a row.
    BreakerOpen,
    /// The tool is not what an operator accepted any more.
    DefinitionChanged,
    /// The path leads out of the workspace.
    PathOutside,
    /// Nobody may ask for this path.
    PathDenied,
    /// No file may be created there.
    CreateNotAllowed,
    /// A file, or what is to be written, is larger than allowed.
    TooLarge,
    /// The patch is not one, or does not fit.
    PatchFailed,
    /// The file is no longer what the proposal was made for.
    BaseChanged,
    /// No proposal of this group has that id.
    ProposalUnknown,
    /// Nobody agreed in time, or it was not applied in time.
    ProposalExpired,
    /// There is no such flow, or none that the caller may see.
    UnknownFlow,
    /// Flows cannot be had for this harness.
    FlowHarnessUnsupported,
    /// There are to be no agents outside.
    FlowExternalAgentPolicyForbidden,
    /// There are no agents outside.
    FlowExternalAgentDisabled,
    /// The tool is not among those that agents outside may be given.
    FlowExternalToolDenied,
    /// No step of the flow names the tool.
    FlowExternalToolUnknown,
    /// There is no such access, or none can be had.
    FlowExternalGrantDenied,
    /// The access is over.
    FlowExternalGrantExpired,
    /// The access was ended.
    FlowExternalGrantRevoked,
    /// The access is to another flow, or to another version of it.
    FlowExternalGrantFlowMismatch,
    /// The access does not have the tool.
    FlowExternalGrantToolDenied,
    /// Agents outside may not read flows from elsewhere.
    FlowHostedProjectionDisabled,
    /// A flow from elsewhere names a tool that is not allowed.
    FlowImportExternalToolDenied,
    /// A flow is of a scope that whoever proposes it may not write.
    FlowImportScopeDenied,
    /// An operator's token does not reach so far, or not any more.
    OperatorTokenDenied,
    /// The provider refused or failed, definitely.
    ProviderFailed,
    /// The provider was too slow; nothing was changed.
    ProviderTimeout,
    /// The provider limits its callers.
    ProviderRateLimited,
    /// The provider's answer is not what it declared.
    InvalidOutput,
    /// A capability cannot be reached, or does not work.
    CapabilityBackendUnavailable,
    /// A capability's answer is not what it declared, or holds credentials.
    CapabilityInvalidOutput,
    /// It may have happened, or not.
    OutcomeUnknown,
    /// The ledger cannot be written.
    EvidenceUnavailable,
    /// Cancelled before it started.
    Cancelled,
    /// Still under way.
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
                denied("oversized_request", "The document is larger than 1 MiB.", "Send less in one request.")
            }
            Self::OwnSecret => denied(
                "own_secret",
                "The request holds a secret of the broker's own, or would show one.",
                "Leave the secret out; the broker itself gives it to the provider that needs it.",
            ),
            Self::BadSignature => denied(
                "bad_signature",
                "The request's signature is missing or wrong, or its timestamp is too far from the host's clock.",
                "Ask the operator whether shim and host hold the same key file.",
            ),
            Self::StaleRequest => denied(
                "stale_request",
                "The request is older than 150 seconds and was not executed.",
                "Send it again if it is still wanted.",
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
                "Only the main group may ask for this.",
                "Ask the main group's agent or the operator.",
            ),
            Self::Busy => {
                denied("busy", "Too many calls of this group are under way.", "Wait for one of them, then try again.")
            }
            Self::NoMailbox => failed(
                "no_mailbox",
                "The group's directory is not mounted in this sandbox, or cannot be written to; nothing was sent.",
                "Show this to the operator, who mounts the group's directory into the sandbox.",
            ),
            Self::HostDown => failed(
                "host_down",
                "The host broker is not running; the request was withdrawn and not executed.",
                "Ask the operator to start it: host-broker serve.",
            ),
            Self::Withdrawn => timeout(
                "withdrawn",
                "No answer in time; the request was withdrawn and not executed.",
                "Try again, or ask the operator to look at host-broker status.",
            ),
            Self::NoAnswer => timeout(
                "no_answer",
                "No answer in time; the host had already taken the request, so it may still be executed.",
                "Ask for its result with ext_result before trying again.",
            ),
            Self::NoGrant => denied(
                "no_grant",
                "This group has no access to that provider.",
                "Ask the main group's agent or the operator for a grant.",
            ),
            Self::GrantExpired => denied(
                "grant_expired",
                "This group's access to that provider has expired.",
                "Ask the main group's agent or the operator to renew it.",
            ),
            Self::ContextTokenMissing => denied(
                "context_token_missing",
                "This call is made on a person's behalf, and nothing says on whose.",
                "Whoever starts the sandbox must hand it a context token: host-broker token mint.",
            ),
            Self::ContextTokenInvalid => denied(
                "context_token_invalid",
                "The context token does not prove on whose behalf this call is made.",
                "Have another one made for this group; host-broker token verify says what is wrong with this one.",
            ),
            Self::ContextTokenExpired => denied(
                "context_token_expired",
                "The context token has expired.",
                "Whoever started the sandbox must renew it; a token file is read again for every request.",
            ),
            Self::CapabilityAccessDenied => denied(
                "capability_access_denied",
                "This capability may not be used from this chat, or by this person.",
                "Use it in a chat of a kind that it allows, such as a private one.",
            ),
            Self::CapabilityAuthRequired => denied(
                "capability_auth_required",
                "The person has no such account linked at this capability.",
                "Link one with ext_auth_begin where the capability offers it, or ask the operator: host-broker account link.",
            ),
            Self::CapabilityAccountAmbiguous => denied(
                "capability_account_ambiguous",
                "The person has several accounts at this capability.",
                "Name one of them in account_ref.",
            ),
            Self::CapabilityAuthFlowInvalid => denied(
                "capability_auth_flow_invalid",
                "This flow cannot be gone on with: it does not exist, is another's, or was used.",
                "Begin a new one with ext_auth_begin.",
            ),
            Self::CapabilityAuthFlowExpired => denied(
                "capability_auth_flow_expired",
                "The flow's time is over.",
                "Begin a new one with ext_auth_begin, and have the person complete it within its time.",
            ),
            Self::CapabilityAuthFlowDenied => denied(
                "capability_auth_flow_denied",
                "The access was refused where the person was asked for it.",
                "Ask the person; begin a new flow with ext_auth_begin if they want to.",
            ),
            Self::CapabilityCodeMissing => denied(
                "capability_code_missing",
                "There is no code in what was to complete the flow.",
                "Have the person copy the whole address to which the page led, or the code that it shows.",
            ),
            Self::CapabilityCodeConflict => denied(
                "capability_code_conflict",
                "There are two codes in what was to complete the flow.",
                "Give either callback_url or code, with one code in it.",
            ),
            Self::CapabilityStateMismatch => denied(
                "capability_state_mismatch",
                "The address does not belong to this flow.",
                "Have the person open the page of this very flow, and copy the address to which that one leads.",
            ),
            Self::UnknownAction => {
                denied("unknown_action", "The provider has no such action.", "ext_capabilities lists the actions.")
            }
            Self::LevelTooLow => denied(
                "level_too_low",
                "The action demands a higher level than the group was granted.",
                "Ask the main group's agent or the operator for a higher level.",
            ),
            Self::ActionNotAllowed => denied(
                "action_not_allowed",
                "The grant does not include this action.",
                "Ask the main group's agent or the operator to include it.",
            ),
            Self::ActionDenied => denied(
                "action_denied",
                "The grant denies this action explicitly.",
                "Use another action; a denied one stays denied whatever the level.",
            ),
            Self::ProviderDisabled => denied(
                "provider_disabled",
                "The provider is switched off or lacks its secret.",
                "Ask the operator to look at host-broker provider list.",
            ),
            Self::KillSwitch => {
                denied("kill_switch", "An operator has stopped these calls.", "Wait until the operator lifts the stop.")
            }
            Self::TaskRequired => denied(
                "task_required",
                "A production action needs a task_id.",
                "Ask the main group for a governance task and name it in task_id.",
            ),
            Self::TaskUnknown => denied(
                "task_unknown",
                "The task does not exist, is not open, or is not assigned to this group.",
                "Name an open task of this group.",
            ),
            Self::GateMissing => denied(
                "gate_missing",
                "The gate that production actions need is not open for this task.",
                "Have the gate approved for this task; an approval serves one call.",
            ),
            Self::ApprovalRequired => denied(
                "approval_required",
                "A person must agree to this call.",
                "Wait for the answer; if the status is pending, collect the outcome with ext_result.",
            ),
            Self::ApprovalDenied => denied(
                "approval_denied",
                "A person said no to this call.",
                "Do not ask for the same again without a reason that answers the refusal.",
            ),
            Self::ApprovalExpired => denied(
                "approval_expired",
                "Nobody answered in time, and silence is a no.",
                "Call again when somebody can answer.",
            ),
            Self::InvalidParams => denied(
                "invalid_params",
                "The parameters do not fit the action.",
                "Correct every fault named and call again.",
            ),
            Self::CapabilityInvalidInput => denied(
                "capability_invalid_input",
                "The input does not fit the operation.",
                "Correct every fault named and call again.",
            ),
            Self::Guardrail => denied(
                "guardrail",
                "A guardrail of the action forbids this.",
                "Change the call so that it stays within the guardrail.",
            ),
            Self::RepoNotAllowed => denied(
                "repo_not_allowed",
                "The repository is not on the operator's allow-list.",
                "Use an allowed repository, or ask the operator to extend EXT_GITHUB_REPOS.",
            ),
            Self::RangeTooWide => {
                denied("range_too_wide", "The time range is wider than allowed.", "Ask for a shorter range.")
            }
            Self::RuleDenied => denied(
                "rule_denied",
                "The operator's rules do not permit this call.",
                "Change the call as the reason says, or ask the operator to look at host-broker explain.",
            ),
            Self::Trifecta => denied(
                "trifecta",
                "What would leave with this call must not leave, or it would bring too much together.",
                "Take out what the reason names, or ask the operator.",
            ),
            Self::RateLimited => denied(
                "rate_limited",
                "This group makes more calls a minute than it may.",
                "Wait as long as retry_after_ms says.",
            ),
            Self::QuotaExceeded => denied(
                "quota_exceeded",
                "This group has used up what it may do in a day.",
                "Wait until the next day, or ask the operator for more.",
            ),
            Self::BreakerOpen => denied(
                "breaker_open",
                "The provider has failed too often, so it is left alone for a while.",
                "Wait as long as retry_after_ms says.",
            ),
            Self::DefinitionChanged => denied(
                "definition_changed",
                "The server says something else of this tool than what an operator has accepted, so it is not called.",
                "Ask the operator to look at what is different: host-broker provider accept.",
            ),
            Self::PathOutside => denied(
                "path_outside",
                "The path leads out of the workspace.",
                "Name a path relative to the workspace, without `..` and through no link.",
            ),
            Self::PathDenied => denied(
                "path_denied",
                "The operator's rules keep this path from everybody.",
                "Do without this file, or ask the operator.",
            ),
            Self::CreateNotAllowed => denied(
                "create_not_allowed",
                "No file may be created at this path.",
                "Create it in one of the directories that the operator allows.",
            ),
            Self::TooLarge => denied(
                "too_large",
                "The file, or what is to be written, is larger than allowed.",
                "Ask for fewer lines, or change less at once.",
            ),
            Self::PatchFailed => denied(
                "patch_failed",
                "The patch is malformed or does not fit the files; nothing was changed.",
                "Read which hunk failed and why, read the file again and send a new patch.",
            ),
            Self::BaseChanged => denied(
                "base_changed",
                "The file is no longer what the proposal was made for; nothing was changed.",
                "Read the file again and make a new proposal.",
            ),
            Self::ProposalUnknown => denied(
                "proposal_unknown",
                "No open proposal of this group has that id and path.",
                "Ask list_proposals what is open, or make a new proposal.",
            ),
            Self::ProposalExpired => denied(
                "proposal_expired",
                "The proposal was not approved or not applied in time; nothing was changed.",
                "Make a new proposal if the change is still wanted.",
            ),
            Self::UnknownFlow => denied(
                "unknown_flow",
                "There is no such flow or version, or none that this caller may see.",
                "List the flows that there are with flow_list.",
            ),
            Self::FlowHarnessUnsupported => denied(
                "FLOW_HARNESS_UNSUPPORTED",
                "Flows cannot be had for this harness here.",
                "Ask the operator, who can switch agents outside on in [flows.external_agent].",
            ),
            Self::FlowExternalAgentPolicyForbidden => denied(
                "FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN",
                "The operator has forbidden agents outside.",
                "Work without them.",
            ),
            Self::FlowExternalAgentDisabled => denied(
                "FLOW_EXTERNAL_AGENT_DISABLED",
                "Agents outside are switched off here.",
                "Ask the operator, who can switch them on in [flows.external_agent].",
            ),
            Self::FlowExternalToolDenied => denied(
                "FLOW_EXTERNAL_TOOL_DENIED",
                "The tool is not among those that agents outside may be given here.",
                "Ask the operator to allow the tool in [flows.external_agent].",
            ),
            Self::FlowExternalToolUnknown => denied(
                "FLOW_EXTERNAL_TOOL_UNKNOWN",
                "No step of this version of the flow names the tool.",
                "Ask for tools that the flow's steps name as external_tool.",
            ),
            Self::FlowExternalGrantDenied => denied(
                "FLOW_EXTERNAL_GRANT_DENIED",
                "There is no such access, or it is used up, or none can be had to this version of the flow.",
                "Ask whoever gave you access for a new one.",
            ),
            Self::FlowExternalGrantExpired => denied(
                "FLOW_EXTERNAL_GRANT_EXPIRED",
                "The access is over.",
                "Ask whoever gave you access for a new one.",
            ),
            Self::FlowExternalGrantRevoked => denied(
                "FLOW_EXTERNAL_GRANT_REVOKED",
                "The access was ended.",
                "Ask whoever gave you access; it cannot be had back.",
            ),
            Self::FlowExternalGrantFlowMismatch => denied(
                "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH",
                "The access is to another flow, or to a version that people do not work by any more.",
                "Ask whoever gave you access for one to the present version.",
            ),
            Self::FlowExternalGrantToolDenied => denied(
                "FLOW_EXTERNAL_GRANT_TOOL_DENIED",
                "The access does not have this tool.",
                "Call one of the tools that the access has.",
            ),
            Self::FlowHostedProjectionDisabled => denied(
                "FLOW_HOSTED_PROJECTION_DISABLED",
                "Flows are not given to agents outside under this name of the host.",
                "Ask the operator, who can switch that on in [flows.external_agent].",
            ),
            Self::FlowImportExternalToolDenied => denied(
                "FLOW_IMPORT_EXTERNAL_TOOL_DENIED",
                "The flow names a tool for agents outside that is not allowed here; nothing of it was taken.",
                "Ask the operator to allow the tool in [flows.external_agent], or take it out of the flow.",
            ),
            Self::FlowImportScopeDenied => denied(
                "FLOW_IMPORT_SCOPE_DENIED",
                "This caller may not write flows of that scope; nothing of it was taken.",
                "Propose it with a token that reaches this scope, or under another name.",
            ),
            Self::OperatorTokenDenied => denied(
                "operator_token_denied",
                "The operator token does not permit this, or it is over, or was ended, or never was one.",
                "Ask for another one: host-broker operator-token create.",
            ),
            Self::ProviderFailed => failed(
                "provider_failed",
                "The provider refused or failed; nothing was changed.",
                "Read the provider's message and correct the call.",
            ),
            Self::ProviderTimeout => timeout(
                "provider_timeout",
                "The provider did not answer in time; nothing was changed.",
                "Try again, perhaps with a smaller question.",
            ),
            Self::ProviderRateLimited => failed(
                "provider_rate_limited",
                "The provider limits how often it may be called; nothing was changed.",
                "Wait as long as retry_after_ms says.",
            ),
            Self::InvalidOutput => failed(
                "invalid_output",
                "The provider's answer was not usable; nothing was changed.",
                "Tell the operator; trying again rarely helps.",
            ),
            Self::CapabilityBackendUnavailable => failed(
                "capability_backend_unavailable",
                "What is behind the capability cannot be reached or does not work; nothing was changed.",
                "Try again later; if it stays so, ask the operator to look at host-broker provider check.",
            ),
            Self::CapabilityInvalidOutput => failed(
                "capability_invalid_output",
                "The capability's answer was not usable; nothing was changed.",
                "Tell the operator; trying again rarely helps.",
            ),
            Self::OutcomeUnknown => failed(
                "outcome_unknown",
                "The effect may or may not have happened.",
                "Look at the target before trying again; ext_result tells when the outcome has been settled.",
            ),
            Self::EvidenceUnavailable => failed(
                "evidence_unavailable",
                "The ledger cannot be written, so nothing was executed.",
                "Tell the operator; calls work again when the ledger does.",
            ),
            Self::Cancelled => {
                failed("cancelled", "The call was cancelled before it started.", "Call again if it is still wanted.")
            }
            Self::StillRunning => failed(
                "still_running",
                "The call is still under way.",
                "Ask again with ext_result after retry_after_ms.",
            ),
            Self::IdempotencyConflict => denied(
                "idempotency_conflict",
                "This idempotency key was used with other parameters.",
                "Use a new key for a different call.",
            ),
            Self::UnknownRequest => denied(
                "unknown_request",
                "No request of this caller has that id, or its reply is no longer kept.",
                "Name the request_id of a call of this group from the last 24 hours.",
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
