//! Google Cloud Logging: the logs of projects (API `logging.googleapis.com` v2, `entries.list` and `projects.logs.list`).
//!
//! Google returns the newest entries first, in answers that a token continues. An answer that is too large is requested
//! again with fewer entries, from the oldest instant that was read. Each project is asked alone, so one that is refused
//! hides no other.
//!
//! SECURITY: only the origins of the API and of the token address are contacted, and no redirect is followed. Only entries
//! of the configured projects are shown. Nothing that an agent writes becomes query language.

mod account;
mod decode;
mod filter;
mod pace;
mod settings;

pub(crate) use account::{Account, Pass};
pub use settings::GoogleSettings;

use crate::backend::{Access, BackendError, Found, Remote, SignIn, Source, Sources};
use crate::entry::{Record, shortened};
use crate::format::Format;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::transport::{self, Answer};
use crate::window::Window;
use decode::Page;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use model::Clock;
use pace::Pace;
use platform::http::{Exchange, Http};
use provider::google::GoogleError;
use provider::issued_tokens::TokenText;
use provider::remote;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The fewest and the most entries of an answer to a query. Google gives no more than a thousand.
const PAGE_MIN: usize = 100;
const PAGE_MAX: usize = 1000;
/// The most requests for entries in one query. The projects share them.
const REQUESTS_MAX: usize = 20;
/// The most requests for one entry.
const FIND_REQUESTS_MAX: usize = 5;
/// The most services of a project that are listed, and the most requests for them.
const SERVICES_MAX: usize = 500;
const LIST_REQUESTS_MAX: usize = 5;
/// The longest name of a service.
const NAME_MAX: usize = 128;
/// Nanoseconds of a millisecond.
const NANOS: i64 = 1_000_000;
const JSON: &str = "application/json";

const MORE: &str = "there are more entries than are read; ask for one service or a shorter time";
const TOO_BIG: &str = "an entry is too big to be read, and those before it are missing";
const REPEATED: &str = "it repeats an answer, and older entries are missing";
const ODD: &str = "it returns entries that cannot be read or are not of the project";
const NOT_GOOGLE: &str = "its answer is not that of Google Cloud Logging";

/// The logs of projects.
#[derive(Clone)]
pub(crate) struct Google(Arc<Server>);

/// The settings of the projects, checked.
pub(crate) struct Server {
    name: String,
    url: Url,
    projects: Vec<String>,
    format: Format,
    http: Arc<dyn Http>,
    clock: Arc<dyn Clock>,
    pace: Pace,
}

/// The requests of one execution to one project.
struct Session<'a> {
    server: &'a Server,
    project: &'a str,
    pass: &'a Pass,
    token: &'a str,
    deadline: Instant,
}

/// The entries of a project that are read.
struct Reading {
    /// The filter without the time.
    filter: String,
    /// The first and the last nanosecond.
    range: (i64, i64),
    /// The entries of an answer.
    size: usize,
    /// Returns what is kept of an entry.
    keep: Arc<dyn Fn(Record) -> Option<Record> + Send + Sync>,
    /// The requests that are left.
    left: usize,
    /// Whether there was an answer.
    has_answered: bool,
}

/// Why a request gave nothing.
enum Refused {
    /// The project cannot be read.
    Project(String),
    /// Requests are limited: the reason, and the pause after which one is allowed.
    Limited(String, Option<Duration>),
    /// The answer has more bytes than are read.
    TooLarge,
}

/// A project that refused a request.
struct Refusal {
    note: Skipped,
    limit: Option<Limit>,
}

/// A limit of requests, with the pause after which one is allowed.
struct Limit(Option<Duration>);

impl Google {
    pub(crate) fn new(server: Server) -> Self {
        Self(Arc::new(server))
    }
}

impl Remote for Google {
    async fn search(&self, search: &Arc<Search>, access: &Access) -> Result<Found, BackendError> {
        let server = &self.0;
        let (pass, token) = server.sign_in(access).await?;
        let Window { since, until } = search.open_window();
        let range = (since.max(0).saturating_mul(NANOS), until.max(0).saturating_mul(NANOS).saturating_sub(1));
        let (mut newest, mut skipped, mut unshared) = (Newest::new(search.limit), Vec::new(), REQUESTS_MAX);
        let (mut refusals, mut has_answered) = (Vec::new(), false);
        for (place, project) in server.projects.iter().enumerate() {
            let Some(filter) = filter::of_search(project, search) else { return Ok(Found::default()) };
            let wanted = Arc::clone(search);
            let keep = move |record: Record| {
                let is_wanted = wanted.admits(record.position)
                    && wanted.wants(&record.parsed)
                    && wanted.service.as_ref().is_none_or(|service| *service == record.service);
                is_wanted.then(|| shortened(record))
            };
            // The rest of a project's share, of requests and of time, is for those after it.
            let left = unshared.div_ceil(server.projects.len() - place);
            let size = search.limit.saturating_mul(2).clamp(PAGE_MIN, PAGE_MAX);
            let mut reading = Reading { filter, range, size, keep: Arc::new(keep), left, has_answered: false };
            let session = server.session(place, (&pass, token.reveal()), access);
            let notes = session.read(&mut reading, |records| {
                newest.offer_all(records);
                newest.floor().map(|floor| floor.time.saturating_mul(NANOS))
            });
            let outcome = notes.await;
            unshared -= left - reading.left;
            has_answered |= reading.has_answered;
            match outcome {
                Ok(notes) => skipped.extend(notes.into_iter().map(|note| session.skipped(note))),
                Err(refused) => refusals.push(session.refusal(refused)),
            }
        }
        Ok(Found { records: newest.into_records(), skipped: judged(has_answered, skipped, refusals)? })
    }

    async fn find(&self, id: EntryId, access: &Access) -> Result<Found, BackendError> {
        let server = &self.0;
        // The place of an entry is the check of its project and its nanosecond.
        let (check, nanos) = (id.place >> 32, i64::try_from(id.place & u64::from(u32::MAX)).unwrap_or(NANOS));
        let place = server.projects.iter().position(|project| decode::project_check(&server.name, project) == check);
        let Some(place) = place.filter(|_| nanos < NANOS) else { return Ok(Found::default()) };
        let (pass, token) = server.sign_in(access).await?;
        let time = id.time.saturating_mul(NANOS).saturating_add(nanos);
        let keep = Arc::new(move |record: Record| (record.id() == id).then_some(record));
        let (filter, left) = (String::new(), FIND_REQUESTS_MAX);
        let mut reading = Reading { filter, range: (time, time), size: PAGE_MAX, keep, left, has_answered: false };
        let mut records = Vec::new();
        // It is the only project that is asked.
        let session = Session { deadline: access.deadline, ..server.session(place, (&pass, token.reveal()), access) };
        let notes = session.read(&mut reading, |found| {
            records.extend(found);
            (!records.is_empty()).then_some(i64::MAX)
        });
        let (notes, refusals) = match notes.await {
            Ok(notes) => (notes, Vec::new()),
            Err(refused) => (Vec::new(), vec![session.refusal(refused)]),
        };
        records.truncate(1);
        let skipped = notes.into_iter().filter(|_| records.is_empty()).map(|note| session.skipped(note)).collect();
        Ok(Found { skipped: judged(reading.has_answered, skipped, refusals)?, records })
    }

    async fn list_services(&self, access: &Access) -> Result<Sources, BackendError> {
        let server = &self.0;
        let (pass, token) = server.sign_in(access).await?;
        let (mut names, mut skipped, mut refusals) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut has_answered = false;
        for place in 0..server.projects.len() {
            let session = server.session(place, (&pass, token.reveal()), access);
            match session.services(&mut names).await {
                Ok(is_all) => {
                    has_answered = true;
                    let more = "there are more services than are listed";
                    skipped.extend((!is_all).then(|| session.skipped(more)));
                }
                Err(refused) => refusals.push(session.refusal(refused)),
            }
        }
        let service = |service| Source { service, kind: "google".into(), earliest: None, latest: None };
        let skipped = judged(has_answered, skipped, refusals)?;
        Ok(Sources { services: names.into_iter().map(service).collect(), skipped, has_unlisted: false })
    }

    async fn connect(&self, access: &Access) -> Result<String, BackendError> {
        let server = &self.0;
        let (pass, token) = server.sign_in(access).await?;
        for place in 0..server.projects.len() {
            let session = server.session(place, (&pass, token.reveal()), access);
            if let Err(refused) = session.services(&mut BTreeSet::new()).await {
                let Skipped { reason, .. } = session.refusal(refused).note;
                return Err(BackendError::Unavailable { what: "google", reason });
            }
        }
        Ok(format!("google {} lists the logs of its projects.", server.name))
    }
}

impl Server {
    /// Returns the permission of an execution, and a token.
    async fn sign_in(&self, access: &Access) -> Result<(Pass, TokenText), BackendError> {
        let Some(SignIn::Account(pass)) = access.credentials.get(&self.name) else {
            return Err(self.unavailable("its secret is missing"));
        };
        let token = pass.token(self.http.as_ref(), self.clock.as_ref(), access.deadline).await;
        Ok((pass.clone(), token.map_err(|reason| self.unavailable(&reason))?))
    }

    /// Returns a session with the project at this place. It gets an equal share of the time that is left.
    fn session<'a>(&'a self, place: usize, (pass, token): (&'a Pass, &'a str), access: &Access) -> Session<'a> {
        let project = self.projects.get(place).map_or("", String::as_str);
        let others = u32::try_from(self.projects.len().saturating_sub(place)).unwrap_or(1).max(1);
        let left = access.deadline.saturating_duration_since(Instant::now());
        Session { server: self, project, pass, token, deadline: Instant::now() + left / others }
    }

    fn unavailable(&self, reason: &str) -> BackendError {
        BackendError::Unavailable { what: "google", reason: format!("{}: {reason}", self.name) }
    }
}

/// Adds the projects that refused to the notes. Without any answer, the first of them is the reason.
fn judged(has_answered: bool, mut skipped: Vec<Skipped>, refusals: Vec<Refusal>) -> Result<Vec<Skipped>, BackendError> {
    // A limit passes.
    let first = refusals.iter().find(|refusal| refusal.limit.is_some()).or(refusals.first());
    if let Some(Refusal { note: Skipped { reason, .. }, limit }) = first.filter(|_| !has_answered) {
        let (what, reason) = ("google", reason.clone());
        return Err(match limit {
            Some(Limit(retry_after)) => BackendError::Limited { what, reason, retry_after: *retry_after },
            None => BackendError::Unavailable { what, reason },
        });
    }
    skipped.extend(refusals.into_iter().map(|refusal| refusal.note));
    Ok(skipped)
}

impl Session<'_> {
    /// Reads the entries, the newest first. `offer` takes the wanted ones, and returns the nanosecond before which no other is
    /// wanted. Returns notes about unread entries.
    async fn read(
        &self,
        reading: &mut Reading,
        mut offer: impl FnMut(Vec<Record>) -> Option<i64> + Send,
    ) -> Result<Vec<&'static str>, Refused> {
        let (first, mut last) = reading.range;
        let (mut notes, mut token, mut oldest) = (Vec::new(), None::<String>, last);
        while first <= last {
            if reading.left == 0 {
                notes.push(MORE);
                break;
            }
            reading.left -= 1;
            let page = match self.page(reading, (first, last), token.as_deref()).await {
                Err(Refused::TooLarge) if reading.size == 1 => {
                    notes.push(TOO_BIG);
                    break;
                }
                Err(Refused::TooLarge) => {
                    // A token is valid for the same request only. The entries of the oldest instant are read again.
                    (reading.size, last, token) = ((reading.size / 8).max(1), oldest, None);
                    continue;
                }
                page => page?,
            };
            reading.has_answered = true;
            if page.has_odd {
                notes.push(ODD);
            }
            oldest = page.oldest.map_or(oldest, |time| oldest.min(time));
            let floor = offer(page.records);
            if floor.is_some_and(|floor| oldest < floor) {
                break;
            }
            // An answer can have no entries and yet a token.
            match page.next {
                None => break,
                Some(next) if token.as_ref() == Some(&next) => {
                    notes.push(REPEATED);
                    break;
                }
                Some(next) => token = Some(next),
            }
        }
        notes.sort_unstable();
        notes.dedup();
        Ok(notes)
    }

    /// Reads one answer with entries. Only the wanted ones are kept.
    async fn page(&self, reading: &Reading, range: (i64, i64), token: Option<&str>) -> Result<Page, Refused> {
        let Session { server, project, .. } = self;
        let mut request = json!({
            "resourceNames": [format!("projects/{project}")],
            "filter": filter::during(&reading.filter, range),
            "orderBy": "timestamp desc",
            "pageSize": reading.size,
        });
        if let (Some(token), Some(members)) = (token, request.as_object_mut()) {
            members.insert("pageToken".to_owned(), Value::from(token));
        }
        server.pace.take(self.deadline).await.map_err(|pause| Refused::limited(Some(pause), ""))?;
        let mut url = server.url.clone();
        url.set_path("v2/entries:list");
        let body = self.ask(Method::POST, &url, request.to_string().into_bytes()).await?;
        let (name, project, format) = (server.name.clone(), (*project).to_owned(), server.format);
        let keep = Arc::clone(&reading.keep);
        let page = transport::decoded(move || {
            let mut page = decode::page(&body, &name, &project, format)?;
            page.records = page.records.into_iter().filter_map(|record| keep(record)).collect();
            Some(page)
        });
        page.await.flatten().ok_or_else(|| Refused::Project(NOT_GOOGLE.to_owned()))
    }

    /// Adds the services of the project. Returns whether these are all.
    async fn services(&self, names: &mut BTreeSet<String>) -> Result<bool, Refused> {
        let (mut token, mut own) = (None::<String>, BTreeSet::new());
        for _ in 0..LIST_REQUESTS_MAX {
            let mut url = self.server.url.clone();
            url.set_path(&format!("v2/projects/{}/logs", self.project));
            url.query_pairs_mut().append_pair("pageSize", &PAGE_MAX.to_string());
            if let Some(token) = &token {
                url.query_pairs_mut().append_pair("pageToken", token);
            }
            let body = self.ask(Method::GET, &url, Vec::new()).await?;
            let project = self.project.to_owned();
            let answer = transport::decoded(move || decode::services(&body, &project)).await;
            let (services, next) = answer.flatten().ok_or_else(|| Refused::Project(NOT_GOOGLE.to_owned()))?;
            own.extend(services);
            if own.len() > SERVICES_MAX {
                names.extend(own.into_iter().take(SERVICES_MAX));
                return Ok(false);
            }
            if next.is_none() {
                names.append(&mut own);
                return Ok(true);
            }
            token = next;
        }
        names.append(&mut own);
        Ok(false)
    }

    fn refusal(&self, refused: Refused) -> Refusal {
        let (reason, limit) = match refused {
            Refused::Project(reason) => (reason, None),
            Refused::Limited(reason, retry_after) => (reason, Some(Limit(retry_after))),
            Refused::TooLarge => ("its answer is larger than is read".to_owned(), None),
        };
        Refusal { note: self.skipped(&reason), limit }
    }

    fn skipped(&self, reason: &str) -> Skipped {
        Skipped::new("google", &format!("{}: {}: {reason}", self.server.name, self.project))
    }

    /// Sends one request.
    async fn ask(&self, method: Method, url: &Url, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let unwritable = || Refused::Project(transport::UNWRITABLE.to_owned());
        let authorization = remote::authorization(None, self.token).ok_or_else(unwritable)?;
        let headers =
            HeaderMap::from_iter([(AUTHORIZATION, authorization), (CONTENT_TYPE, HeaderValue::from_static(JSON))]);
        let uri = url.as_str().parse().map_err(|_long| unwritable())?;
        let exchange = Exchange { method, uri, headers, body, deadline: self.deadline };
        let answer = transport::send(self.server.http.as_ref(), exchange).await;
        let Answer { status, body, retry_after } = answer.map_err(|reason| Refused::Project(reason.to_owned()))?;
        if status == StatusCode::OK {
            return body.ok_or(Refused::TooLarge);
        }
        if status == StatusCode::UNAUTHORIZED {
            self.pass.drop_refused(self.token, self.deadline).await;
        }
        Err(refused(status, &body.unwrap_or_default(), retry_after, self.token))
    }
}

impl Refused {
    fn limited(retry_after: Option<Duration>, said: &str) -> Self {
        Self::Limited(format!("{}{said}", transport::limited(retry_after)), retry_after)
    }
}

/// Explains an answer that is not 200, with the message of Google.
fn refused(status: StatusCode, body: &[u8], retry_after: Option<Duration>, token: &str) -> Refused {
    let said = account::said(&GoogleError::of(body).message, token);
    let number = status.as_u16();
    match status {
        StatusCode::UNAUTHORIZED => Refused::Project(format!("it refuses the token; try again ({number}){said}")),
        StatusCode::FORBIDDEN => Refused::Project(format!(
            "the service account has no permission for this; the operator must check its role ({number}){said}"
        )),
        StatusCode::NOT_FOUND => Refused::Project(format!("there is no such project ({number}){said}")),
        StatusCode::TOO_MANY_REQUESTS => Refused::limited(retry_after, &format!(" ({number}){said}")),
        _ => Refused::Project(format!("it answers {number}{said}")),
    }
}

#[cfg(test)]
mod tests;
