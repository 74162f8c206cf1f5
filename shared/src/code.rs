//! The closed list of reason codes.
//!
//! Every reply that is not `executed` carries one. A code is stable; its texts may improve. `host-broker reason-codes`
//! prints this list, and `docs/reference/reason-codes.md` is generated from it.

use crate::reply::Status;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Makes the enum of the table below, the list of all codes and the entry of each.
macro_rules! codes {
    ($($name:ident $word:literal $status:ident $meaning:literal $remedy:literal;)+) => {
        /// The reason why a request was not executed, or its status.
        #[expect(clippy::doc_markdown, reason = "the texts are for agents, without markup")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)+
        }

        impl Code {
            /// All codes, in the order in which a request may meet them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            fn entry(self) -> Entry {
                match self {
                    $(Self::$name => Entry {
                        word: $word,
                        status: Status::$status,
                        meaning: $meaning,
                        remedy: $remedy,
                    },)+
                }
            }
        }
    };
}

// Each code: its name, its word, its status, its meaning, and the remedy.
codes! {
    MalformedRequest "malformed_request" Denied
        "The document is not a request of this protocol."
        "Correct the document and send it under a new request id.";
    OversizedRequest "oversized_request" Denied
        "The document is larger than 1 MiB."
        "Send a smaller request.";
    OwnSecret "own_secret" Denied
        "The request contains a secret of the broker, or its result would contain one."
        "Remove the secret; the broker passes it to the provider itself.";
    BadSignature "bad_signature" Denied
        "The request's signature is missing or wrong, or its timestamp is too far from the host's clock."
        "Ask the operator to check that the shim and the host use the same key file.";
    StaleRequest "stale_request" Denied
        "The request is older than 150 seconds and was not executed."
        "Send the request again if you still need it.";
    ReplayedRequest "replayed_request" Denied
        "This request id was used before and was not executed again."
        "Use a new request id.";
    UnknownType "unknown_type" Denied
        "The request's type is not one of this protocol."
        "Use one of the documented types, such as ext_call.";
    MainOnly "main_only" Denied
        "Only the main group can send this request."
        "Ask the main group's agent or the operator.";
    NoConversation "no_conversation" Denied
        "The exposure of this group ends with a conversation, and the request names none."
        "Call a tool of the MCP server mcp-shim, which begins a conversation.";
    ConversationEnded "conversation_ended" Denied
        "This conversation has ended: another one has begun, or an operator has reset the exposure."
        "Begin a new conversation that has nothing of this one.";
    Busy "busy" Denied
        "Too many calls are in progress: those of this group, or those of the hosts that share a quota."
        "Wait until one of them ends, then try again.";
    NoMailbox "no_mailbox" Failed
        "The group's directory is not mounted in this sandbox, or cannot be written to; nothing was sent."
        "Ask the operator to mount the group's directory into the sandbox.";
    HostDown "host_down" Failed
        "The host broker is not running; the request was withdrawn and not executed."
        "Ask the operator to start the host broker: host-broker serve.";
    Withdrawn "withdrawn" Timeout
        "No reply arrived in time; the request was withdrawn and not executed."
        "Try again, or ask the operator to check host-broker status.";
    NoAnswer "no_answer" Timeout
        "No reply arrived in time; the host has taken the request and may still execute it."
        "Get the result with ext_result before you try again.";
    NoGrant "no_grant" Denied
        "This group has no access to that provider."
        "Ask the main group's agent or the operator for a grant.";
    GrantExpired "grant_expired" Denied
        "This group's access to that provider has expired."
        "Ask the main group's agent or the operator to renew the grant.";
    ContextTokenMissing "context_token_missing" Denied
        "This call needs a person as its subject, and there is no context token."
        "Ask the operator to give the sandbox a context token: host-broker token mint.";
    ContextTokenInvalid "context_token_invalid" Denied
        "The context token is not valid for this call."
        "Ask the operator for a new token for this group; host-broker token verify explains the error.";
    ContextTokenExpired "context_token_expired" Denied
        "The context token has expired."
        "Ask the operator to renew the token; the shim reads a token file for every request.";
    CapabilityAccessDenied "capability_access_denied" Denied
        "This capability is not available in this chat or to this person."
        "Use the capability in a chat of an allowed type, such as a private chat.";
    CapabilityAuthRequired "capability_auth_required" Denied
        "The account of the person is not linked, or its credential is not valid."
        "Link the account with ext_auth_begin if available, or ask the operator: host-broker account link.";
    CapabilityAccountAmbiguous "capability_account_ambiguous" Denied
        "The person has linked several accounts to this capability."
        "Name one account in account_ref.";
    CapabilityAuthFlowInvalid "capability_auth_flow_invalid" Denied
        "The link session does not exist, belongs to another caller, or was used."
        "Start a new link session with ext_auth_begin.";
    CapabilityAuthFlowExpired "capability_auth_flow_expired" Denied
        "The link session has expired."
        "Start a new link session with ext_auth_begin and ask the person to complete it in time.";
    CapabilityAuthFlowDenied "capability_auth_flow_denied" Denied
        "The person or the provider refused the access."
        "Ask the person, and start a new link session with ext_auth_begin if they agree.";
    CapabilityCodeMissing "capability_code_missing" Denied
        "`callback_url` or `code` contains no authorization code."
        "Ask the person to copy the complete address after sign-in, or the displayed code.";
    CapabilityCodeConflict "capability_code_conflict" Denied
        "The request contains two authorization codes."
        "Send either callback_url or code, with one authorization code.";
    CapabilityStateMismatch "capability_state_mismatch" Denied
        "The callback address does not belong to this link session."
        "Ask the person to sign in on the page of this link session and to copy the resulting address.";
    UnknownAction "unknown_action" Denied
        "The provider has no such action."
        "List the available actions with ext_capabilities.";
    LevelTooLow "level_too_low" Denied
        "The action needs a higher level than the group's grant gives."
        "Ask the main group's agent or the operator for a higher level.";
    ActionNotAllowed "action_not_allowed" Denied
        "The grant does not include this action."
        "Ask the main group's agent or the operator to add the action to the grant.";
    ActionDenied "action_denied" Denied
        "The grant denies this action explicitly."
        "Use another action; a higher level does not permit a denied action.";
    ProviderDisabled "provider_disabled" Denied
        "The provider is switched off or lacks its secret."
        "Ask the operator to check host-broker provider list.";
    KillSwitch "kill_switch" Denied
        "An operator has stopped these calls."
        "Wait until the operator lifts the stop.";
    PolicyStale "policy_stale" Denied
        "This host does not use the policy that its fleet has published last, so it executes no call."
        "Try again in a few seconds; if this continues, tell the operator.";
    TaskRequired "task_required" Denied
        "A production action needs a task_id."
        "Ask the main group for a task and name it in task_id.";
    TaskUnknown "task_unknown" Denied
        "The task does not exist, is not open, or is not assigned to this group."
        "Name an open task of this group.";
    GateMissing "gate_missing" Denied
        "The gate that production actions need is not open for this task."
        "Ask an authorized group or person to approve the gate. Each approval is valid for one call.";
    ApprovalRequired "approval_required" Denied
        "A person must approve this call."
        "Wait for the approval; if the status is pending, get the result with ext_result.";
    ApprovalDenied "approval_denied" Denied
        "A person denied this call."
        "Do not repeat the call unless a new reason answers the denial.";
    ApprovalExpired "approval_expired" Denied
        "The approval request expired without an answer; nothing was executed."
        "Call again when an approver is available.";
    InvalidParams "invalid_params" Denied
        "The parameters do not fit the action."
        "Correct every listed error and call again.";
    CapabilityInvalidInput "capability_invalid_input" Denied
        "The input does not fit the operation."
        "Correct every listed error and call again.";
    Guardrail "guardrail" Denied
        "A guardrail of the action forbids this call."
        "Change the call so that the guardrail permits it.";
    RepoNotAllowed "repo_not_allowed" Denied
        "The repository is not on the operator's allow-list."
        "Use an allowed repository, or ask the operator to extend EXT_GITHUB_REPOS.";
    RangeTooWide "range_too_wide" Denied
        "The time range is wider than allowed."
        "Use a shorter time range.";
    RuleDenied "rule_denied" Denied
        "The operator's rules do not permit this call."
        "Change the call as the reason states, or ask the operator to check host-broker explain.";
    Trifecta "trifecta" Denied
        "The call would send data that must not leave, or would complete the trifecta."
        "Remove the data that the reason names, or ask the operator.";
    RateLimited "rate_limited" Denied
        "This group exceeds its rate limit of calls per minute."
        "Wait for retry_after_ms, then try again.";
    QuotaExceeded "quota_exceeded" Denied
        "The daily quota of this group, or of all groups together, is used up."
        "Wait until the next day (UTC), or ask the operator for a higher quota.";
    BreakerOpen "breaker_open" Denied
        "The circuit breaker is open because the provider failed too often."
        "Wait for retry_after_ms, then try again.";
    DefinitionChanged "definition_changed" Denied
        "The server's definition of this tool differs from the accepted one, so the call was refused."
        "Ask the operator to review the difference: host-broker provider accept.";
    PathOutside "path_outside" Denied
        "The path leads out of the workspace."
        "Use a path relative to the workspace, without `..` and without links.";
    PathDenied "path_denied" Denied
        "The operator denies access to this path for every caller."
        "Continue without this file, or ask the operator.";
    CreateNotAllowed "create_not_allowed" Denied
        "Files cannot be created at this path."
        "Create the file in a directory that the operator allows.";
    TooLarge "too_large" Denied
        "The file or the new content is larger than allowed."
        "Read fewer lines, or make a smaller change.";
    PatchFailed "patch_failed" Denied
        "The patch is malformed or does not fit the files; nothing was changed."
        "Check which hunk failed, read the file again and send a new patch.";
    BaseChanged "base_changed" Denied
        "The file has changed since the proposal was made; nothing was changed."
        "Read the file again and make a new proposal.";
    ProposalUnknown "proposal_unknown" Denied
        "No open proposal of this group has that id and path."
        "List open proposals with list_proposals, or make a new proposal.";
    ProposalExpired "proposal_expired" Denied
        "The proposal was not approved or not applied in time; nothing was changed."
        "Make a new proposal if you still need the change.";
    UnknownFlow "unknown_flow" Denied
        "The flow or version does not exist, or this caller cannot see it."
        "List the available flows with flow_list.";
    FlowHarnessUnsupported "FLOW_HARNESS_UNSUPPORTED" Denied
        "Flows are not available for this harness."
        "Ask the operator to enable external agents in [flows.external_agent].";
    FlowExternalAgentPolicyForbidden "FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN" Denied
        "The operator has forbidden external agents."
        "Continue without external agents.";
    FlowExternalAgentDisabled "FLOW_EXTERNAL_AGENT_DISABLED" Denied
        "External agents are disabled."
        "Ask the operator to enable external agents in [flows.external_agent].";
    FlowExternalToolDenied "FLOW_EXTERNAL_TOOL_DENIED" Denied
        "The operator does not allow this tool for external agents."
        "Ask the operator to allow the tool in [flows.external_agent].";
    FlowExternalToolUnknown "FLOW_EXTERNAL_TOOL_UNKNOWN" Denied
        "No step of this version of the flow names the tool."
        "Request only tools that the flow's steps name as external_tool.";
    FlowExternalGrantDenied "FLOW_EXTERNAL_GRANT_DENIED" Denied
        "The external grant does not exist, is used up, or is not available for this version of the flow."
        "Ask the issuer of the grant for a new one.";
    FlowExternalGrantExpired "FLOW_EXTERNAL_GRANT_EXPIRED" Denied
        "The external grant has expired."
        "Ask the issuer of the grant for a new one.";
    FlowExternalGrantRevoked "FLOW_EXTERNAL_GRANT_REVOKED" Denied
        "The external grant was revoked."
        "Ask the issuer for a new grant; a revoked grant cannot be restored.";
    FlowExternalGrantFlowMismatch "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH" Denied
        "The external grant is for another flow, or for a version that is no longer canonical."
        "Ask the issuer for a grant for the current version.";
    FlowExternalGrantToolDenied "FLOW_EXTERNAL_GRANT_TOOL_DENIED" Denied
        "The external grant does not include this tool."
        "Call a tool that the grant includes.";
    FlowHostedProjectionDisabled "FLOW_HOSTED_PROJECTION_DISABLED" Denied
        "Flows are not available to external agents under this host name."
        "Ask the operator to enable hosted_projection in [flows.external_agent].";
    FlowImportExternalToolDenied "FLOW_IMPORT_EXTERNAL_TOOL_DENIED" Denied
        "The flow names an external tool that is not allowed; nothing was imported."
        "Ask the operator to allow the tool in [flows.external_agent], or remove it from the flow.";
    FlowImportScopeDenied "FLOW_IMPORT_SCOPE_DENIED" Denied
        "This caller cannot write flows of that scope; nothing was imported."
        "Propose the flow with a token for this scope, or under another name.";
    OperatorTokenDenied "operator_token_denied" Denied
        "The operator token is unknown, expired or revoked, or does not permit this request."
        "Ask the operator for a new token: host-broker operator-token create.";
    ProviderFailed "provider_failed" Failed
        "The provider refused or failed; nothing was changed."
        "Read the provider's message and correct the call.";
    ProviderTimeout "provider_timeout" Timeout
        "The provider did not answer in time; nothing was changed."
        "Try again, if possible with a smaller request.";
    ProviderRateLimited "provider_rate_limited" Failed
        "The provider limits its callers; nothing was changed."
        "Wait for retry_after_ms, then try again.";
    InvalidOutput "invalid_output" Failed
        "The provider returned an invalid result; nothing was changed."
        "Report this to the operator; another attempt rarely helps.";
    CapabilityBackendUnavailable "capability_backend_unavailable" Failed
        "The backend of the capability is unreachable or has failed; nothing was changed."
        "Try again later; if the error persists, ask the operator to run host-broker provider check.";
    CapabilityInvalidOutput "capability_invalid_output" Failed
        "The capability returned an invalid result; nothing was changed."
        "Report this to the operator; another attempt rarely helps.";
    OutcomeUnknown "outcome_unknown" Failed
        "The effect may or may not have happened."
        "Check the target before you try again; ext_result shows when the outcome is settled.";
    EvidenceUnavailable "evidence_unavailable" Failed
        "The ledger cannot be written, so nothing was executed."
        "Report this to the operator; calls work again when the ledger can be written.";
    Cancelled "cancelled" Failed
        "The call was cancelled before it started."
        "Call again if you still need the result.";
    PlanEnded "plan_ended" Failed
        "A call of the plan did not succeed, so the calls after it did not start."
        "Read the outcome of each call in `data` before you plan the rest again.";
    StillRunning "still_running" Failed
        "The call is still in progress."
        "Call ext_result after retry_after_ms.";
    IdempotencyConflict "idempotency_conflict" Denied
        "This idempotency key was used with other parameters."
        "Use a new key for a different call.";
    UnknownRequest "unknown_request" Denied
        "No request of this caller has that id, or its reply is no longer kept."
        "Use the request_id of a call by this group from the last 24 hours.";
}

/// The text names no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such code")]
pub struct NoSuchCode;

impl Code {
    /// The word on the wire and in the ledger: `level_too_low`.
    pub fn word(self) -> &'static str {
        self.entry().word
    }

    /// The meaning, in one sentence.
    pub fn meaning(self) -> &'static str {
        self.entry().meaning
    }

    /// The next step, in one sentence.
    pub fn remedy(self) -> &'static str {
        self.entry().remedy
    }

    /// The status of a reply that carries this code.
    pub fn status(self) -> Status {
        self.entry().status
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
