//! The providers and actions that exist, for the checks of names in the configuration.

use crate::Config;
use model::Declaration;
use rules::NamedProvider;
use shared::{Action, Provider};

/// The providers and actions that exist.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) config: &'a Config,
    pub(crate) providers: &'a [NamedProvider<'a>],
}

impl<'a> Known<'a> {
    /// Returns a provider.
    pub(crate) fn provider(&self, provider: &Provider) -> Option<&'a NamedProvider<'a>> {
        self.providers.iter().find(|named| named.name == provider)
    }

    /// Returns the declaration of an action.
    pub(crate) fn action(&self, provider: &Provider, action: &Action) -> Option<&'a Declaration> {
        self.provider(provider)?
            .actions
            .iter()
            .map(|named| named.declaration)
            .find(|declaration| declaration.action == *action)
    }

    /// Returns whether the provider has workspaces of groups.
    pub(crate) fn has_workspaces(&self, provider: &Provider) -> bool {
        self.config.table_of(provider).is_some_and(|(_, table)| table.configured.workspaces().is_some())
    }

    /// Returns whether the provider may be a capability of a bridge whose actions are unknown: nothing was accepted, or
    /// it cannot be read. The configuration of such a provider cannot be checked.
    pub(crate) fn may_be_of_a_bridge(&self, provider: &Provider) -> bool {
        let owner = provider.namespace().and_then(|namespace| namespace.parse::<Provider>().ok());
        let table = owner.as_ref().and_then(|owner| self.config.providers.get(owner));
        let is_bridge = table.is_some_and(|table| table.configured.is_namespace());
        is_bridge && self.providers.iter().any(|named| Some(named.name) == owner.as_ref() && !named.is_ready)
    }
}
