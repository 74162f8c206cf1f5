//! The policy that one host of the fleet publishes and others use.
//!
//! ```text
//! a: `fleet publish` ─► checked, signed ─► command ─► row `published` ─► database
//! b: database ─► verified, checked ─► publication.json, new ruleset ─► row `noted` ─► in force
//! ```
//!
//! The database carries the policy and proves nothing. Each transaction with an intent checks that the publication of its
//! decision is in force. So a host that has not received the last one, or cannot use it, executes no call.

use crate::assembly::fleet::FleetDatabase;
use crate::daemon::{EventSender, Message, RulesetReload};
use crate::fleet_commands::signed::{DocumentKind, sign, verify};
use crate::host::{LoadedHome, StartError};
use config::published::{BYTES_MAX, PublishedPolicy};
use config::store::OtherHost;
use config::{Config, ConfigError};
use engine::commands::PolicySigner;
use model::errors::chain;
use model::{HostName, Publication, Random};
use platform::home::Home;
use secrets::keys;
use serde::Serialize;
use serde_json::Value;
use std::time::{Duration, Instant};
use store::fleet::FleetError;
use store::fleet::commands::{Commands, Heard};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

/// The most values and keys of a signed policy.
const NODES_MAX: usize = 100_000;
/// The most bytes of a signed policy: each byte of its files has at most seven there.
const SIGNED_MAX: usize = 7 * BYTES_MAX + 64 * 1024;
/// The interval at which the publication is read if no notification comes.
const POLL: Duration = Duration::from_secs(1);
/// The time after which a publication that cannot be used is tried again: the reason may have passed.
const TRIED_AGAIN: Duration = Duration::from_secs(60);
/// The time without a read after which the publications count as unreadable.
const UNREAD: Duration = Duration::from_secs(10);
/// The pause after the database could not be read or written.
const PAUSE: Duration = Duration::from_secs(1);

/// The publication that a daemon uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsedPolicy {
    /// The publication.
    #[serde(flatten)]
    pub publication: Publication,
    /// The reason why it is not the last one, why the last one cannot be used, or why it cannot be read.
    pub fault: Option<String>,
    /// Whether another one is known to be in force. Then no call is executed.
    pub is_superseded: bool,
}

impl UsedPolicy {
    fn of(publication: Publication) -> Self {
        Self { publication, fault: None, is_superseded: false }
    }

    /// Notes a fault. Returns whether it is a new one.
    fn note(&mut self, fault: String, is_superseded: bool) -> bool {
        let before = (self.fault.replace(fault), std::mem::replace(&mut self.is_superseded, is_superseded));
        before != (self.fault.clone(), is_superseded)
    }
}

/// Signs policies with the key of this host.
pub(crate) struct Signature(pub(crate) Home);

impl PolicySigner for Signature {
    fn sign(&self, policy: &PublishedPolicy) -> Result<String, String> {
        // A new key would stop the hosts that know the former one.
        let key = keys::fleet_if_any(&self.0).map_err(|error| chain(&error))?;
        let none = "this host has no key; make it with the command `fleet key`, and add it to broker.toml of each host";
        sign(key.ok_or(none)?.signing(), DocumentKind::Policy, policy).map_err(|error| error.to_string())
    }
}

/// Verifies and returns the policy of a document that the database has as this publication.
fn verified(key: &[u8; 32], (host, number): (&HostName, i64), document: &str) -> Result<PublishedPolicy, String> {
    let policy: PublishedPolicy =
        verify(key, (DocumentKind::Policy, SIGNED_MAX, NODES_MAX), document).map_err(|fault| {
            format!("{fault}; compare the key in [store.hosts.{host}] with the one of `fleet key` there")
        })?;
    if (&policy.host, policy.number) != (host, number) {
        return Err(format!("it was signed as {}", policy.publication()));
    }
    policy.check_names().map_err(|error| error.to_string())?;
    Ok(policy)
}

/// Returns the public key of the host whose policy this one uses.
fn key_of(from: &HostName, config: &Config, home: &Home, ids: &dyn Random) -> Result<[u8; 32], StartError> {
    let store = config.store.as_ref();
    if store.is_some_and(|store| store.host == *from) {
        return Ok(keys::fleet(home, ids)?.signing().public());
    }
    let key = store.and_then(|store| store.hosts.get(from)).and_then(OtherHost::public_key);
    key.ok_or_else(|| StartError::Store(format!("store.hosts.{from}.key is not a public key")))
}

/// Returns the last publication of the host whose policy this one uses.
///
/// # Errors
/// [`StartError`].
pub(crate) fn receive(
    (home, config): (&Home, &Config),
    from: &HostName,
    fleet: &FleetDatabase,
    ids: &dyn Random,
) -> Result<PublishedPolicy, StartError> {
    let key = key_of(from, config, home, ids)?;
    let unusable = |fault: String| StartError::Policy { from: from.clone(), fault };
    let (number, document) = fleet.publication(from)?.ok_or_else(|| {
        unusable("the host has published none; publish one there with the command `fleet publish`".to_owned())
    })?;
    let policy = verified(&key, (from, number), &document).map_err(unusable)?;
    if let Ok(Some(kept)) = config::published::of(home, config) {
        is_later(&kept.publication(), number).map_err(unusable)?;
    }
    Ok(policy)
}

/// Checks that a publication is not earlier than the one that this host has used.
fn is_later(used: &Publication, number: i64) -> Result<(), String> {
    if number >= used.number {
        return Ok(());
    }
    Err(format!(
        "this host has used {used} already, so the database is older; publish the policy again on the host {} until its \
         number is higher",
        used.host
    ))
}

/// Keeps a policy in the home.
///
/// # Errors
/// [`ConfigError::Write`]; the home is as before.
pub(crate) fn keep(home: &Home, policy: &PublishedPolicy) -> Result<(), ConfigError> {
    let path = home.publication();
    let failed = |source| ConfigError::Write { path: path.clone(), source };
    let text = serde_json::to_vec_pretty(policy).map_err(|error| failed(error.into()))?;
    platform::home::replace(&path, &text).map_err(failed)
}

/// The task of a daemon that uses the policy of another host.
pub(crate) struct PolicyFollower {
    commands: Commands,
    key: [u8; 32],
    used: watch::Sender<UsedPolicy>,
}

impl PolicyFollower {
    /// Makes the task; `None` if the home uses its own policy.
    ///
    /// # Errors
    /// [`StartError`]: a key cannot be used.
    pub(crate) fn new(loaded: &LoadedHome, ids: &dyn Random) -> Result<Option<Self>, StartError> {
        let publication = loaded.ruleset.policy.publication.clone();
        let Some((publication, fleet)) = publication.zip(loaded.fleet.as_ref()) else { return Ok(None) };
        let key = key_of(&publication.host, &loaded.config, &loaded.home, ids)?;
        let used = watch::channel(UsedPolicy::of(publication)).0;
        Ok(Some(Self { commands: fleet.commands(), key, used }))
    }

    /// Returns the publication that the daemon uses, with its changes.
    pub(crate) fn used(&self) -> watch::Receiver<UsedPolicy> {
        self.used.subscribe()
    }

    /// Starts the task.
    pub(crate) fn start(self, runtime: &Handle, reports: EventSender) -> AbortHandle {
        runtime.spawn(async move { self.follow(&reports).await }).abort_handle()
    }

    async fn follow(&self, reports: &EventSender) {
        let mut known = self.used.borrow().publication.clone();
        let (mut shown, mut tried, mut read) = (None, Instant::now(), Instant::now());
        loop {
            // The first one is that of the start.
            let used = self.used.borrow().clone();
            // Each time, because the loop forgets it when it opens its copy again.
            reports.send(Message::Superseded(used.is_superseded));
            if shown.as_ref() != Some(&used) {
                let fault = used.fault.as_deref().unwrap_or_default();
                shown = self.commands.show_publication(&used.publication, fault).await.is_ok().then_some(used);
            }
            match self.commands.publication(&known, POLL).await {
                Ok(Heard::Other { number, digest, document }) => {
                    known = Publication { number, digest, ..known };
                    tried = Instant::now();
                    let done = self.take(&known, &document, reports).await;
                    self.note(known.clone(), done);
                }
                Ok(Heard::Nothing) => {
                    known = self.used.borrow().publication.clone();
                    let fault =
                        format!("the host {} has no publication in the database; publish the policy there", known.host);
                    self.used.send_if_modified(|used| used.note(fault, true));
                }
                Ok(Heard::Same) if known == self.used.borrow().publication => {
                    let used = UsedPolicy::of(known.clone());
                    self.used.send_if_modified(|before| std::mem::replace(before, used.clone()) != used);
                }
                // It could not be used.
                Ok(Heard::Same) if tried.elapsed() > TRIED_AGAIN => known = self.used.borrow().publication.clone(),
                Ok(Heard::Same) => {}
                Err(error) => {
                    self.cannot_read(&error, read);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            read = Instant::now();
        }
    }

    /// Notes that the publications cannot be read for a while. The last read was at this time.
    fn cannot_read(&self, error: &FleetError, read: Instant) {
        if read.elapsed() < UNREAD {
            return;
        }
        self.used.send_if_modified(|used| {
            let is_superseded = used.is_superseded;
            let host = &used.publication.host;
            let is_new =
                used.note(format!("the publications of the host {host} cannot be read: {error}"), is_superseded);
            if is_new {
                tracing::warn!(fault = used.fault, "the policy of this host may be superseded");
            }
            is_new
        });
    }

    /// Puts a publication in force on this host.
    async fn take(&self, publication: &Publication, document: &str, reports: &EventSender) -> Result<(), String> {
        let policy = verified(&self.key, (&publication.host, publication.number), document)?;
        is_later(&self.used.borrow().publication, publication.number)?;
        if policy.publication() != *publication {
            return Err("the database has another digest of it".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        reports.send(Message::Accepted(RulesetReload::of_publication(policy, answer)));
        let reply = answered.await.map_err(|_gone| "the daemon stops".to_owned())?;
        let reply: Value = serde_json::from_slice(&reply).map_err(|fault| fault.to_string())?;
        match reply.get("error").and_then(Value::as_str) {
            Some(why) => Err(why.to_owned()),
            None => Ok(()),
        }
    }

    fn note(&self, publication: Publication, done: Result<(), String>) {
        let Err(why) = done else {
            self.used.send_replace(UsedPolicy::of(publication));
            return;
        };
        // The place of a file begins with the publication.
        let why = why.strip_prefix(&format!("{publication}/")).unwrap_or(&why);
        let fault = format!("{publication} cannot be used: {why}");
        self.used.send_if_modified(|used| {
            let is_new = used.note(fault, true);
            if is_new {
                tracing::error!(fault = used.fault, "no call is executed, because another policy is in force");
            }
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::random::SystemRandom;

    fn policy(number: i64) -> PublishedPolicy {
        let files = [("own.cedar".to_owned(), "// \u{f8ff}\0".to_owned())].into();
        PublishedPolicy { host: "a".parse().unwrap(), number, files }
    }

    #[test]
    fn a_policy_is_used_only_as_the_publication_that_its_host_has_signed() {
        let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [home, other] = homes.each_ref().map(|home| Home::at(home.path().to_owned()));
        let signature = Signature(home.clone());
        assert!(signature.sign(&policy(3)).unwrap_err().contains("has no key"), "no key is made here");
        assert!(!home.keys().exists());
        let [key, other] = [home, other].map(|home| keys::fleet(&home, &SystemRandom).unwrap().signing().public());
        let document = signature.sign(&policy(3)).unwrap();
        let (a, c): (HostName, HostName) = ("a".parse().unwrap(), "c".parse().unwrap());
        assert_eq!(verified(&key, (&a, 3), &document), Ok(policy(3)));
        for (key, publication, document) in [
            (other, (&a, 3), document.clone()),
            (key, (&a, 4), document.clone()),
            (key, (&c, 3), document.clone()),
            (key, (&a, 3), document.replace("own", "new")),
            (key, (&a, 3), String::new()),
        ] {
            assert!(verified(&key, publication, &document).is_err());
        }
        let outside = PublishedPolicy { files: [("../x.cedar".to_owned(), String::new())].into(), ..policy(3) };
        let document = signature.sign(&outside).unwrap();
        assert!(verified(&key, (&a, 3), &document).unwrap_err().contains("NAME.cedar"));
    }
}
