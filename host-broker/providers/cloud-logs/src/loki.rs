//! Loki: logs over its HTTP interface (Grafana Loki, HTTP API, `query_range` and `label values`).
//!
//! SECURITY: only the origin of the configured address is contacted, and no redirect is followed. Nothing that an agent
//! writes becomes LogQL: a service and a text are values in quotes.

mod decode;
mod settings;

pub use settings::LokiSettings;

use crate::backend::{Access, BackendError, Found, Remote, SignIn, Source, Sources};
use crate::entry::{Record, shortened};
use crate::format::Format;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::transport::{self, Answer};
use crate::window::Window;
use decode::{Batch, Streams};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use model::Clock;
use platform::http::{Exchange, Http};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The most entries of one request, and the most requests of one query.
const BATCH: usize = 1000;
/// With so few, a request still gets past an instant.
const BATCH_MIN: usize = 2;
const BATCHES_MAX: usize = 30;
/// The most services that are listed.
const SERVICES_MAX: usize = 500;
/// Sources are listed if they have written within so long.
const RECENT: Duration = Duration::from_secs(24 * 3600);
/// The header that names the tenant.
const TENANT: HeaderName = HeaderName::from_static("x-scope-orgid");
/// Nanoseconds of a millisecond.
const NANOS: i64 = 1_000_000;

/// One Loki server.
#[derive(Clone)]
pub(crate) struct Loki(Arc<Server>);

/// The settings of a Loki server, checked.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) service_label: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) tenant: Option<HeaderValue>,
    pub(crate) needs_credential: bool,
    pub(crate) format: Format,
    pub(crate) http: Arc<dyn Http>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Loki {
    pub(crate) fn new(server: Server) -> Self {
        Self(Arc::new(server))
    }

    /// Reads the newest entries of a time, in nanoseconds; `None` if they have too many bytes.
    async fn batch(
        &self,
        query: &str,
        (start, end): (i64, i64),
        limit: usize,
        access: &Access,
    ) -> Result<Option<Batch>, BackendError> {
        // Loki takes a shorter number for seconds.
        let (start, end, count) = (format!("{start:019}"), format!("{end:019}"), limit.to_string());
        let pairs = [("query", query), ("start", &start), ("end", &end), ("limit", &count), ("direction", "backward")];
        let Some(body) = self.0.get("query_range", &pairs, access).await? else { return Ok(None) };
        let server = Arc::clone(&self.0);
        let decoded = transport::decoded(move || {
            Streams::read(&body, limit)
                .map(|streams| streams.records(&server.name, &server.service_label, server.format))
        });
        let unusable = || self.0.unavailable("its answer is not that of Loki");
        decoded.await.flatten().map(Some).ok_or_else(unusable)
    }
}

impl Remote for Loki {
    async fn search(&self, search: &Arc<Search>, access: &Access) -> Result<Found, BackendError> {
        let server = &self.0;
        let Window { since, until } = search.open_window();
        let (start, mut end) = (since.saturating_mul(NANOS).max(0), until.saturating_mul(NANOS).max(0));
        let mut query = server.selector(search.service.as_deref());
        if let Some(needle) = &search.needle {
            // The line as it is stored. What the broker makes of it is searched again.
            write!(query, " |~ {}", quoted(&format!("(?i){}", literal(needle)))).unwrap_or_default();
        }
        let is_service = |record: &Record| search.service.as_ref().is_none_or(|service| *service == record.service);
        let mut newest = Newest::new(search.limit);
        let mut skipped = Vec::new();
        let mut limit = BATCH;
        for batch in 1.. {
            let found = match self.batch(&query, (start, end), limit, access).await {
                Ok(Some(found)) => found,
                Ok(None) if limit == BATCH_MIN => {
                    skipped.push(server.skipped("an entry is too big to be read, and those before it are missing"));
                    break;
                }
                Ok(None) => {
                    limit = (limit / 8).max(BATCH_MIN);
                    continue;
                }
                Err(error) if batch == 1 => return Err(error),
                Err(_) => {
                    skipped.push(server.skipped("it stopped answering, and older entries are missing"));
                    break;
                }
            };
            let Batch { records, count, oldest } = found;
            for record in records {
                if search.admits(record.position) && search.wants(&record.parsed) && is_service(&record) {
                    newest.offer(shortened(record));
                }
            }
            let Some(oldest) = oldest.filter(|_| count >= limit) else { break };
            if newest.floor().is_some_and(|floor| oldest.div_euclid(NANOS) < floor.time) {
                break;
            }
            limit = (limit * 2).min(BATCH);
            // The end is not part of a range, and there can be more entries of the oldest instant.
            let after_oldest = oldest.saturating_add(1);
            if after_oldest > end {
                skipped.push(server.skipped("it returns entries of another time"));
                break;
            }
            end = if after_oldest < end {
                after_oldest
            } else {
                skipped.push(server.skipped("an instant has more entries than are read"));
                oldest
            };
            if end <= start {
                break;
            }
            if batch >= BATCHES_MAX {
                skipped.push(server.skipped("there are more entries than are read; ask for a shorter time"));
                break;
            }
        }
        skipped.dedup();
        Ok(Found { records: newest.into_records(), skipped })
    }

    async fn find(&self, id: EntryId, access: &Access) -> Result<Found, BackendError> {
        // The place of an entry is its nanosecond.
        let Ok(start) = i64::try_from(id.place) else { return Ok(Found::default()) };
        if start.div_euclid(NANOS) != id.time {
            return Ok(Found::default());
        }
        let mut limit = BATCH;
        let batch = loop {
            let range = (start, start.saturating_add(1));
            match self.batch(&self.0.selector(None), range, limit, access).await? {
                Some(batch) => break batch,
                None if limit == BATCH_MIN => {
                    let skipped = vec![self.0.skipped("the entries of that time are too big to be read")];
                    return Ok(Found { skipped, ..Found::default() });
                }
                None => limit = (limit / 8).max(BATCH_MIN),
            }
        };
        let records: Vec<Record> = batch.records.into_iter().filter(|record| record.id() == id).collect();
        let is_whole = batch.count < limit || !records.is_empty();
        let note = "that time has more entries than are read";
        let skipped = if is_whole { Vec::new() } else { vec![self.0.skipped(note)] };
        Ok(Found { records, skipped })
    }

    async fn list_services(&self, access: &Access) -> Result<Sources, BackendError> {
        let server = &self.0;
        let now = server.clock.now();
        let nanos = |time: shared::Timestamp| time.millis().saturating_mul(NANOS).to_string();
        let (start, end) = (nanos(now.minus(RECENT)), nanos(now));
        let selector = server.selector(None);
        let pairs = [("query", selector.as_str()), ("start", &start), ("end", &end)];
        let path = format!("label/{}/values", server.service_label);
        let unusable = || server.unavailable("its answer is not that of Loki");
        let names = match server.get(&path, &pairs, access).await? {
            Some(body) => decode::values(&body).ok_or_else(unusable)?,
            None => return Err(server.unavailable("it has too many services to be listed")),
        };
        let mut names: Vec<String> = names.iter().map(|name| crate::public_name(name, decode::NAME_MAX)).collect();
        names.sort();
        names.dedup();
        let has_more = names.len() > SERVICES_MAX;
        names.truncate(SERVICES_MAX);
        let service = |service| Source { service, kind: "loki".into(), earliest: None, latest: None };
        let more = has_more.then(|| server.skipped("there are more services than are listed"));
        let services = names.into_iter().map(service).collect();
        // Older services are not listed.
        Ok(Sources { services, skipped: more.into_iter().collect(), has_unlisted: true })
    }

    async fn connect(&self, access: &Access) -> Result<String, BackendError> {
        self.list_services(access).await?;
        Ok(format!("loki {} lists its services.", self.0.name))
    }
}

impl Server {
    /// Returns the streams of a service, or of all, in LogQL: `{env="prod",service_name="api"}`.
    fn selector(&self, service: Option<&str>) -> String {
        let mut matchers: Vec<String> =
            self.labels.iter().map(|(label, value)| format!("{label}={}", quoted(value))).collect();
        let label = &self.service_label;
        // Loki demands a matcher that does not fit everything.
        matchers.push(match service {
            None => format!("{label}=~\".+\""),
            // A list writes `_` for each character that no name of a service has.
            Some(name) if name.contains('_') => {
                let pattern: Vec<String> = name.split('_').map(literal).collect();
                format!("{label}=~{}", quoted(&pattern.join(".")))
            }
            Some(name) => format!("{label}={}", quoted(name)),
        });
        format!("{{{}}}", matchers.join(","))
    }

    /// Returns the body of the answer; `None` if it has more bytes than are read.
    async fn get(&self, path: &str, pairs: &[(&str, &str)], access: &Access) -> Result<Option<Vec<u8>>, BackendError> {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/loki/api/v1/{path}", self.url.path().trim_end_matches('/')));
        url.query_pairs_mut().extend_pairs(pairs);
        let mut headers = HeaderMap::new();
        headers.extend(self.tenant.clone().map(|tenant| (TENANT, tenant)));
        match access.credentials.get(&self.name) {
            Some(SignIn::Header(header)) => drop(headers.insert(AUTHORIZATION, header.clone())),
            Some(SignIn::Signature(_) | SignIn::Account(_)) | None if self.needs_credential => {
                return Err(self.unavailable("its secret is missing"));
            }
            Some(SignIn::Signature(_) | SignIn::Account(_)) | None => {}
        }
        let uri = url.as_str().parse().map_err(|_long| self.unavailable(transport::UNWRITABLE))?;
        let exchange = Exchange { method: Method::GET, uri, headers, body: Vec::new(), deadline: access.deadline };
        let answer = transport::send(self.http.as_ref(), exchange).await;
        let Answer { status, body, retry_after } = answer.map_err(|reason| self.unavailable(reason))?;
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::TOO_MANY_REQUESTS => {
                let reason = format!("{}: {}", self.name, transport::limited(retry_after));
                Err(BackendError::Limited { what: "loki", reason, retry_after })
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(self.unavailable(&format!("it refuses the credential ({})", status.as_u16())))
            }
            status => Err(self.unavailable(&format!("it answers {}", status.as_u16()))),
        }
    }

    fn unavailable(&self, reason: &str) -> BackendError {
        BackendError::Unavailable { what: "loki", reason: format!("{}: {reason}", self.name) }
    }

    fn skipped(&self, reason: &str) -> Skipped {
        Skipped::new("loki", &format!("{}: {reason}", self.name))
    }
}

/// Writes a text in quotes. The escapes of JSON are escapes of Go, too, whose rules LogQL has.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a text as a regular expression that matches it alone.
fn literal(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut pattern, c| {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
        pattern
    })
}

#[cfg(test)]
mod tests;
