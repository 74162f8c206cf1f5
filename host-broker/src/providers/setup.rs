//! From configuration and secrets to the catalogue and the filter.
//!
//! A provider that cannot be set up is listed with the reason and takes no calls; it does not keep the others
//! from working.

use crate::clean::{Filters, Schemas};
use crate::config::Config;
use crate::config::inspection::CLASSIFIER_TOKEN;
use crate::config::provider::{Kind, ProviderTable, Reach};
use crate::config::web::Loopback;
use crate::host::{Effects, StartError};
use crate::http::callback;
use crate::inspection::Inspector;
use crate::providers::accepted::Accepted;
use crate::providers::bridge::definitions::{self, Registered};
use crate::providers::bridge::{self, Bridge, Vouching};
use crate::providers::child::{self, Child};
use crate::providers::files::Spot;
use crate::providers::linking::address::Hosts;
use crate::providers::linking::{self, Desk};
use crate::providers::mcp::accounts::Accounts;
use crate::providers::mcp::upstream::{self, Pinned, Upstream};
use crate::providers::oauth::{OAuth, Renewing};
use crate::providers::registry::{Catalogue, Listed};
use crate::providers::{cloud_logs, files, github, mcp, mock};
use filter::scrub::Scrubber;
use filter::values::Formats;
use kernel::contract::Operation;
use model::LedgerKey;
use platform::commands::{Command, Commands, Ending};
use platform::home::Home;
use policy::facts::Outage;
use secrets::identity::issuers;
use secrets::identity::issuers::OwnKey;
use secrets::keys;
use secrets::search::mark::Stamp;
use secrets::source::{CommandOutput, Output, SecretSource};
use secrets::vault;
use secrets::vault::Vault;
use secrets::{Secret, SecretFault, Secrets};
use shared::{Group, Provider};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::state::linking as stored;
use tokio::time::Instant;

/// How long a program may take to print a secret: somebody may have to unlock a vault.
const SECRET_PATIENCE: Duration = Duration::from_secs(30);

/// Loads the secrets of every provider that takes calls, under the names `<provider>.<secret>`, and of the channels.
pub fn secrets(config: &Config, effects: &Effects) -> Secrets {
    load(config, effects, |_| true)
}

/// The same, but for secrets that a program would have to be run for.
pub fn secrets_at_hand(config: &Config, effects: &Effects) -> Secrets {
    load(config, effects, |source| !source.runs_a_program())
}

fn load(config: &Config, effects: &Effects, wanted: impl Fn(&SecretSource) -> bool) -> Secrets {
    let mut sources = BTreeMap::new();
    for (provider, table) in config.providers.iter().filter(|(_, table)| table.enabled) {
        for (name, source) in table.kind.secrets().into_iter().filter(|(_, source)| wanted(source)) {
            sources.insert(secret_name(provider, name), source.clone());
        }
    }
    if let Some(source) =
        config.inspection.classifier.as_ref().and_then(|classifier| classifier.token.as_ref()).filter(|s| wanted(s))
    {
        sources.insert(CLASSIFIER_TOKEN.to_owned(), source.clone());
    }
    sources.extend(sources_of_issuers(config, &wanted));
    for table in &config.channels {
        for (key, source) in table.secrets().into_iter().filter(|(_, source)| wanted(source)) {
            sources.insert(table.secret_name(key), source.clone());
        }
    }
    let helper = Helper(Arc::clone(&effects.commands));
    effects.runtime.block_on(Secrets::load(&sources, &effects.environment, &helper))
}

/// Those that context tokens are verified with.
pub fn secrets_of_issuers(config: &Config, effects: &Effects) -> Secrets {
    let helper = Helper(Arc::clone(&effects.commands));
    let sources = sources_of_issuers(config, &|_| true);
    effects.runtime.block_on(Secrets::load(&sources, &effects.environment, &helper))
}

/// The vault, with the master keys of the configuration, or with those of the home.
///
/// # Errors
/// [`StartError::Vault`], [`StartError::Key`]: a key that is not there, or is none.
pub fn vault(config: &Config, home: &Home, effects: &Effects) -> Result<Arc<Vault>, StartError> {
    vault_with(config, home, effects, true)
}

/// As [`vault()`], but makes no key in the home. It fails if none could be made.
///
/// # Errors
/// As [`vault()`].
pub fn checked_vault(config: &Config, home: &Home, effects: &Effects) -> Result<Arc<Vault>, StartError> {
    vault_with(config, home, effects, false)
}

fn vault_with(config: &Config, home: &Home, effects: &Effects, makes_key: bool) -> Result<Arc<Vault>, StartError> {
    let helper = Helper(Arc::clone(&effects.commands));
    let key = |source: &SecretSource| {
        let key = effects.runtime.block_on(Secrets::key(source, &effects.environment, &helper));
        key.map_err(|fault| StartError::Vault(format!("its key is {fault}")))
    };
    let (current, previous) = match &config.vault.key {
        Some(source) => (key(source)?, config.vault.previous.iter().map(key).collect::<Result<Vec<_>, _>>()?),
        None if !keys::has_vault(home) && has_records(home) => {
            return Err(StartError::Vault(format!(
                "{} is gone, and there are records under it; restore it from a backup, or forget what it held with: \
                 host-broker vault renew --forget",
                home.keys().join("vault.key").display()
            )));
        }
        None if !makes_key && !keys::has_vault(home) => (keys::unstored_vault(home, effects.ids.as_ref())?, Vec::new()),
        None => keys::vault(home, effects.ids.as_ref()).map(|(key, before)| (key, before.into_iter().collect()))?,
    };
    let vault = Vault::new(&current, &previous, Arc::clone(&effects.ids));
    vault.map(Arc::new).ok_or_else(|| StartError::Vault("its key is none".to_owned()))
}

/// Whether anything is sealed in this home. A home without a ledger, or with one from before there was a vault, has nothing.
fn has_records(home: &Home) -> bool {
    let used = store::reader(home.path()).and_then(|view| stored::ciphertexts(&view));
    used.is_ok_and(|used| !vault::key_names(&used).is_empty())
}

fn sources_of_issuers(config: &Config, wanted: &impl Fn(&SecretSource) -> bool) -> BTreeMap<String, SecretSource> {
    let issuers = config.identity.issuers.iter();
    let secrets = issuers.filter_map(|(name, table)| Some((issuers::secret_name(name), table.secret.clone()?)));
    secrets.filter(|(_, source)| wanted(source)).collect()
}

/// One secret of a provider, as it can be seen without running anything.
pub struct Sight<'a> {
    /// Its name among the provider's.
    pub secret: &'a str,
    /// Where it comes from.
    pub source: &'a SecretSource,
    /// Why it cannot be used; `None` also where that takes a program to know.
    pub fault: Option<&'a SecretFault>,
}

/// The secrets of a provider, given [`secrets_at_hand`].
pub fn sights<'a>(provider: &Provider, table: &'a ProviderTable, at_hand: &'a Secrets) -> Vec<Sight<'a>> {
    let sight = |(secret, source)| Sight { secret, source, fault: at_hand.fault(&secret_name(provider, secret)) };
    table.kind.secrets().into_iter().map(sight).collect()
}

fn secret_name(provider: &Provider, name: &str) -> String {
    format!("{provider}.{name}")
}

/// What providers are given beside their settings.
pub struct Supplies<'a> {
    /// Every secret there is.
    pub secrets: &'a Secrets,
    /// What they are given to run; `None` where nothing will be run.
    pub running: Option<Running>,
}

/// What providers are given to run.
#[derive(Clone)]
pub struct Running {
    /// What cleans their complaints.
    pub scrubber: Arc<Scrubber>,
    /// The key that tokens are signed with.
    pub own: Arc<OwnKey>,
    /// What opens persons' credentials.
    pub vault: Arc<Vault>,
    /// Which of them are being renewed: once, also while a provider is exchanged.
    pub renewing: Arc<Renewing>,
}

/// Sets every configured provider up. Without `supplies` nothing is said about secrets: a provider that needs one is
/// listed as if it had it, and refuses to run.
pub fn catalogue(config: &Config, home: &Home, effects: &Effects, supplies: Option<&Supplies<'_>>) -> Catalogue {
    // Clients that are made here belong to the runtime on which they will be used.
    let _guard = effects.runtime.enter();
    let workshop = Workshop { config, home, effects, supplies, anew: None };
    workshop.catalogue(config.providers.iter())
}

/// A provider that is set up once more, with this as what is accepted of it.
pub struct Anew<'a> {
    /// The provider, as the configuration names it.
    pub provider: &'a Provider,
    /// What counts of what it says.
    pub accepted: &'a Accepted,
    /// The server behind it, which stays connected.
    pub upstream: Option<&'a Arc<Upstream>>,
}

/// Sets up what one table of the configuration makes.
pub fn provider(
    config: &Config,
    home: &Home,
    effects: &Effects,
    supplies: Option<&Supplies<'_>>,
    anew: &Anew<'_>,
) -> Catalogue {
    let _guard = effects.runtime.enter();
    let name = anew.provider;
    let workshop = Workshop { config, home, effects, supplies, anew: Some(anew) };
    workshop.catalogue(config.providers.get_key_value(name).into_iter())
}

/// Everything that a provider can be made of.
struct Workshop<'a> {
    config: &'a Config,
    home: &'a Home,
    effects: &'a Effects,
    supplies: Option<&'a Supplies<'a>>,
    anew: Option<&'a Anew<'a>>,
}

/// A provider that a table makes: its name, what it is, its actions, and why they cannot be performed.
struct Made {
    name: Provider,
    description: Option<String>,
    operations: Vec<Arc<dyn Operation>>,
    fault: Option<String>,
    upstream: Option<Arc<Upstream>>,
    pinned: Pinned,
    left_out: Vec<String>,
}

/// Persons' accounts at a server, and what links them.
type Linked = (Arc<Accounts>, Vec<Arc<dyn Operation>>);

impl Made {
    fn one(name: &Provider, operations: Vec<Arc<dyn Operation>>) -> Self {
        Self {
            name: name.clone(),
            description: None,
            operations,
            fault: None,
            upstream: None,
            pinned: Pinned::new(),
            left_out: Vec::new(),
        }
    }
}

impl Workshop<'_> {
    fn catalogue<'c>(&self, tables: impl Iterator<Item = (&'c Provider, &'c ProviderTable)>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for (name, table) in tables {
            for (name, listed) in self.listed(name, table) {
                catalogue.insert(name, listed);
            }
        }
        catalogue
    }

    /// The providers that a table makes: one, but for bridges, which have one for each capability.
    fn listed(&self, name: &Provider, table: &ProviderTable) -> Vec<(Provider, Listed)> {
        let missing = table.kind.secrets().into_keys().find_map(|secret| {
            let name = secret_name(name, secret);
            let fault = self.supplies?.secrets.fault(&name)?;
            Some(format!("its secret `{secret}` is {fault}"))
        });
        let nothing = || vec![Made::one(name, Vec::new())];
        let (fault, made) = match self.make(name, table) {
            Ok(made) => (made.iter().find_map(|made| made.fault.clone()), made),
            Err(fault) => (Some(fault), nothing()),
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
        let listed = |made: Made| {
            let listed = Listed {
                state: state.clone(),
                outage,
                patience: table.patience(),
                description: made.description,
                upstream: made.upstream,
                pinned: made.pinned,
                left_out: made.left_out,
                ..Listed::ready(table.kind.word(), made.operations)
            };
            (made.name, listed)
        };
        made.into_iter().map(listed).collect()
    }

    fn make(&self, name: &Provider, table: &ProviderTable) -> Result<Vec<Made>, String> {
        let Self { config, home, effects, supplies, anew: _ } = self;
        let operations = match &table.kind {
            Kind::Mock(settings) => {
                mock::operations(name, &home.path().join(&settings.script)).map_err(|error| error.to_string())
            }
            Kind::Github(settings, _) => {
                let token = supplies.and_then(|supplies| supplies.secrets.get(&secret_name(name, "token")));
                github::operations(name, settings.clone(), token, Arc::clone(&effects.clock))
                    .map_err(|error| error.to_string())
            }
            Kind::CloudLogs(settings) => {
                cloud_logs::operations(name, settings.clone(), &effects.commands, &effects.clock)
                    .map_err(|error| error.to_string())
            }
            Kind::Files(settings) => {
                let expiry = Duration::from_secs(config.approvals.expires_s);
                files::operations(name, settings, expiry, workspaces(settings, config, home)?, &effects.ids)
            }
            Kind::Bridge(settings, child) => return self.capabilities(name, settings, child),
            Kind::Mcp(settings, reach) => return Ok(vec![self.server(name, settings, reach)]),
        };
        Ok(vec![Made::one(name, operations?)])
    }

    /// The capabilities of a bridge, as they were accepted.
    fn capabilities(
        &self,
        name: &Provider,
        settings: &bridge::Settings,
        child: &child::Settings,
    ) -> Result<Vec<Made>, String> {
        let bridge = Arc::new(self.bridge(name, settings, child));
        let accepted = self.accepted(name)?;
        let faults = |faults: Vec<String>| faults.join("; ");
        let definitions = definitions::read(accepted.said().clone())?;
        let registered = definitions::register(name, &definitions, accepted.flagged()).map_err(faults)?;
        let capability = |capability: &Registered| {
            Ok(Made {
                description: Some(capability.description.clone()),
                operations: self.of_capability(&bridge, capability, settings)?,
                // What it can do is known, so what is configured about it keeps its meaning.
                fault: bridge.child.as_ref().err().cloned().or_else(|| settings.unknown(&registered)),
                ..Made::one(&capability.provider, Vec::new())
            })
        };
        registered.iter().map(capability).collect()
    }

    /// What a capability can do, and what links its accounts, where there is a page on which a person can sign in.
    fn of_capability(
        &self,
        bridge: &Arc<Bridge>,
        capability: &Registered,
        settings: &bridge::Settings,
    ) -> Result<Vec<Arc<dyn Operation>>, String> {
        let mut operations = bridge::operations(bridge, capability, &settings.exposes)?;
        let hosts = Hosts::new(&settings.auth_hosts)?;
        if hosts.is_empty() || !capability.operations.iter().any(|operation| operation.requires_auth) {
            return Ok(operations);
        }
        let own = capability.operations.iter().find(|operation| shared::auth::is_linking(operation.action.as_str()));
        if let Some(own) = own {
            return Err(format!("auth_hosts: {} has an operation `{}` of its own", capability.provider, own.action));
        }
        operations.extend(linking::operations(&Arc::new(Desk {
            capability: capability.provider.clone(),
            linker: Arc::<Bridge>::clone(bridge),
            hosts,
            chat_types: capability.chat_types.clone(),
            deadline: bridge.timeout,
            vault: bridge.vault.clone(),
            ids: Arc::clone(&self.effects.ids),
            clock: Arc::clone(&self.effects.clock),
        }))?);
        Ok(operations)
    }

    fn accepted(&self, name: &Provider) -> Result<Accepted, String> {
        if let Some(anew) = self.anew {
            return Ok(anew.accepted.clone());
        }
        let accepted = Accepted::load(&self.home.accepted(name)).map_err(|error| error.to_string())?;
        accepted.ok_or_else(|| {
            format!("nobody has accepted what it says it can do; look at it with: host-broker provider accept {name}")
        })
    }

    /// A server with those of its accepted tools that are offered. Where there are none it can still be looked at.
    fn server(&self, name: &Provider, settings: &mcp::settings::Settings, reach: &Reach) -> Made {
        let known = self.anew.and_then(|anew| anew.upstream).map(Arc::clone);
        let upstream = known.unwrap_or_else(|| Arc::new(self.upstream(name, reach)));
        let without_tools = |fault| {
            let upstream = Some(Arc::clone(&upstream));
            Made { fault: Some(fault), upstream, ..Made::one(name, Vec::new()) }
        };
        let known = self.accepted(name).and_then(|accepted| Ok((mcp::tools::read(accepted.said())?, accepted)));
        let (said, accepted) = match known {
            Ok(known) => known,
            Err(fault) => return without_tools(fault),
        };
        let wanted = settings.wanted();
        let mcp::tools::Offer { tools: offered, faults: left_out } =
            mcp::tools::offered(&said, &wanted, accepted.flagged());
        if offered.is_empty() {
            return without_tools(left_out.into_iter().next().unwrap_or_else(|| nothing_offered(name)));
        }
        for fault in &left_out {
            tracing::warn!(provider = %name, fault, "a tool is left out");
        }
        let pinned = offered.iter().map(|tool| (tool.action.clone(), tool.said.digest())).collect();
        let linked = match self.accounts_at(name, reach, &upstream, settings) {
            Ok(linked) => linked,
            Err(fault) => return without_tools(fault),
        };
        let (accounts, linking) = linked.unzip();
        match mcp::operations(&upstream, &offered, settings, accounts.as_ref()) {
            // What it can do is known, so what is configured about it keeps its meaning.
            Ok(operations) => {
                let fault = upstream.fault().cloned();
                let operations = operations.into_iter().chain(linking.into_iter().flatten()).collect();
                Made { fault, upstream: Some(Arc::clone(&upstream)), pinned, left_out, ..Made::one(name, operations) }
            }
            Err(fault) => without_tools(fault),
        }
    }

    /// Persons' accounts at a server, and what links them; `None` where the server has none.
    fn accounts_at(
        &self,
        name: &Provider,
        reach: &Reach,
        upstream: &Arc<Upstream>,
        settings: &mcp::settings::Settings,
    ) -> Result<Option<Linked>, String> {
        let Reach::Address(address) = reach else { return Ok(None) };
        let Some(oauth) = &address.oauth else { return Ok(None) };
        let Self { config, effects, .. } = self;
        let own = settings.wanted().into_keys().find(|tool| shared::auth::is_linking(tool.as_str()));
        if let Some(own) = own {
            return Err(format!("tools.{own}: what links accounts is called so; it cannot be offered"));
        }
        // A port that is only known once it is taken is registered nowhere.
        let callback = config.identity.callback.map(Loopback::address).filter(|address| address.port() != 0);
        let own = callback.map_or_else(|| "http://localhost".to_owned(), callback::url);
        let redirect = oauth.redirect_url.clone().unwrap_or_else(|| format!("{own}/{name}"));
        let vault = self.running().map(|running| Arc::clone(&running.vault));
        let client = Arc::new(OAuth {
            provider: name.clone(),
            settings: oauth.clone(),
            resource: address.url.clone(),
            redirect,
            secret: self.held(&secret_name(name, "client_secret")),
            vault: vault.clone(),
            http: Arc::clone(&effects.http),
            ids: Arc::clone(&effects.ids),
            clock: Arc::clone(&effects.clock),
            renewing: self.running().map(|running| Arc::clone(&running.renewing)).unwrap_or_default(),
        });
        let linking = linking::operations(&Arc::new(Desk {
            capability: name.clone(),
            linker: Arc::<OAuth>::clone(&client),
            hosts: oauth.hosts()?,
            chat_types: Vec::new(),
            deadline: Duration::from_secs(settings.timeout_seconds),
            vault,
            ids: Arc::clone(&effects.ids),
            clock: Arc::clone(&effects.clock),
        }))?;
        Ok(Some((Arc::new(Accounts::new(client, Arc::clone(upstream))), linking)))
    }

    fn upstream(&self, name: &Provider, reach: &Reach) -> Upstream {
        let scrubber = self.running().map(|running| &running.scrubber);
        let reach = match reach {
            Reach::Child(child) => self.child(name, child).map(|child| upstream::Reach::Child(Box::new(child))),
            Reach::Address(address) => {
                Ok(upstream::Reach::Address(address.url.clone(), self.held(&secret_name(name, "token"))))
            }
        };
        let outside = (&self.effects.commands, &self.effects.http);
        Upstream::new(name, reach, scrubber.map(Arc::clone), outside)
    }

    fn running(&self) -> Option<&Running> {
        self.supplies?.running.as_ref()
    }

    fn held(&self, secret: &str) -> Option<Arc<Secret>> {
        self.supplies.and_then(|supplies| supplies.secrets.get(secret))
    }

    fn child(&self, name: &Provider, settings: &child::Settings) -> Result<Child, String> {
        let Self { home, effects, .. } = self;
        Child::new(name.as_str(), settings, home.path(), home.state(name), &effects.environment, |secret| {
            self.held(&secret_name(name, secret))
        })
    }

    fn bridge(&self, name: &Provider, settings: &bridge::Settings, child: &child::Settings) -> Bridge {
        let Self { effects, supplies, .. } = self;
        let running = self.running();
        let held = |secret: &str| self.held(secret);
        // One process for each call.
        let child = child::Settings { limits: child.limits.of_one_run(), ..child.clone() };
        let mut child = self.child(name, &child);
        let vouching = match &settings.shares_secret_of {
            None => running.map(|running| Vouching::Own(Arc::clone(&running.own))),
            Some(issuer) => held(&issuers::secret_name(issuer)).map(|secret| Vouching::Shared(issuer.clone(), secret)),
        };
        if let (Some(issuer), None, Some(_)) = (&settings.shares_secret_of, &vouching, supplies) {
            child = Err(format!("shares_secret_of: the secret of issuer `{issuer}` is not there"));
        }
        Bridge {
            name: name.clone(),
            child,
            timeout: Duration::from_secs(settings.timeout_seconds),
            vouching,
            scrubber: running.map(|running| Arc::clone(&running.scrubber)),
            hands_back: settings.hands_back_credentials,
            vault: running.map(|running| Arc::clone(&running.vault)),
            commands: Arc::clone(&effects.commands),
            ids: Arc::clone(&effects.ids),
            clock: Arc::clone(&effects.clock),
        }
    }
}

/// A bridge of the configuration, without any secret: to ask it what it can do, and to see how it behaves.
///
/// # Errors
/// Why it cannot be started.
pub fn bare_bridge(
    config: &Config,
    home: &Home,
    effects: &Effects,
    name: &Provider,
    own: Arc<OwnKey>,
) -> Result<Option<Bridge>, String> {
    let Some(ProviderTable { kind: Kind::Bridge(settings, child), .. }) = config.providers.get(name) else {
        return Ok(None);
    };
    let mut bridge = Workshop { config, home, effects, supplies: None, anew: None }.bridge(name, settings, child);
    bridge.child = Ok(bridge.child?);
    let vouching = settings.shares_secret_of.is_none().then_some(Vouching::Own(own));
    Ok(Some(Bridge { vouching, ..bridge }))
}

fn nothing_offered(name: &Provider) -> String {
    format!("no tool of it is offered: give those that are wanted a level in [providers.{name}.tools]")
}

/// A server of the configuration, without any secret: to ask it what its tools are.
pub fn bare_upstream(config: &Config, home: &Home, effects: &Effects, name: &Provider) -> Option<Upstream> {
    let Some(ProviderTable { kind: Kind::Mcp(_, reach), .. }) = config.providers.get(name) else { return None };
    Some(Workshop { config, home, effects, supplies: None, anew: None }.upstream(name, reach))
}

/// Makes the workspaces that nobody has put elsewhere.
///
/// # Errors
/// What the system said.
pub fn furnish(config: &Config, home: &Home) -> Result<(), std::io::Error> {
    let settings = config.providers.values().filter(|table| table.enabled).find_map(|table| match &table.kind {
        Kind::Files(settings) => Some(settings),
        Kind::Mock(_) | Kind::Github(..) | Kind::CloudLogs(_) | Kind::Bridge(..) | Kind::Mcp(..) => None,
    });
    let Some(settings) = settings else { return Ok(()) };
    let unplaced = config.groups.keys().filter(|group| !settings.workspaces.contains_key(*group));
    unplaced.map(|group| home.workspace(group)).try_for_each(std::fs::create_dir_all)
}

/// Where each group's files are.
///
/// # Errors
/// What lies where a sandbox must not reach, and what to do.
fn workspaces(settings: &files::Settings, config: &Config, home: &Home) -> Result<BTreeMap<Group, Spot>, String> {
    let own = real(home.path());
    let mut spots: BTreeMap<Group, Spot> = BTreeMap::new();
    for group in config.groups.keys() {
        let workspace = match settings.workspaces.get(group) {
            Some(path) => home.path().join(path),
            None => home.workspace(group),
        };
        if workspace.components().any(|part| part == Component::ParentDir) {
            let shown = workspace.display();
            return Err(format!("workspaces.{group}: {shown} goes up with `..`; write where it is"));
        }
        let place = real(&workspace);
        // SECURITY: whoever may propose changes to the broker's own files may propose a broker of its own.
        let reaches_home =
            own.starts_with(&place) || place.starts_with(&own) && !place.starts_with(own.join("workspaces"));
        if reaches_home {
            return Err(format!(
                "workspaces.{group}: {} holds or lies in the broker's home; only workspaces/ of it may be shown to a \
                 sandbox",
                workspace.display()
            ));
        }
        let nested = |other: &PathBuf| place.starts_with(other) || other.starts_with(&place);
        if let Some((other, _)) = spots.iter().find(|(_, spot)| nested(&real(&spot.workspace))) {
            return Err(format!(
                "workspaces.{group}: {} is the workspace of group `{other}`, or lies in it; give each its own",
                workspace.display()
            ));
        }
        spots.insert(group.clone(), Spot { workspace, journal: home.journal(group) });
    }
    Ok(spots)
}

/// Where the path leads now. What does not exist yet is where its nearest existing ancestor is.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match found {
        Some((ancestor, real)) => real.join(path.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => path.to_path_buf(),
    }
}

/// Builds what looks for secrets, the broker's own and others'.
///
/// # Errors
/// [`StartError`] if it cannot be built.
pub fn scrubber(secrets: &Secrets, key: &LedgerKey, formats: Formats) -> Result<Arc<Scrubber>, StartError> {
    // Of the ledger's key, so that a mark is the same after a restart: what an action says of itself may hold one,
    // and is part of what a person agrees to.
    let fingerprints = *key.digest(b"fingerprints of marks").as_bytes();
    let scrubber = Scrubber::with(secrets, Stamp::new(fingerprints), formats);
    scrubber.map(Arc::new).map_err(|error| StartError::Filter(error.to_string()))
}

/// Builds what every result is held to.
///
/// # Errors
/// [`StartError`] if a schema that an action declares is none.
pub fn filters(
    catalogue: &Catalogue,
    scrubber: Arc<Scrubber>,
    key: &Arc<LedgerKey>,
    inspector: Inspector,
) -> Result<Filters, StartError> {
    let schemas = Arc::new(schemas(catalogue)?);
    Ok(Filters { scrubber, schemas, key: Arc::clone(key), inspector: Arc::new(inspector) })
}

/// The schemas of what every action answers.
///
/// # Errors
/// [`StartError`] if one is none.
pub fn schemas(catalogue: &Catalogue) -> Result<Schemas, StartError> {
    let mut schemas = Schemas::new();
    for (provider, listed) in catalogue.providers() {
        for (action, operation) in &listed.operations {
            let Some(schema) = &operation.declaration().output_schema else { continue };
            let validator = jsonschema::options()
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .build(schema)
                .map_err(|error| StartError::Filter(format!("{provider}.{action}: {error}")))?;
            schemas.insert((provider.clone(), action.clone()), Arc::new(validator));
        }
    }
    Ok(schemas)
}

/// Programs that print secrets.
struct Helper(Arc<dyn Commands>);

impl CommandOutput for Helper {
    fn output<'a>(&'a self, command: &'a [String]) -> Output<'a> {
        Box::pin(async move {
            let Some((program, arguments)) = command.split_first() else { return Err("it is empty".to_owned()) };
            let start = Command::new(program, Instant::now() + SECRET_PATIENCE);
            let command = arguments.iter().fold(start, Command::arg);
            let finished = self.0.run(command).await.map_err(|fault| fault.to_string())?;
            match finished.ending {
                Ending::Exited(0) => Ok(finished.stdout.into()),
                ending @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::Overflowed(_)) => {
                    Err(format!("it ended badly: {ending:?}"))
                }
            }
        })
    }
}
