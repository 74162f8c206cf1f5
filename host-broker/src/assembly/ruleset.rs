//! Builds the ruleset from the home.
//!
//! ```text
//! home ─► RulesetBuilder: configuration, secrets, profiles, rules, as they were when they were read
//!             ├─ build()   at the start
//!             └─ replace() when an operator has accepted the definitions of a provider, under a running daemon
//! ```

use crate::assembly::catalogue::{self, CatalogueDeps};
use crate::assembly::filters;
use crate::daemon::EventSender;
use crate::fleet_policy;
use crate::host::StartError;
use crate::host::reload::OperatorFiles;
use config::profiles::Written;
use config::published::PublishedPolicy;
use config::{Config, ConfigError, Policy};
use engine::catalogue::Catalogue;
use engine::clean::{Filters, Schemas};
use engine::definitions::{DefinitionsChanged, Proposed};
use engine::event::Event;
use engine::inspection::Inspector;
use engine::ruleset::Ruleset;
use filter::{declared, holds_own};
use model::LedgerKey;
use platform::Platform;
use platform::home::Home;
use provider::definitions::ListedDefinitions;
use provider::kind::{Replacement, RuntimeDeps};
use provider::pinned_definitions::PinnedDefinitions;
use secrets::Secrets;
use shared::Provider;
use shared::digest::Digest;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The parts of a ruleset, as they were when they were read.
pub struct RulesetBuilder {
    home: Home,
    config: Arc<Config>,
    platform: Platform,
    secrets: Secrets,
    runtime: RuntimeDeps,
    // Another publication of the policy replaces them.
    files: Mutex<Arc<OperatorFiles>>,
    key: Arc<LedgerKey>,
    // Of the configuration's text.
    text: Digest,
}

impl RulesetBuilder {
    /// Creates the builder for this home, with its configuration, the files of that, and its secrets.
    pub fn new(
        (home, config): (&Home, &Arc<Config>),
        files: &Arc<OperatorFiles>,
        platform: &Platform,
        secrets: Secrets,
        runtime: RuntimeDeps,
        key: &Arc<LedgerKey>,
    ) -> Self {
        Self {
            home: home.clone(),
            config: Arc::clone(config),
            platform: platform.clone(),
            secrets,
            runtime,
            files: Mutex::new(Arc::clone(files)),
            key: Arc::clone(key),
            text: Config::digest(&files.config),
        }
    }

    /// Returns the operators' files, as they were when they were read.
    pub fn files(&self) -> Arc<OperatorFiles> {
        Arc::clone(&self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Builds the ruleset, with the accepted definitions of each provider.
    ///
    /// # Errors
    /// [`StartError`], with the fault and its repair.
    pub fn build(&self) -> Result<Ruleset, StartError> {
        self.build_with(&self.files().written)
    }

    fn build_with(&self, written: &Written) -> Result<Ruleset, StartError> {
        let catalogue = catalogue::catalogue(&self.config, &self.home, &self.platform, Some(&self.deps()));
        let schemas = filters::schemas(&catalogue)?;
        let catalogue = self.cleaned(catalogue);
        let policy = written.policy(&self.home, &self.config, &catalogue.named())?;
        let inspector = Inspector::new(&self.config.inspection, policy.profiles.clone(), &self.secrets, &self.platform);
        Ok(self.ruleset(catalogue, policy, schemas, Arc::new(inspector)))
    }

    /// Builds the ruleset again, with other definitions of one provider. Everything else is as it was when it was read, also if
    /// it has been changed since.
    ///
    /// # Errors
    /// [`StartError`]: why a daemon with them would not start.
    pub fn replace(
        &self,
        present: &Ruleset,
        provider: &Provider,
        accepted: &PinnedDefinitions,
    ) -> Result<Ruleset, StartError> {
        let deps = Some(&self.deps());
        // Running calls there continue, and a server with state keeps it.
        let source = present.catalogue.provider(provider).and_then(|listed| listed.definitions.as_ref());
        let replacement = (provider, Replacement { accepted, source });
        let fresh = catalogue::replaced(&self.config, &self.home, &self.platform, deps, replacement);
        let mut schemas: Schemas = filters::schemas(&fresh)?;
        let is_its = |listed: &Provider| self.config.table_of(listed).is_some_and(|(name, _)| name == provider);
        let catalogue = present.catalogue.with_replaced(is_its, self.cleaned(fresh));
        let kept = present.filters.schemas.iter().filter(|((of, _), _)| !is_its(of));
        schemas.extend(kept.map(|(of, schema)| (of.clone(), Arc::clone(schema))));
        let policy = self.files().written.policy(&self.home, &self.config, &catalogue.named())?;
        Ok(self.ruleset(catalogue, policy, schemas, Arc::clone(&present.filters.inspector)))
    }

    /// Builds the ruleset with a publication of the policy. `present` is the ruleset that it replaces.
    ///
    /// # Errors
    /// [`StartError`]: why a daemon with it would not start. Then the files are as before.
    pub fn with_policy(&self, present: Option<&Ruleset>, policy: &PublishedPolicy) -> Result<Ruleset, StartError> {
        self.with_policy_then(present, policy, || Ok(()))
    }

    /// Does the same, and keeps the publication in the home.
    ///
    /// # Errors
    /// As [`Self::with_policy`]; the home is as before.
    pub fn keeping_policy(&self, present: Option<&Ruleset>, policy: &PublishedPolicy) -> Result<Ruleset, StartError> {
        self.with_policy_then(present, policy, || fleet_policy::keep(&self.home, policy))
    }

    /// Builds the ruleset, runs the work, and only then replaces the files.
    fn with_policy_then(
        &self,
        present: Option<&Ruleset>,
        policy: &PublishedPolicy,
        work: impl FnOnce() -> Result<(), ConfigError>,
    ) -> Result<Ruleset, StartError> {
        let written = Written::of(policy, &self.config)?;
        let ruleset = match present {
            Some(present) => self.with_present_catalogue(present, &written),
            None => self.build_with(&written),
        }?;
        work()?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        *files = Arc::new(OperatorFiles { config: files.config.clone(), written });
        Ok(ruleset)
    }

    fn with_present_catalogue(&self, present: &Ruleset, written: &Written) -> Result<Ruleset, StartError> {
        let catalogue = Catalogue::clone(&present.catalogue);
        let policy = written.policy(&self.home, &self.config, &catalogue.named())?;
        let inspector = present.filters.inspector.with_profiles(policy.profiles.clone());
        Ok(self.ruleset(catalogue, policy, Schemas::clone(&present.filters.schemas), Arc::new(inspector)))
    }

    /// Returns the path of the accepted definitions of a provider.
    ///
    /// # Errors
    /// There is no such provider.
    pub fn accepted(&self, provider: &Provider) -> Result<PathBuf, String> {
        let known = self.config.providers.contains_key(provider);
        known.then(|| self.home.accepted(provider)).ok_or_else(|| {
            format!("the daemon knows no provider {provider}; after a change of broker.toml: host-broker reload")
        })
    }

    /// Returns the accepted definitions of a provider; `None` if there are none.
    ///
    /// # Errors
    /// It cannot be read, or there is no such provider.
    pub fn accepted_of(&self, provider: &Provider) -> Result<Option<PinnedDefinitions>, String> {
        PinnedDefinitions::load(&self.accepted(provider)?).map_err(|error| error.to_string())
    }

    /// Checks whether the operators' files have changed since they were read.
    pub fn is_behind(&self) -> bool {
        let text = std::fs::read_to_string(self.home.config()).unwrap_or_default();
        // The daemon itself replaces a published policy.
        let is_published = self.config.policy_from().is_some();
        Config::digest(&text) != self.text
            || !is_published
                && !Written::read(&self.home, &self.config).is_ok_and(|written| written == self.files().written)
    }

    /// Applies the ruleset to the servers, and tells the loop when one says something else of its tools, or has
    /// renewed a credential late.
    pub fn watch(self: &Arc<Self>, ruleset: &Ruleset, reports: &EventSender) {
        let late = reports.clone();
        let tell = move |renewed| late.happened(Event::Renewed(Box::new(renewed)));
        self.runtime.renewing.on_late(Box::new(tell));
        for (_, listed) in ruleset.catalogue.providers() {
            let Some(source) = &listed.definitions else { continue };
            source.accept(listed.pinned.clone());
            let (ruleset_builder, reports, told) = (Arc::clone(self), reports.clone(), Mutex::new(String::new()));
            source.on_change(Box::new(move |changed, listed| {
                let proposed = ruleset_builder.proposed(&changed.provider, listed).unwrap_or_else(|why| {
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    // It is looked at again and again.
                    if *told != why {
                        tracing::warn!(provider = %changed.provider, why, "no approval request is made about the server's definitions");
                        *told = why;
                    }
                    None
                });
                reports.happened(Event::DefinitionsChanged(Box::new(DefinitionsChanged { changed, proposed })));
            }));
        }
    }

    /// Returns the definition change for an approval request, if a server's definitions differ from the accepted ones.
    fn proposed(&self, provider: &Provider, listed: &dyn ListedDefinitions) -> Result<Option<Proposed>, String> {
        let Some(before) = self.accepted_of(provider)? else { return Ok(None) };
        // SECURITY: the server has the broker's secrets, and its definitions are stored and shown.
        if holds_own(listed.text(), &self.runtime.scrubber) {
            return Err("it holds a secret of the broker's own".to_owned());
        }
        Proposed::new(provider, &before, listed).map(Some)
    }

    fn deps(&self) -> CatalogueDeps<'_> {
        CatalogueDeps { secrets: &self.secrets, runtime: Some(self.runtime.clone()) }
    }

    /// Returns the catalogue as an agent may see it.
    fn cleaned(&self, mut catalogue: Catalogue) -> Catalogue {
        catalogue.reword(|declaration| declared::cleaned(declaration, &self.runtime.scrubber));
        catalogue.redescribe(|text| declared::description(text, &self.runtime.scrubber));
        catalogue
    }

    fn ruleset(&self, catalogue: Catalogue, policy: Policy, schemas: Schemas, inspector: Arc<Inspector>) -> Ruleset {
        let (scrubber, key) = (Arc::clone(&self.runtime.scrubber), Arc::clone(&self.key));
        let version = self.version(&catalogue, &policy);
        let vault = Some(Arc::clone(&self.runtime.vault));
        let filters = Arc::new(Filters { scrubber, schemas: Arc::new(schemas), key, inspector, vault });
        Ruleset { catalogue: Arc::new(catalogue), policy, filters, version }
    }

    /// Returns twelve digits of the digest over the configuration's text, the catalogue, the profiles and the rules.
    fn version(&self, catalogue: &Catalogue, policy: &Policy) -> String {
        let (profiles, rules) = (policy.profiles.version(), policy.rules.version());
        let all = format!("{}\n{}\n{profiles}\n{rules}", self.text, catalogue.version());
        Config::digest(&all).hex().chars().take(12).collect()
    }
}
