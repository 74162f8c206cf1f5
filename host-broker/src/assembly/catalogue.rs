//! Builds the catalogue from the tables of the configuration.
//!
//! A provider that cannot be built is listed with the reason and takes no calls. The other providers work.

use crate::http::callback;
use config::Config;
use config::provider::ProviderTable;
use config::web::Loopback;
use engine::catalogue::{Catalogue, Listed};
use platform::Platform;
use platform::home::Home;
use policy::facts::Outage;
use provider::kind::{BuiltProvider, CommonDeps, ProviderDeps, Replacement, RuntimeDeps, secret_name};
use secrets::Secrets;
use shared::{Group, Provider};

/// The secrets of the providers, and the dependencies of those that run.
pub struct CatalogueDeps<'a> {
    /// All secrets.
    pub secrets: &'a Secrets,
    /// The dependencies of a provider that runs; `None` where nothing runs.
    pub runtime: Option<RuntimeDeps>,
}

/// Builds every configured provider. Without `deps`, a provider that needs a secret is listed as if it had it, and
/// refuses to run.
pub fn catalogue(config: &Config, home: &Home, platform: &Platform, deps: Option<&CatalogueDeps<'_>>) -> Catalogue {
    build(config, home, platform, deps, config.providers.iter(), None)
}

/// Builds one provider again, with the definitions that replace the stored ones.
pub fn replaced(
    config: &Config,
    home: &Home,
    platform: &Platform,
    deps: Option<&CatalogueDeps<'_>>,
    (provider, replacement): (&Provider, Replacement<'_>),
) -> Catalogue {
    let table = config.providers.get_key_value(provider);
    build(config, home, platform, deps, table.into_iter(), Some(replacement))
}

/// Calls `work` with the dependencies of a provider without secrets: to list the definitions of a server, or to check it.
pub fn with_deps<T>(
    config: &Config,
    home: &Home,
    platform: &Platform,
    (name, table): (&Provider, &ProviderTable),
    work: impl FnOnce(&ProviderDeps<'_>) -> T,
) -> T {
    let callback_url = callback_url(config);
    let common = common(config, home, platform, None, &callback_url, None);
    work(&ProviderDeps::new(common, name, table.configured.as_ref()))
}

/// Creates the directories that the enabled providers need.
///
/// # Errors
/// The error of the system.
pub fn create_directories(config: &Config, home: &Home) -> std::io::Result<()> {
    let groups: Vec<&Group> = config.groups.keys().collect();
    let mut enabled = config.providers.values().filter(|table| table.enabled);
    enabled.try_for_each(|table| table.configured.create_directories(home, &groups))
}

fn build<'c>(
    config: &Config,
    home: &Home,
    platform: &Platform,
    deps: Option<&CatalogueDeps<'_>>,
    tables: impl Iterator<Item = (&'c Provider, &'c ProviderTable)>,
    replacement: Option<Replacement<'_>>,
) -> Catalogue {
    // A client belongs to the runtime on which it is made.
    let _guard = platform.runtime.enter();
    let callback_url = callback_url(config);
    let common = common(config, home, platform, deps, &callback_url, replacement);
    let mut catalogue = Catalogue::default();
    for (name, table) in tables {
        for (name, listed) in listed(name, table, &common) {
            catalogue.insert(name, listed);
        }
    }
    catalogue
}

fn common<'a>(
    config: &'a Config,
    home: &'a Home,
    platform: &'a Platform,
    deps: Option<&'a CatalogueDeps<'_>>,
    callback_url: &'a str,
    replacement: Option<Replacement<'a>>,
) -> CommonDeps<'a> {
    CommonDeps {
        home,
        platform,
        groups: config.groups.keys().collect(),
        approval_expiry: config.approval_expiry(),
        callback_url,
        secrets: deps.map(|deps| deps.secrets),
        runtime: deps.and_then(|deps| deps.runtime.as_ref()),
        replacement,
    }
}

/// The URL of the page to which a sign-in returns.
fn callback_url(config: &Config) -> String {
    // A port that is only known once it is taken is registered nowhere.
    let address = config.identity.callback.map(Loopback::address).filter(|address| address.port() != 0);
    address.map_or_else(|| "http://localhost".to_owned(), callback::url)
}

/// Builds the providers of one table: one for most kinds, one for each capability of a bridge.
fn listed(name: &Provider, table: &ProviderTable, common: &CommonDeps<'_>) -> Vec<(Provider, Listed)> {
    let deps = ProviderDeps::new(common.clone(), name, table.configured.as_ref());
    let missing = table.configured.secrets().into_keys().find_map(|secret| {
        let fault = common.secrets?.fault(&secret_name(name, secret))?;
        Some(format!("its secret `{secret}` is {fault}"))
    });
    let (fault, built) = match table.configured.build(name, &deps) {
        Ok(built) => (built.iter().find_map(|built| built.fault.clone()), built),
        Err(fault) => (Some(fault), vec![BuiltProvider::new(name, Vec::new())]),
    };
    let off = (!table.enabled).then(|| "switched off by the configuration".to_owned());
    let outage = match (&off, &missing) {
        (Some(_), _) => Outage::SwitchedOff,
        (None, Some(_)) => Outage::NoSecret,
        (None, None) => Outage::Unusable,
    };
    let state = off.or(missing).or(fault).map_or(Ok(()), Err);
    if let Err(reason) = &state {
        tracing::warn!(provider = %name, %reason, "the provider takes no calls");
    }
    let listed = |built: BuiltProvider| {
        let name = built.name.clone();
        let listed = Listed { state: state.clone(), outage, timeout: table.timeout(), ..Listed::of(table, built) };
        (name, listed)
    };
    built.into_iter().map(listed).collect()
}
