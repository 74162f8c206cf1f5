//! The interface of everything that holds logs.

use crate::entry::Record;
use crate::google::Pass;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::sigv4::SigningKey;
use http::HeaderValue;
use provider::contract::{Failure, Running};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Something that holds logs.
pub(crate) trait Backend: Send + Sync {
    /// The newest entries of a search: up to one more than its limit.
    fn query(&self, search: Arc<Search>, access: Access) -> Running<Result<Found, BackendError>>;

    /// Returns the entry with this id, if it is still there, and the unread places where it may be.
    fn entry(&self, id: EntryId, access: Access) -> Running<Result<Found, BackendError>>;

    /// The services whose logs it holds.
    fn services(&self, access: Access) -> Running<Result<Sources, BackendError>>;

    /// Checks the connection to its server. Returns what was tried, as a sentence; `None` if it has no server.
    fn check(&self, _access: Access) -> Running<Result<Option<String>, BackendError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A [`Backend`] at a server. It gets a part of the time of the call.
pub(crate) trait Remote: Clone + Send + Sync + 'static {
    /// Returns the newest entries of a search: up to one more than its limit.
    fn search(&self, search: &Arc<Search>, access: &Access)
    -> impl Future<Output = Result<Found, BackendError>> + Send;

    /// Returns the entry with this id, if it is still there.
    fn find(&self, id: EntryId, access: &Access) -> impl Future<Output = Result<Found, BackendError>> + Send;

    /// Returns the services whose logs it holds.
    fn list_services(&self, access: &Access) -> impl Future<Output = Result<Sources, BackendError>> + Send;

    /// Sends a small request with the credential, and returns what was tried, as a sentence.
    fn connect(&self, access: &Access) -> impl Future<Output = Result<String, BackendError>> + Send;
}

impl<R: Remote> Backend for R {
    fn query(&self, search: Arc<Search>, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.search(&search, &access.part()).await })
    }

    fn entry(&self, id: EntryId, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.find(id, &access.part()).await })
    }

    fn services(&self, access: Access) -> Running<Result<Sources, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.list_services(&access.part()).await })
    }

    fn check(&self, access: Access) -> Running<Result<Option<String>, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.connect(&access.part()).await.map(Some) })
    }
}

/// How the requests of a backend sign in.
#[derive(Debug, Clone)]
pub(crate) enum SignIn {
    /// With this header.
    Header(HeaderValue),
    /// With a signature of each request.
    Signature(SigningKey),
    /// With a token of this service account.
    Account(Pass),
}

/// The permission of one execution: its deadline, and the credentials of the backends that need one.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The deadline.
    pub(crate) deadline: Instant,
    /// The credentials, by the names of the backends.
    pub(crate) credentials: Arc<BTreeMap<String, SignIn>>,
}

impl Access {
    /// The same with two thirds of the time that is left. A slow server does not keep the entries of the other backends back,
    /// nor a slow list the answer to a query.
    pub(crate) fn part(&self) -> Self {
        let left = self.deadline.saturating_duration_since(Instant::now());
        Self { deadline: Instant::now() + left / 3 * 2, credentials: Arc::clone(&self.credentials) }
    }
}

/// The result of one backend.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The entries, newest first.
    pub(crate) records: Vec<Record>,
    /// The unread places.
    pub(crate) skipped: Vec<Skipped>,
}

/// The services whose logs one backend holds.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The services.
    pub(crate) services: Vec<Source>,
    /// The unread places.
    pub(crate) skipped: Vec<Skipped>,
    /// Whether entries can be of services that are not listed.
    pub(crate) has_unlisted: bool,
}

/// A service that writes logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct Source {
    /// Its name, for the `service` parameter of `query_logs`.
    pub(crate) service: String,
    /// Where its logs are kept: `files`, `journald`, `loki`, `cloudwatch` or `google`.
    pub(crate) kind: String,
    /// The time of its first entry that is still there, where that can be told cheaply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) earliest: Option<String>,
    /// The time of its last entry, where that can be told cheaply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latest: Option<String>,
}

/// Why a backend gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BackendError {
    /// The deadline came first.
    #[error("too slow")]
    Deadline,
    /// It cannot be used; the text is public.
    #[error("{reason}")]
    Unavailable {
        /// The unusable part.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// Its server limits requests; the text is public.
    #[error("{reason}")]
    Limited {
        /// The backend.
        what: &'static str,
        /// The limit.
        reason: String,
        /// The pause after which it can be asked again.
        retry_after: Option<Duration>,
    },
}

/// The newest entries of all backends. One that fails is noted; if all fail, so does the search.
///
/// # Errors
/// [`Failure`]; nothing is ever changed.
pub(crate) async fn query_all(backends: &[Arc<dyn Backend>], search: Search, access: Access) -> Result<Found, Failure> {
    let search = Arc::new(search);
    let asked: Vec<_> = backends.iter().map(|b| tokio::spawn(b.query(Arc::clone(&search), access.clone()))).collect();
    let mut newest = Newest::new(search.limit);
    let mut skipped = Vec::new();
    for found in gather(asked, &mut skipped).await? {
        found.records.into_iter().for_each(|record| newest.offer(record));
        skipped.extend(found.skipped);
    }
    Ok(Found { records: newest.into_records(), skipped: tidy(skipped) })
}

/// Returns the entry with this id from any backend; without it, the unread places.
///
/// # Errors
/// [`Failure`]; nothing is ever changed.
pub(crate) async fn entry_of_any(backends: &[Arc<dyn Backend>], id: EntryId, access: Access) -> Result<Found, Failure> {
    let asked: Vec<_> = backends.iter().map(|b| tokio::spawn(b.entry(id, access.clone()))).collect();
    let mut all = Found::default();
    for found in gather(asked, &mut all.skipped).await? {
        all.records.extend(found.records);
        all.skipped.extend(found.skipped);
    }
    Ok(all)
}

/// The services of all backends, by name.
///
/// # Errors
/// [`Failure`]; nothing is ever changed.
pub(crate) async fn services_of_all(backends: &[Arc<dyn Backend>], access: Access) -> Result<Sources, Failure> {
    let asked: Vec<_> = backends.iter().map(|b| tokio::spawn(b.services(access.clone()))).collect();
    let mut skipped = Vec::new();
    let (mut services, mut has_unlisted) = (Vec::new(), false);
    for found in gather(asked, &mut skipped).await? {
        services.extend(found.services);
        skipped.extend(found.skipped);
        has_unlisted |= found.has_unlisted;
    }
    services.sort();
    Ok(Sources { services, skipped: tidy(skipped), has_unlisted })
}

/// Checks the connections of all backends at once.
pub(crate) async fn check_all(
    backends: &[Arc<dyn Backend>],
    access: &Access,
) -> Vec<Result<Option<String>, BackendError>> {
    let asked = backends.iter().map(|backend| AbortOnDrop(tokio::spawn(backend.check(access.clone()))));
    let mut found = Vec::new();
    for mut task in asked.collect::<Vec<_>>() {
        let failed = || Err(BackendError::Unavailable { what: "logs", reason: "the check failed".to_owned() });
        found.push((&mut task.0).await.unwrap_or_else(|_panicked| failed()));
    }
    found
}

type Asked<T> = tokio::task::JoinHandle<Result<T, BackendError>>;

async fn gather<T>(asked: Vec<Asked<T>>, skipped: &mut Vec<Skipped>) -> Result<Vec<T>, Failure> {
    // A caller that stops waiting for this stops the backends as well.
    let asked: Vec<_> = asked.into_iter().map(AbortOnDrop).collect();
    let mut answers = Vec::new();
    let (mut failures, mut limit) = (Vec::new(), None);
    for mut task in asked {
        match (&mut task.0).await {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(BackendError::Deadline)) => return Err(Failure::Timeout),
            Ok(Err(BackendError::Unavailable { what, reason })) => failures.push(Skipped::new(what, &reason)),
            Ok(Err(BackendError::Limited { what, reason, retry_after })) => {
                let message = format!("no logs can be read: {what}: {reason}");
                limit.get_or_insert(Failure::RateLimited { retry_after, message });
                failures.push(Skipped::new(what, &reason));
            }
            Err(_panicked) => failures.push(Skipped::new("logs", "reading them failed")),
        }
    }
    // Of several reasons, this one passes.
    if let Some(limit) = limit.filter(|_| answers.is_empty()) {
        return Err(limit);
    }
    if answers.is_empty()
        && let Some(Skipped { service, reason }) = failures.first()
    {
        return Err(Failure::Refused { message: format!("no logs can be read: {service}: {reason}") });
    }
    skipped.append(&mut failures);
    Ok(answers)
}

struct AbortOnDrop<T>(Asked<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Each note once, in order, and not more than can be read.
fn tidy(mut skipped: Vec<Skipped>) -> Vec<Skipped> {
    const NOTES_MAX: usize = 50;
    skipped.sort();
    skipped.dedup();
    if skipped.len() > NOTES_MAX {
        let more = format!("{} more notes like these", skipped.len() - NOTES_MAX);
        skipped.truncate(NOTES_MAX);
        skipped.push(Skipped::new("…", &more));
    }
    skipped
}
