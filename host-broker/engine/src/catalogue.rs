//! The catalogue: all providers and actions, from the configuration and the secrets.

use config::provider::ProviderTable;
use kernel::contract::{
    Failure, InverseError, Invocation, LinkedByOperator, Operation, Probed, Proposed, Running, UsedAccount,
};
use kernel::execution::Execution;
use model::{Declaration, ParamError, ProposalId, Refusal};
use policy::facts::Outage;
use provider::definitions::{DefinitionSource, Pinned};
use provider::kind::{AboutUnparsed, BuiltProvider};
use rules::{NamedAction, NamedProvider};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{Action, Level, Provider};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The providers, with their actions and states.
#[derive(Clone, Default)]
pub struct Catalogue {
    providers: BTreeMap<Provider, Listed>,
}

/// One provider of the catalogue.
#[derive(Clone)]
pub struct Listed {
    /// The state; `Err` gives the operator the reason why it takes no calls.
    pub state: Result<(), String>,
    /// The kind of that reason, if it takes no calls.
    pub outage: Outage,
    /// The time that a caller waits, if not as the broker's `call_timeout_ms` says.
    pub timeout: Option<Duration>,
    /// The description for an agent; absent for native providers.
    pub description: Option<String>,
    /// Its actions.
    pub operations: BTreeMap<Action, Arc<dyn Operation>>,
    /// The kind of the provider, in the configuration's word.
    pub kind: &'static str,
    /// The check of the connection to its servers, if it has a harmless one. Only the broker itself runs it.
    pub connection: Option<Arc<dyn Operation>>,
    /// The server whose definitions can change.
    pub definitions: Option<Arc<dyn DefinitionSource>>,
    /// The digests of the accepted tools of that server.
    pub pinned: Pinned,
    /// The reasons why some configured tools are left out. The other tools can be called.
    pub left_out: Vec<String>,
    /// Describes a call whose parameters do not fit.
    pub about_unparsed: Option<AboutUnparsed>,
}

impl Listed {
    /// Makes a provider of this kind that takes calls of these actions.
    pub fn ready(kind: &'static str, operations: Vec<Arc<dyn Operation>>) -> Self {
        let by_name = |operation: Arc<dyn Operation>| (operation.declaration().action.clone(), operation);
        let operations = operations.into_iter().map(by_name).collect();
        Self {
            state: Ok(()),
            outage: Outage::Unusable,
            timeout: None,
            description: None,
            operations,
            kind,
            connection: None,
            definitions: None,
            pinned: Pinned::new(),
            left_out: Vec::new(),
            about_unparsed: None,
        }
    }

    /// Makes a provider that was built from this table.
    pub fn of(table: &ProviderTable, built: BuiltProvider) -> Self {
        let BuiltProvider { name: _, description, operations, fault: _, connection, definitions, pinned, left_out } =
            built;
        let listed = Self::ready(table.kind, operations);
        let about_unparsed = table.configured.about_unparsed();
        Self { description, connection, definitions, pinned, left_out, about_unparsed, ..listed }
    }
}

/// The catalogue entry under a pair of names.
pub enum CatalogueEntry {
    /// No such provider.
    NoProvider,
    /// A provider that takes no calls and does not list this action, so it is unknown whether it has it.
    Unusable,
    /// No such action.
    NoAction,
    /// The action, of a provider that takes no calls.
    Disabled(Arc<dyn Operation>, Outage),
    /// The action.
    Enabled(Arc<dyn Operation>),
}

/// An action under another declaration.
struct Reworded {
    declaration: Declaration,
    operation: Arc<dyn Operation>,
}

impl Operation for Reworded {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        self.operation.parse(params)
    }

    fn fills_defaults(&self) -> bool {
        self.operation.fills_defaults()
    }

    fn account_fault(&self, name: &str) -> Option<&'static str> {
        self.operation.account_fault(name)
    }

    fn is_same_account(&self, one: &str, other: &str) -> bool {
        self.operation.is_same_account(one, other)
    }

    fn linked_by_operator(&self) -> LinkedByOperator {
        self.operation.linked_by_operator()
    }

    fn withdrawn(&self) -> Option<Refusal> {
        self.operation.withdrawn()
    }

    fn inverse(&self, changes: &[u8], id: ProposalId, ttl: Duration) -> Result<Proposed, InverseError> {
        self.operation.inverse(changes, id, ttl)
    }

    fn probe(
        &self,
        handle: Value,
        account: Option<UsedAccount>,
        execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        self.operation.probe(handle, account, execution)
    }
}

impl Catalogue {
    /// Adds a provider, replacing one of the same name.
    pub fn insert(&mut self, provider: Provider, listed: Listed) {
        self.providers.insert(provider, listed);
    }

    /// Returns the same catalogue with these providers in place of others.
    #[must_use]
    pub fn with_replaced(&self, is_its: impl Fn(&Provider) -> bool, fresh: Self) -> Self {
        let others = self.providers.iter().filter(|(listed, _)| !is_its(listed));
        let others = others.map(|(listed, own)| (listed.clone(), own.clone()));
        Self { providers: others.chain(fresh.providers).collect() }
    }

    /// Puts another declaration in front of every action that has one here. From then on the action's own declaration
    /// is hidden.
    pub fn reword(&mut self, new: impl Fn(&Declaration) -> Option<Declaration>) {
        for operation in self.providers.values_mut().flat_map(|listed| listed.operations.values_mut()) {
            if let Some(declaration) = new(operation.declaration()) {
                *operation = Arc::new(Reworded { declaration, operation: Arc::clone(operation) });
            }
        }
    }

    /// Replaces the descriptions of the providers.
    pub fn redescribe(&mut self, new: impl Fn(&str) -> String) {
        for description in self.providers.values_mut().filter_map(|listed| listed.description.as_mut()) {
            *description = new(description);
        }
    }

    /// Returns the entry under these names.
    pub fn find(&self, provider: &Provider, action: &Action) -> CatalogueEntry {
        let Some(listed) = self.providers.get(provider) else { return CatalogueEntry::NoProvider };
        match (listed.operations.get(action), &listed.state) {
            (None, Ok(())) => CatalogueEntry::NoAction,
            // A provider that takes no calls may have unknown actions, so no action is missing there.
            (None, Err(_)) => CatalogueEntry::Unusable,
            (Some(operation), Err(_)) => CatalogueEntry::Disabled(Arc::clone(operation), listed.outage),
            (Some(operation), Ok(())) => CatalogueEntry::Enabled(Arc::clone(operation)),
        }
    }

    /// Returns how long a caller of this provider waits, if not as the broker's `call_timeout_ms` says.
    pub fn timeout(&self, provider: &Provider) -> Option<Duration> {
        self.providers.get(provider)?.timeout
    }

    /// Describes a call whose parameters do not fit, for the public members of its record.
    pub fn about_unparsed(&self, provider: &Provider, action: &Action, params: &Map<String, Value>) -> Option<Value> {
        (self.providers.get(provider)?.about_unparsed?)(action, params)
    }

    /// Returns one provider.
    pub fn provider(&self, provider: &Provider) -> Option<&Listed> {
        self.providers.get(provider)
    }

    /// Returns the providers and their declarations, for the checks of rules and of the configuration.
    pub fn named(&self) -> Vec<NamedProvider<'_>> {
        fn action(operation: &Arc<dyn Operation>) -> NamedAction<'_> {
            NamedAction { declaration: operation.declaration(), fills_defaults: operation.fills_defaults() }
        }
        let named = self.providers.iter().map(|(name, listed)| NamedProvider {
            name,
            kind: listed.kind,
            is_ready: listed.state.is_ok(),
            actions: listed.operations.values().map(action).collect(),
        });
        named.collect()
    }

    /// Returns every provider, by name.
    pub fn providers(&self) -> impl Iterator<Item = (&Provider, &Listed)> {
        self.providers.iter()
    }

    /// Returns a provider's actions and their present levels, to which a grant is bound.
    pub fn levels(&self, provider: &Provider) -> Option<BTreeMap<Action, Level>> {
        let listed = self.providers.get(provider)?;
        Some(listed.operations.iter().map(|(name, operation)| (name.clone(), operation.declaration().level)).collect())
    }

    /// Returns a digest of all declarations. Rows name it, so that an auditor knows which catalogue a decision used.
    pub fn version(&self) -> Digest {
        let mut text = String::new();
        for (provider, listed) in &self.providers {
            for (action, operation) in &listed.operations {
                let declaration = operation.declaration();
                let said = (&declaration.input_schema, &declaration.output_schema, &declaration.description);
                let said = Digest::of(&shared::json::canonical(&said));
                let (level, tier, exposes) = (declaration.level.number(), declaration.tier, declaration.exposes);
                let own = (&declaration.chat_types, declaration.needs_account);
                // Writing to a string does not fail.
                write!(text, "{provider}\n{action}\n{level}\n{tier:?}\n{exposes:?}\n{own:?}\n{said}\n").ok();
            }
        }
        Digest::of(text.as_bytes())
    }
}
