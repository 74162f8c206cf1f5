//! The table of a bridge in the configuration, and the providers that are built from it: one for each capability.

use crate::definitions::{self, Registered};
use crate::{Bridge, Settings, Vouching};
use provider::child::{self, Child};
use provider::contract::Operation;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind};
use provider::linking::address::Hosts;
use provider::linking::{self, LinkContext};
use provider::table::{self, TableError};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use secrets::identity::issuers::OwnKey;
use secrets::source::SecretSource;
use shared::{Provider, limits};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The kind `bridge`.
pub const KIND: &dyn ProviderKind = &BridgeKind;

struct BridgeKind;

/// The table of a bridge.
#[derive(Debug, Clone)]
pub struct Table {
    /// The settings of the protocol.
    pub settings: Settings,
    /// The settings of the program.
    pub child: child::Settings,
}

impl ProviderKind for BridgeKind {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        let child = child::Settings::json_schema(generator);
        let mut schema = Settings::json_schema(generator);
        table::extend_schema(&mut schema, &child, Some("command"));
        vec![schema]
    }

    fn parse(&self, mut keys: toml::Table) -> Result<Arc<dyn Configured>, TableError> {
        table::refuse_client_form(&keys)?;
        let child = table::take_part(&mut keys, &Settings::KEYS, &child::Settings::KEYS)?;
        Ok(Arc::new(Table { settings: table::read(keys)?, child }))
    }
}

impl Configured for Table {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut keys = table::write(&self.settings)?;
        keys.extend(table::write(&self.child)?);
        Ok(keys)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        self.child.secrets.iter().map(|(name, source)| (name.as_str(), source)).collect()
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.settings.timeout_seconds) + limits::PROVIDER_MARGIN)
    }

    fn check(&self, name: &Provider) -> Result<(), String> {
        self.settings.check(name)
    }

    fn is_namespace(&self) -> bool {
        true
    }

    fn shares_secret_of(&self) -> Option<&str> {
        self.settings.shares_secret_of.as_deref()
    }

    fn child(&self) -> Option<&child::Settings> {
        Some(&self.child)
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let bridge = Arc::new(self.bridge(name, deps));
        let accepted = deps.accepted()?;
        let definitions = definitions::read(accepted.said().clone())?;
        let registered =
            definitions::register(name, &definitions, accepted.flagged()).map_err(|faults| faults.join("; "))?;
        let capability = |capability: &Registered| {
            Ok(BuiltProvider {
                description: Some(capability.description.clone()),
                // The actions are known, so the configuration of them keeps its meaning.
                fault: bridge.child.as_ref().err().cloned().or_else(|| self.settings.unknown(&registered)),
                ..BuiltProvider::new(&capability.provider, self.operations(&bridge, capability, deps)?)
            })
        };
        registered.iter().map(capability).collect()
    }
}

impl Table {
    /// Returns the bridge without any secret: to list its definitions, and to check its behaviour.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    pub fn without_secrets(
        &self,
        name: &Provider,
        deps: &ProviderDeps<'_>,
        own: Arc<OwnKey>,
    ) -> Result<Bridge, String> {
        let mut bridge = self.bridge(name, deps);
        bridge.child = Ok(bridge.child?);
        bridge.vouching = self.settings.shares_secret_of.is_none().then_some(Vouching::Own(own));
        Ok(bridge)
    }

    fn bridge(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Bridge {
        let (settings, platform, runtime) = (&self.settings, deps.platform, deps.runtime);
        // One process for each call.
        let child = child::Settings { limits: self.child.limits.of_one_run(), ..self.child.clone() };
        let mut child: Result<Child, String> = deps.program(&child);
        let vouching = match &settings.shares_secret_of {
            None => runtime.map(|runtime| Vouching::Own(Arc::clone(&runtime.own))),
            Some(issuer) => deps.shared_secret().map(|secret| Vouching::Shared(issuer.clone(), secret)),
        };
        if let (Some(issuer), None, true) = (&settings.shares_secret_of, &vouching, deps.has_secrets()) {
            child = Err(format!("shares_secret_of: the secret of issuer `{issuer}` is not there"));
        }
        Bridge {
            name: name.clone(),
            child,
            timeout: Duration::from_secs(settings.timeout_seconds),
            vouching,
            scrubber: runtime.map(|runtime| Arc::clone(&runtime.scrubber)),
            hands_back: settings.hands_back_credentials,
            vault: runtime.map(|runtime| Arc::clone(&runtime.vault)),
            commands: Arc::clone(&platform.commands),
            ids: Arc::clone(&platform.ids),
            clock: Arc::clone(&platform.clock),
        }
    }

    /// The operations of a capability, and those that link its accounts if persons can sign in on a page.
    fn operations(
        &self,
        bridge: &Arc<Bridge>,
        capability: &Registered,
        deps: &ProviderDeps<'_>,
    ) -> Result<Vec<Arc<dyn Operation>>, String> {
        let mut operations = crate::operations(bridge, capability, &self.settings.exposes)?;
        let hosts = Hosts::new(&self.settings.auth_hosts)?;
        if hosts.is_empty() || !capability.operations.iter().any(|operation| operation.requires_auth) {
            return Ok(operations);
        }
        let own = capability.operations.iter().find(|operation| shared::auth::is_linking(operation.action.as_str()));
        if let Some(own) = own {
            return Err(format!("auth_hosts: {} has an operation `{}` of its own", capability.provider, own.action));
        }
        operations.extend(linking::operations(&Arc::new(LinkContext {
            capability: capability.provider.clone(),
            linker: Arc::<Bridge>::clone(bridge),
            hosts,
            chat_types: capability.chat_types.clone(),
            deadline: bridge.timeout,
            vault: bridge.vault.clone(),
            ids: Arc::clone(&deps.platform.ids),
            clock: Arc::clone(&deps.platform.clock),
        }))?);
        Ok(operations)
    }
}
