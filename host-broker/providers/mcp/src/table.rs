//! The table of an MCP server in the configuration, and the provider that is built from it.

use crate::accounts::Accounts;
use crate::settings::{Address, Settings};
use crate::tools;
use crate::upstream::{Reach, Upstream};
use provider::accounts::{Credentials, SignIn};
use provider::child;
use provider::contract::Operation;
use provider::definitions::DefinitionSource;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind};
use provider::pinned_definitions::PinnedDefinitions;
use provider::table::{self, TableError};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use secrets::source::SecretSource;
use serde::Serialize;
use shared::{Provider, limits};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The kind `mcp`.
pub const KIND: &dyn ProviderKind = &Mcp;

struct Mcp;

/// The table of an MCP server.
#[derive(Debug, Clone)]
pub struct Table {
    /// The tools, and the timeout.
    pub settings: Settings,
    /// How the server is reached.
    pub transport: Transport,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Transport {
    /// It is a program that the broker starts.
    Stdio(child::Settings),
    /// It has a URL.
    Http(Address),
}

/// The accounts of persons, and the operations that link them.
type Linked = (Arc<Accounts>, Vec<Arc<dyn Operation>>);

impl ProviderKind for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        let child = (child::Settings::json_schema(generator), "command");
        let address = (Address::json_schema(generator), "url");
        let schema = |(more, required)| {
            let mut schema = Settings::json_schema(generator);
            table::extend_schema(&mut schema, &more, Some(required));
            schema
        };
        [child, address].map(schema).into()
    }

    fn parse(&self, mut keys: toml::Table) -> Result<Arc<dyn Configured>, TableError> {
        table::refuse_client_form(&keys)?;
        let transport = if keys.contains_key("url") {
            Transport::Http(table::take_part(&mut keys, &Settings::KEYS, &Address::KEYS)?)
        } else {
            Transport::Stdio(table::take_part(&mut keys, &Settings::KEYS, &child::Settings::KEYS)?)
        };
        Ok(Arc::new(Table { settings: table::read(keys)?, transport }))
    }
}

impl Configured for Table {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut keys = table::write(&self.settings)?;
        keys.extend(table::write(&self.transport)?);
        Ok(keys)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        match &self.transport {
            Transport::Stdio(child) => child.secrets.iter().map(|(name, source)| (name.as_str(), source)).collect(),
            Transport::Http(address) => {
                let client_secret = address.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
                let token = address.token.as_ref().map(|token| ("token", token));
                token.into_iter().chain(client_secret.map(|secret| ("client_secret", secret))).collect()
            }
        }
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.settings.timeout_seconds) + limits::PROVIDER_MARGIN)
    }

    fn check(&self, name: &Provider) -> Result<(), String> {
        let (address, of_persons) = match &self.transport {
            Transport::Http(address) => (address.check(), address.oauth.is_some()),
            Transport::Stdio(_) => (Ok(()), false),
        };
        self.settings.check(name, of_persons).and(address)
    }

    fn redirect_url(&self) -> Option<&str> {
        let Transport::Http(Address { oauth: Some(oauth), .. }) = &self.transport else { return None };
        oauth.redirect_url.as_deref()
    }

    fn child(&self) -> Option<&child::Settings> {
        match &self.transport {
            Transport::Stdio(child) => Some(child),
            Transport::Http(_) => None,
        }
    }

    /// Builds the server with those of its accepted tools that are offered. A server without any can still be listed.
    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let upstream = connected(deps).unwrap_or_else(|| Arc::new(self.upstream(name, deps)));
        let source: Arc<dyn DefinitionSource> = Arc::<Upstream>::clone(&upstream);
        let provider = match self.offered(name, deps, &upstream) {
            Ok(provider) => provider,
            Err(fault) => BuiltProvider { fault: Some(fault), ..BuiltProvider::new(name, Vec::new()) },
        };
        Ok(vec![BuiltProvider { definitions: Some(source), ..provider }])
    }
}

/// The server as it is connected, where the provider is replaced.
fn connected(deps: &ProviderDeps<'_>) -> Option<Arc<Upstream>> {
    let source: Arc<dyn Any + Send + Sync> = Arc::<dyn DefinitionSource>::clone(deps.replacement?.source?);
    source.downcast().ok()
}

impl Table {
    /// Returns the server, without any contact to it.
    pub fn upstream(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Upstream {
        let reach = match &self.transport {
            Transport::Stdio(child) => deps.program(child).map(|child| Reach::Child(Box::new(child))),
            Transport::Http(address) => Ok(Reach::Address(address.url.clone(), deps.secret("token"))),
        };
        let scrubber = deps.runtime.map(|runtime| Arc::clone(&runtime.scrubber));
        let outside = (&deps.platform.commands, &deps.platform.http);
        Upstream::new(name, reach, self.settings.wanted(), scrubber, outside)
    }

    fn offered(
        &self,
        name: &Provider,
        deps: &ProviderDeps<'_>,
        upstream: &Arc<Upstream>,
    ) -> Result<BuiltProvider, String> {
        let accepted: PinnedDefinitions = deps.accepted()?;
        let said = tools::read(accepted.said())?;
        let wanted = self.settings.wanted();
        let tools::Offer { tools: offered, faults: left_out } = tools::offered(&said, &wanted, accepted.flagged());
        if offered.is_empty() {
            return Err(left_out.into_iter().next().unwrap_or_else(|| nothing_offered(name)));
        }
        for fault in &left_out {
            tracing::warn!(provider = %name, fault, "a tool is left out");
        }
        let pinned = offered.iter().map(|tool| (tool.action.clone(), tool.said.digest())).collect();
        let (accounts, linking) = self.accounts(name, deps, upstream)?.unzip();
        let operations = crate::operations(upstream, &offered, &self.settings, accounts.as_ref())?;
        let operations = operations.into_iter().chain(linking.into_iter().flatten()).collect();
        // The actions are known, so the configuration of them keeps its meaning.
        let fault = upstream.fault().cloned();
        Ok(BuiltProvider { fault, pinned, left_out, ..BuiltProvider::new(name, operations) })
    }

    /// The accounts of persons at the server, and the operations that link them; `None` if the server has no accounts.
    fn accounts(
        &self,
        name: &Provider,
        deps: &ProviderDeps<'_>,
        upstream: &Arc<Upstream>,
    ) -> Result<Option<Linked>, String> {
        let Transport::Http(address @ Address { oauth: Some(oauth), .. }) = &self.transport else { return Ok(None) };
        let own = self.settings.wanted().into_keys().find(|tool| shared::auth::is_linking(tool.as_str()));
        if let Some(own) = own {
            return Err(format!("tools.{own}: a tool that links accounts has this name; it cannot be offered"));
        }
        let sign_in = SignIn {
            settings: oauth,
            server: address.url.clone(),
            names_resource: true,
            names_address: false,
            deadline: Duration::from_secs(self.settings.timeout_seconds),
        };
        let (credentials, linking) = Credentials::with_sign_in(name, Vec::new(), sign_in, deps)?;
        Ok(Some((Arc::new(Accounts::new(credentials, Arc::clone(upstream))), linking)))
    }
}

fn nothing_offered(name: &Provider) -> String {
    format!("no tool of it is offered: give those that are wanted a level in [providers.{name}.tools]")
}
