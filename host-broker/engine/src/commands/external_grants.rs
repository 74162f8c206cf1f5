//! External grants: issuing, reading and ending them.

use super::CommandResult;
use super::flows::{Reach, changed, most, no_tools, too_many, unknown, version_in};
use crate::broker::Broker;
use crate::catalogue::CatalogueEntry;
use crate::flows::issuers;
use crate::flows::standing::{Use, standing};
use crate::rights;
use config::flows::{FlowsTable, ToolTable};
use kernel::call::Header;
use model::Caller;
use model::bearer::Bearer;
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::flow::request::{FlowProject, FlowVersion, GrantList, GrantMint, GrantNamed, Harness, LABEL_MAX, State};
use shared::flow::{Id, Opaque};
use shared::{Code, Group, Level};
use std::collections::BTreeSet;
use std::time::Duration;
use store::state::external_grants;
use store::state::external_grants::{Access, BEARER, Issued, fresh_id};
use store::state::operators;
use store::state::sessions;
use store::{StoreError, Transaction};

impl Broker {
    /// Issues an external grant for the canonical version of a flow, and for tools that its steps name and the operator
    /// allows.
    pub(super) fn mint(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        wanted: &GrantMint,
    ) -> Result<CommandResult, StoreError> {
        let vault = reach.vault;
        let GrantMint { flow_id, flow_version, requested_tools, ttl_seconds, actor_label } = wanted;
        let no = |code: Code| Ok(CommandResult::no(code, code.meaning()));
        let invalid = |reason: &str| Ok(CommandResult::no(Code::InvalidParams, reason));
        let external_agent = &self.config.flows.external_agent;
        if external_agent.forbidden {
            return no(Code::FlowExternalAgentPolicyForbidden);
        }
        if !external_agent.enabled {
            return no(Code::FlowExternalAgentDisabled);
        }
        if requested_tools.is_empty() {
            return invalid("/requested_tools: there must be one.");
        }
        if *ttl_seconds == Some(0) {
            return invalid("/ttl_seconds: it must be at least 1.");
        }
        let label = actor_label.as_deref().unwrap_or_default();
        if label.chars().count() > LABEL_MAX {
            return invalid("/actor_label: it is longer than 256 characters.");
        }
        let version = FlowVersion { flow_id: flow_id.clone(), version: flow_version.clone() };
        let Some(stored) = version_in(tx, reach, &version)? else { return Ok(unknown()) };
        if stored.state != State::Approved {
            return no(Code::FlowExternalGrantDenied);
        }
        let named: BTreeSet<&Opaque> = stored.bundle.external_tools().collect();
        let tools: BTreeSet<&Opaque> = requested_tools.iter().collect();
        let unnamed: Vec<&Opaque> = tools.difference(&named).copied().collect();
        if !unnamed.is_empty() {
            return Ok(no_tools(Code::FlowExternalToolUnknown, &unnamed, named.into_iter()));
        }
        let denied: Vec<&Opaque> =
            tools.iter().copied().filter(|tool| self.config.flows.tool(tool).is_none()).collect();
        if !denied.is_empty() {
            return Ok(no_tools(Code::FlowExternalToolDenied, &denied, self.config.flows.tools().iter()));
        }
        if let Err(lacks) = self.may_give(tx, header, &tools)? {
            return Ok(CommandResult::no(Code::Guardrail, lacks));
        }
        let (Ok(grant_id), Ok(bearer)) = (fresh_id(self.ids.as_ref()), Bearer::fresh(BEARER, self.ids.as_ref())) else {
            return Ok(CommandResult::no(Code::EvidenceUnavailable, "The system's random source failed."));
        };
        let seconds =
            ttl_seconds.map_or(external_agent.default_ttl_seconds, u64::from).min(external_agent.max_ttl_seconds);
        let actor = json!({ "actor_label": label, "vault_id": vault, "issued_by": &*header.caller_key });
        let access = Access {
            grant_id,
            vault: vault.clone(),
            scope: stored.bundle.flow.scope,
            flow_id: flow_id.clone(),
            version: flow_version.clone(),
            tools: tools.into_iter().cloned().collect(),
            actor: Digest::of(&shared::json::canonical(&actor)),
            issued_by: header.caller_key.to_string(),
            issued_at: tx.now(),
            expires_at: tx.now().plus(Duration::from_secs(seconds)),
            revoked_at: None,
            max_invocations: external_agent.max_invocations,
            invocations: 0,
        };
        let no_place = match external_grants::issue(tx, &access, &bearer.digest())? {
            Issued::Stored => None,
            Issued::Full => Some("There are as many accesses as there can be; those that are over go after a day."),
            Issued::FullOfOne => Some(
                "You have given as many accesses as one caller can have given; those that are over go after a day.",
            ),
            Issued::FullOfAgent => Some(
                "You have given this agent the most grants that can be active at once; revoke one, or wait until one expires.",
            ),
            Issued::FullOfIssuer => Some(
                "You have given the most grants that can be active at once; revoke one, or wait until one expires.",
            ),
        };
        if let Some(why) = no_place {
            return Ok(CommandResult::no(Code::Busy, why));
        }
        if let Caller::Group(_) = &header.caller {
            // The row of the grant is the next one.
            for bound in tools_of(&self.config.flows, &access.tools) {
                let way = (&bound.provider, "flow_external_grant_mint");
                sessions::let_out(tx, &header.caller_key, way, tx.head().seq + 1)?;
            }
        }
        let data = json!({
            "schema": "knowtation.flow_external_grant_mint/v0",
            "grant": access.document(),
            "expires_at": access.expires_at,
        });
        let is_cut = ttl_seconds.is_some_and(|wanted| u64::from(wanted) > seconds);
        let cut = if is_cut {
            format!(" No access may last longer than {seconds} s (max_ttl_seconds).")
        } else {
            String::new()
        };
        let summary = format!("{} has access to {flow_id}@{flow_version}.{cut}", access.grant_id);
        let bearer = Value::String(bearer.reveal().to_string());
        Ok(changed(data, summary).shown_once(Map::from_iter([("bearer".to_owned(), bearer)])))
    }

    /// Checks whether the person who gives these tools approves calls of each. A token may give what its creator may
    /// give, and the main group's agent only tools within its ceiling.
    fn may_give(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        tools: &BTreeSet<&Opaque>,
    ) -> Result<Result<(), String>, StoreError> {
        let person = match &header.caller {
            Caller::Person(person) => person.clone(),
            Caller::Operator(token) => {
                let operator = operators::find(tx.view(), token)?;
                operator.map(|operator| operator.maker().to_owned()).unwrap_or_default()
            }
            Caller::Group(group) => return self.main_may_give(tx, (group, &header.caller_key), tools),
            Caller::External(_) | Caller::Broker => return Ok(Err(Code::MainOnly.meaning().to_owned())),
        };
        let check = |bound: &ToolTable| {
            let (level, _) = self.demands(bound);
            rights::check_tool(&self.config, &person, &bound.provider, level)
        };
        Ok(tools_of(&self.config.flows, tools.iter().copied()).try_for_each(check))
    }

    /// Checks the ceiling of the main group's agent, which holds for external grants as for grants. There is no
    /// approval request: the bearer token is shown once, to the caller that waits for it.
    fn main_may_give(
        &self,
        tx: &Transaction<'_>,
        (group, caller): (&Group, &str),
        tools: &BTreeSet<&Opaque>,
    ) -> Result<Result<(), String>, StoreError> {
        const PERSON: &str = "a person must give it: host-broker flow grant mint";
        let ceiling = self.config.grant_ceiling;
        for bound in tools_of(&self.config.flows, tools.iter().copied()) {
            let (level, is_sensitive) = self.demands(bound);
            let why = if level > ceiling.max_level {
                format!(
                    "The main group may give tools up to {} by itself, and {} is {level}",
                    ceiling.max_level, bound.id
                )
            } else if !ceiling.sensitive && is_sensitive {
                format!("The tool {} reads private data", bound.id)
            } else if self.completes_trifecta(tx, caller, group, &bound.provider)? {
                "The main group's session has read private data and untrusted content, and an external grant is an egress channel"
                    .to_owned()
            } else {
                continue;
            };
            return Ok(Err(format!("{why}; {PERSON}.")));
        }
        Ok(Ok(()))
    }

    /// Returns the level of a tool, and whether it reads private data. An unknown tool may be anything.
    fn demands(&self, bound: &ToolTable) -> (Level, bool) {
        match self.catalogue.find(&bound.provider, &bound.action) {
            CatalogueEntry::Enabled(operation) | CatalogueEntry::Disabled(operation, _) => {
                let declaration = operation.declaration();
                let level = if bound.gate.is_some() { Level::Production } else { declaration.level };
                (level, declaration.exposes.sensitive)
            }
            CatalogueEntry::NoProvider | CatalogueEntry::NoAction | CatalogueEntry::Unusable => {
                (Level::Production, true)
            }
        }
    }

    /// Returns the flow of an external grant, in the form for its agent.
    pub(super) fn read_outside(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        flow: &Id,
    ) -> Result<CommandResult, StoreError> {
        let Caller::External(access) = &header.caller else {
            return Ok(CommandResult::no(Code::Guardrail, "Only external agents read by their access."));
        };
        let standing = standing(tx.view(), &self.config.flows, tx.now(), access, Use::Read(flow))?;
        let access = match standing {
            Ok(access) => access,
            Err(code) => return Ok(CommandResult::no(code, code.meaning())),
        };
        let wanted =
            FlowProject { flow_id: access.flow_id, version: Some(access.version), harness: Harness::AgentBundle };
        let tools = self.config.flows.tools().into_iter().filter(|tool| access.tools.contains(tool)).collect();
        let reach = Reach { vault: &access.vault, scopes: BTreeSet::from([access.scope]) };
        Ok(match self.projected(tx, &reach, &wanted, &tools)? {
            // A repeated request reads again, so that no caller fills the disk by reading.
            CommandResult::Done { kind, subject, body, data: Value::Object(projected), summary } => {
                let data = json!({ "grant_id": access.grant_id });
                CommandResult::Done { kind, subject, body, data, summary }.shown_once(projected)
            }
            other @ (CommandResult::Done { .. }
            | CommandResult::No { .. }
            | CommandResult::Capabilities(_)
            | CommandResult::Once(..)) => other,
        })
    }
}

/// Returns the actions of these tools.
fn tools_of<'a>(
    flows: &'a FlowsTable,
    tools: impl IntoIterator<Item = &'a Opaque>,
) -> impl Iterator<Item = &'a ToolTable> {
    tools.into_iter().filter_map(|tool| flows.tool(tool))
}

impl Reach<'_> {
    fn holds(&self, access: &Access) -> bool {
        access.vault == *self.vault && self.sees(access.scope)
    }
}

/// Ends an external grant: at once, permanently, and whether there are external agents or not.
pub(super) fn revoke(tx: &Transaction<'_>, reach: &Reach<'_>, named: &GrantNamed) -> Result<CommandResult, StoreError> {
    let id = &named.grant_id;
    let found = external_grants::find(tx.view(), id)?.filter(|access| reach.holds(access));
    let Some(access) = found else {
        let code = Code::FlowExternalGrantDenied;
        return Ok(CommandResult::no(code, code.meaning()));
    };
    if access.revoked_at.is_some() {
        return Ok(CommandResult::told(access.document(), format!("{id} was ended before.")));
    }
    external_grants::revoke(tx, id)?;
    let access = Access { revoked_at: Some(tx.now()), ..access };
    Ok(changed(access.document(), format!("{id} is ended.")))
}

/// Lists external grants, without their bearer tokens. Only people learn why one no longer holds: it names a person.
pub(super) fn list_accesses(
    tx: &Transaction<'_>,
    (header, flows): (&Header, &FlowsTable),
    reach: &Reach<'_>,
    wanted: &GrantList,
) -> Result<CommandResult, StoreError> {
    let (vault, scopes) = (reach.vault, &reach.scopes);
    let after = match &wanted.cursor {
        Some(id) => external_grants::find(tx.view(), id)?.filter(|access| reach.holds(access)),
        None => None,
    };
    if wanted.cursor.is_some() && after.is_none() {
        let code = Code::FlowExternalGrantDenied;
        return Ok(CommandResult::no(code, "/cursor: no list has returned it, or it has expired."));
    }
    let Some(most) = most(wanted.limit) else { return Ok(too_many()) };
    let mut found =
        external_grants::list(tx.view(), vault, (scopes, wanted.flow_id.as_ref()), after.as_ref(), most + 1)?;
    let has_more = found.len() > most;
    found.truncate(most);
    let last = found.last().filter(|_| has_more).map(|last| last.grant_id.clone());
    let summary = format!("{} access(es)", found.len());
    let mut documents: Vec<_> = found.iter().map(Access::document).collect();
    if let Caller::Person(_) = &header.caller {
        for (access, document) in found.iter().zip(&mut documents) {
            let why = issuers::lost_right(tx.view(), flows, &access.issued_by)?;
            if let (Some(why), Some(document)) = (why, document.as_object_mut()) {
                document.insert("refused_because".to_owned(), why.into());
            }
        }
    }
    Ok(CommandResult::told(json!({ "vault_id": vault, "grants": documents, "next_cursor": last }), summary))
}
