//! The permissions of a group as a document: `ext_capabilities.json` and its live form.

use crate::catalogue::Catalogue;
use crate::facts::{chats_fact, kinds_fact};
use config::Config;
use config::Policy;
use model::{ChatType, Declaration, Exposure, Subject};
use policy::facts::{ChatsFact, RulesFact};
use policy::profile::ApprovalMode;
use rules::{Asking, Foretold, Replay, Unknown};
use shared::snapshot::{ActionEntry, Availability, Capability, PROTOCOL, Snapshot};
use shared::{Action, Group, Level, Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::state::grants;
use store::state::grants::Grant;
use store::{StoreError, View};

/// Returns the snapshot of one group, equal to the database at this moment. It holds nothing of other groups.
///
/// `behalf` is the person on whose behalf it is requested. Actions that may not be used for this person, or in this
/// chat, are then denied. `None` means all of the group, as in its directory.
///
/// # Errors
/// [`StoreError`] if the grants cannot be read.
pub fn snapshot(
    connection: &View,
    now: Timestamp,
    group: &Group,
    config: &Config,
    catalogue: &Catalogue,
    policy: &Policy,
    behalf: Option<&Subject>,
) -> Result<Snapshot, StoreError> {
    let is_main = config.is_main(group);
    let grants = grants::list(connection, Some(group))?;
    let mut live: BTreeMap<&Provider, Vec<&Grant>> = BTreeMap::new();
    for grant in grants.iter().filter(|grant| grant.is_live(now)) {
        live.entry(&grant.provider).or_default().push(grant);
    }
    let replay = Replay::new(&policy.rules, Unknown::OfActions).ok();
    let capabilities: Vec<Capability> = live
        .iter()
        .filter_map(|(provider, grants)| {
            capability((group, provider, grants), config, catalogue, (policy, replay.as_ref()), (now, behalf))
        })
        .collect();
    let providers_available: Vec<Provider> = if is_main {
        catalogue.providers().map(|(name, _)| name.clone()).collect()
    } else {
        capabilities.iter().map(|capability| capability.provider.clone()).collect()
    };
    Ok(Snapshot {
        generated_at: now.to_string(),
        protocol: Some(PROTOCOL.to_owned()),
        group: Some(group.clone()),
        is_main,
        needs_conversation: config.has_conversations(group),
        capabilities,
        providers_available,
        may_request: config
            .groups
            .get(group)
            .map(|table| table.may_request.iter().cloned().collect())
            .unwrap_or_default(),
        opens_gates: config.gates_opened_by_group(group),
        token_fault: None,
    })
}

/// Returns the permissions at one provider. Its live grants are not empty: the group's own one first.
fn capability(
    (group, provider, grants): (&Group, &Provider, &[&Grant]),
    config: &Config,
    catalogue: &Catalogue,
    (policy, replay): (&Policy, Option<&Replay>),
    (now, behalf): (Timestamp, Option<&Subject>),
) -> Option<Capability> {
    let listed = catalogue.provider(provider)?;
    let first = *grants.first()?;
    let timeout = listed.timeout.unwrap_or(config.timeout());
    let actions = listed
        .operations
        .iter()
        .map(|(name, operation)| {
            let declaration = operation.declaration();
            let levels = (Some(declaration.level), declaration.level);
            let grant = grants.iter().find(|grant| grant.gives(name, levels, now)).copied().unwrap_or(first);
            let setting = policy.profiles.setting(Some(group), declaration, declaration.level);
            let offered = listed.state.is_ok()
                && operation.withdrawn().is_none()
                && !always_refused(replay, group, declaration, setting);
            let enabled = offered && behalf.is_none_or(|behalf| is_for(behalf, grant, declaration));
            (name.clone(), entry(grant, declaration, setting, enabled))
        })
        .collect();
    let chats = listed.operations.values().flat_map(|operation| &operation.declaration().chat_types);
    let chats: BTreeSet<ChatType> = chats.copied().collect();
    Some(Capability {
        provider: provider.clone(),
        description: listed.description.clone().or_else(|| of_kind(listed.kind).map(ToOwned::to_owned)),
        accounts: Vec::new(),
        chat_types: chats.into_iter().map(|kind| kind.word().to_owned()).collect(),
        access_level: grants.iter().map(|grant| grant.level).max().unwrap_or(Level::None),
        allowed_actions: allowed(grants),
        denied_actions: first.denied_list(),
        // Each action of a temporary grant has its own expiry beside the group's own grant.
        expires_at: if first.is_temporary {
            grants.iter().filter_map(|grant| grant.expires_at).max()
        } else {
            first.expires_at
        },
        timeout_ms: u64::try_from(timeout.as_millis()).ok(),
        actions,
    })
}

/// Returns the list of all allowed actions; `None` if one of the grants has no list.
fn allowed(grants: &[&Grant]) -> Option<Vec<Action>> {
    let lists: Option<Vec<&BTreeSet<Action>>> = grants.iter().map(|grant| grant.allowed.as_ref()).collect();
    let all: BTreeSet<&Action> = lists?.into_iter().flatten().collect();
    Some(all.into_iter().cloned().collect())
}

/// Returns the description of a kind of provider, for an agent that chooses between many.
fn of_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "github" => Some("GitHub: repositories, issues, pull requests, branches"),
        "cloud-logs" => Some("Log entries of services"),
        "files" => Some("Files of the workspace; changes are proposed and then applied"),
        "mcp" => Some("Tools of an MCP server"),
        _ => None,
    }
}

/// Returns whether the rules refuse the action with all parameters.
fn always_refused(replay: Option<&Replay>, group: &Group, declaration: &Declaration, setting: ApprovalMode) -> bool {
    let decides = setting == ApprovalMode::Rules;
    let Some(replay) = replay else { return decides };
    let asking = Asking {
        group,
        provider: &declaration.provider,
        action: &declaration.action,
        demanded: declaration.level,
        decides,
        person: None,
        task: None,
        session: Exposure::NONE,
        now: Timestamp::from_millis(0),
    };
    match replay.foretell(&asking) {
        Foretold::CannotTell(_) | Foretold::Certain(RulesFact::Permit { .. } | RulesFact::Unasked) => false,
        Foretold::Certain(
            RulesFact::NoMatch | RulesFact::Forbid { .. } | RulesFact::Failed { .. } | RulesFact::NotEvaluable { .. },
        ) => true,
    }
}

/// Returns whether it may be used on this person's behalf, and in this chat.
fn is_for(behalf: &Subject, grant: &Grant, declaration: &Declaration) -> bool {
    let person = behalf.person();
    let chats = [chats_fact(grant, person), kinds_fact(declaration, person)];
    let takes_a_person = declaration.provider.is_namespaced() || chats != [ChatsFact::Any; 2];
    !chats.contains(&ChatsFact::Elsewhere) && (person.is_some() || !takes_a_person)
}

fn entry(grant: &Grant, declaration: &Declaration, setting: ApprovalMode, enabled: bool) -> ActionEntry {
    let status = availability(grant, declaration, setting, enabled);
    let refused = matches!(status, Availability::Denied | Availability::RequiresHigherLevel);
    let suffix = if refused { " (DENIED)" } else { "" };
    // An action that the group cannot use needs no schema.
    let schema = |value: &serde_json::Value| (!refused).then(|| value.clone());
    ActionEntry {
        level: declaration.level,
        tier: setting.tier().map(|tier| tier.word().to_owned()),
        description: format!("{}{suffix}", declaration.description),
        status,
        input_schema: schema(&declaration.input_schema),
        output_schema: declaration.output_schema.as_ref().and_then(schema),
        idempotent: Some(declaration.idempotent),
        expires_at: grant.expires_at.filter(|_| grant.is_temporary && !refused),
        requires_auth: declaration.needs_account,
    }
}

fn availability(grant: &Grant, declaration: &Declaration, setting: ApprovalMode, enabled: bool) -> Availability {
    let listed = grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(&declaration.action));
    let catalogued = grant.catalogue.get(&declaration.action) == Some(&declaration.level);
    if !enabled || setting == ApprovalMode::Off || grant.denied.contains(&declaration.action) || !listed || !catalogued
    {
        Availability::Denied
    } else if declaration.level > grant.level {
        Availability::RequiresHigherLevel
    } else if declaration.level >= Level::Production {
        Availability::NeedsGate
    } else if setting == ApprovalMode::Human {
        Availability::NeedsApproval
    } else {
        Availability::Available
    }
}
