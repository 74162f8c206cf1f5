//! The sources of all secrets that the configuration names, in one list. A secret that the list lacks is neither loaded
//! nor protected. The keys of the vault are not in it, because they open other secrets.

use crate::Config;
use crate::inspection::CLASSIFIER_TOKEN;
use provider::kind;
use secrets::STORE_URL;
use secrets::identity::issuers;
use secrets::source::SecretSource;
use shared::Provider;

/// A secret, and its source.
#[derive(Debug, Clone)]
pub struct NamedSecret<'c> {
    /// The name under which it is loaded: `github.token`.
    pub name: String,
    /// The part of the configuration that uses it.
    pub user: SecretUser<'c>,
    /// The source.
    pub source: &'c SecretSource,
}

/// The part of the configuration that uses a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUser<'c> {
    /// A provider, and whether it is enabled.
    Provider(&'c Provider, bool),
    /// The classifier of the inspection.
    Classifier,
    /// An issuer of context tokens.
    Issuer,
    /// A channel of notices.
    Channel,
    /// A sink of the evidence.
    Sink,
    /// The database with the records.
    Store,
}

impl Config {
    /// Returns every secret with a name.
    pub fn secrets(&self) -> impl Iterator<Item = NamedSecret<'_>> {
        let providers = self.providers.iter().flat_map(|(provider, table)| {
            let user = SecretUser::Provider(provider, table.enabled);
            let own = table.configured.secrets().into_iter();
            own.map(move |(key, source)| NamedSecret { name: kind::secret_name(provider, key), user, source })
        });
        let classifier = self.inspection.classifier.iter().filter_map(|table| {
            let source = table.token.as_ref()?;
            Some(NamedSecret { name: CLASSIFIER_TOKEN.to_owned(), user: SecretUser::Classifier, source })
        });
        let issuers = self.identity.issuers.iter().filter_map(|(name, table)| {
            let source = table.secret.as_ref()?;
            Some(NamedSecret { name: issuers::secret_name(name), user: SecretUser::Issuer, source })
        });
        let channels = self.channels.iter().flat_map(|table| {
            let named = |(key, source)| NamedSecret { name: table.secret_name(key), user: SecretUser::Channel, source };
            table.secrets().into_iter().map(named).collect::<Vec<_>>()
        });
        let sinks = self.sinks.iter().filter_map(|table| {
            let source = table.secret()?;
            Some(NamedSecret { name: table.secret_name(), user: SecretUser::Sink, source })
        });
        let store = self.store.iter().map(|store| NamedSecret {
            name: STORE_URL.to_owned(),
            user: SecretUser::Store,
            source: &store.url,
        });
        providers.chain(classifier).chain(issuers).chain(channels).chain(sinks).chain(store)
    }
}
