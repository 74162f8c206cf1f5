//! CloudWatch Logs: the log groups of one AWS region (API `Logs_20140328`, `FilterLogEvents` and `DescribeLogGroups`).
//!
//! CloudWatch returns the oldest events first, and a query wants the newest. So the window is read in slices, backwards
//! from its end. A slice with more events than are read becomes shorter. A whole one tells how long the next can be. A
//! slice has whole milliseconds, so the events of one instant are always read together and keep their order.
//!
//! SECURITY: only the origin of the region, or of the configured address, is contacted, and no redirect is followed. Only
//! the configured log groups are read. A text is searched in the broker, so nothing that an agent writes becomes a filter
//! pattern.

mod decode;
mod settings;

pub use settings::CloudWatchSettings;
pub(crate) use settings::SERVICE;

use crate::backend::{Access, Backend, BackendError, Found, Services, SignIn, Source};
use crate::entry::{Record, shortened};
use crate::format::Format;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::window::Window;
use decode::Events;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use platform::http::{Exchange, Http, HttpError};
use provider::contract::Running;
use provider::remote::{self, BodyError};
use serde_json::{Value, json};
use settings::GroupPattern;
use shared::limits::RESULT_BYTES_MAX;
use std::sync::Arc;
use tokio::time::Instant;
use url::Url;

/// The most events of a slice, and the number that the next one shall have.
const SLICE_EVENTS: usize = 1000;
const SLICE_EVENTS_WANTED: i64 = 600;
/// The first slice, in milliseconds, and the factors by which the next one can be longer or shorter.
const SLICE: i64 = 15 * 60 * 1000;
const LONGER: i64 = 4;
const SHORTER: i64 = 8;
/// The most requests for events in one query.
const REQUESTS_MAX: usize = 40;
/// The most log groups that patterns find, and the most of one answer.
const GROUPS_MAX: usize = 500;
const GROUPS_OF_ANSWER: usize = 50;
/// The longest name of a service.
const NAME_MAX: usize = 128;

const TARGET: &str = "x-amz-target";
const DATE: &str = "x-amz-date";
const JSON: &str = "application/x-amz-json-1.1";

/// The log groups of one region.
#[derive(Clone)]
pub(crate) struct CloudWatch(Arc<Region>);

/// The settings of a region, checked.
pub(crate) struct Region {
    name: String,
    url: Url,
    groups: Vec<GroupPattern>,
    format: Format,
    http: Arc<dyn Http>,
}

/// A slice of the events of a log group.
enum Slice {
    /// All of its events.
    Whole(Vec<Record>),
    /// It has more events than are read at once.
    TooMuch,
    /// The query has no request left.
    NoRequestLeft,
}

/// Why a log group gave nothing.
enum Refused {
    /// This log group does not exist.
    NoGroup,
    /// The region cannot be used.
    All(BackendError),
}

impl From<BackendError> for Refused {
    fn from(error: BackendError) -> Self {
        Self::All(error)
    }
}

impl CloudWatch {
    pub(crate) fn new(region: Region) -> Self {
        Self(Arc::new(region))
    }

    async fn search(&self, search: &Search, access: &Access) -> Result<Found, BackendError> {
        let region = &self.0;
        let (groups, mut skipped) = region.groups(search.service.as_deref(), access).await?;
        let mut newest = Newest::new(search.limit);
        let mut left = REQUESTS_MAX;
        for (place, group) in groups.iter().enumerate() {
            match self.search_group(group, search, &mut newest, &mut left, access).await {
                Ok(note) => skipped.extend(note.map(|note| region.skipped(note))),
                Err(Refused::NoGroup) => skipped.push(region.no_group(group)),
                Err(Refused::All(error)) if place == 0 => return Err(error),
                Err(Refused::All(_)) => {
                    skipped.push(region.skipped("it stopped answering, and entries are missing"));
                    break;
                }
            }
        }
        skipped.dedup();
        Ok(Found { records: newest.into_records(), skipped })
    }

    /// Reads a log group from the end of the window, until older entries cannot be among the newest. Returns a note about
    /// unread ones.
    async fn search_group(
        &self,
        group: &str,
        search: &Search,
        newest: &mut Newest,
        left: &mut usize,
        access: &Access,
    ) -> Result<Option<&'static str>, Refused> {
        let Window { since, until } = search.open_window();
        let (since, mut end) = (since.max(0), until.max(0));
        let (mut length, mut note) = (SLICE, None);
        while end > since {
            let start = end.saturating_sub(length).max(since);
            match self.slice(group, (start, end), left, access).await? {
                Slice::Whole(records) => {
                    let next = next_length(end - start, records.len());
                    for record in records {
                        if search.admits(record.position) && search.wants(&record.parsed) {
                            newest.offer(shortened(record));
                        }
                    }
                    if newest.floor().is_some_and(|floor| floor.time >= start) {
                        break;
                    }
                    (end, length) = (start, next);
                }
                Slice::TooMuch if end - start <= 1 => {
                    note = Some("an instant has more entries than are read");
                    end = start;
                }
                Slice::TooMuch => length = ((end - start) / SHORTER).max(1),
                Slice::NoRequestLeft => {
                    return Ok(Some("there are more entries than are read; ask for one service or a shorter time"));
                }
            }
        }
        Ok(note)
    }

    /// Reads the events from `start` to before `end`, in milliseconds.
    async fn slice(
        &self,
        group: &str,
        (start, end): (i64, i64),
        left: &mut usize,
        access: &Access,
    ) -> Result<Slice, Refused> {
        let (mut events, mut token) = (Events::default(), None::<String>);
        loop {
            if *left == 0 {
                return Ok(Slice::NoRequestLeft);
            }
            *left -= 1;
            // The end of CloudWatch's range is part of it.
            let mut request =
                json!({ "logGroupName": group, "startTime": start, "endTime": end - 1, "limit": SLICE_EVENTS });
            if let (Some(token), Some(members)) = (token.take(), request.as_object_mut()) {
                members.insert("nextToken".to_owned(), Value::from(token));
            }
            let body = self.0.ask("FilterLogEvents", &request, access).await?;
            let page: Events = serde_json::from_slice(&body).map_err(|_other| self.0.not_cloudwatch())?;
            // An answer can have no events and yet a token.
            token = events.extend(page);
            let is_full = events.len() >= SLICE_EVENTS;
            match &token {
                None => break,
                Some(_) if is_full => return Ok(Slice::TooMuch),
                Some(_) => {}
            }
        }
        let (region, group) = (Arc::clone(&self.0), group.to_owned());
        let records =
            tokio::task::spawn_blocking(move || events.records(&region.name, &group, (start, end), region.format));
        Ok(Slice::Whole(records.await.map_err(|_panic| self.0.not_cloudwatch())?))
    }

    async fn find(&self, id: EntryId, access: &Access) -> Result<Found, BackendError> {
        let region = &self.0;
        let (groups, mut skipped) = region.groups(None, access).await?;
        let mut left = REQUESTS_MAX;
        for group in &groups {
            match self.slice(group, (id.time, id.time.saturating_add(1)), &mut left, access).await {
                Ok(Slice::Whole(records)) => {
                    // Its place can change if an entry of the same instant arrives late.
                    let is_it =
                        |record: &Record| record.position.stream == id.stream && record.position.check == id.check;
                    if let Some(record) = records.into_iter().find(is_it) {
                        return Ok(Found { records: vec![record], skipped: Vec::new() });
                    }
                }
                Ok(Slice::TooMuch) => skipped.push(region.skipped("that time has more entries than are read")),
                Ok(Slice::NoRequestLeft) => {
                    skipped.push(region.skipped("there are more log groups than are read"));
                    break;
                }
                Err(Refused::NoGroup) => skipped.push(region.no_group(group)),
                Err(Refused::All(error)) => return Err(error),
            }
        }
        skipped.dedup();
        Ok(Found { records: Vec::new(), skipped })
    }

    async fn list_services(&self, access: &Access) -> Result<Services, BackendError> {
        let (groups, skipped) = self.0.groups(None, access).await?;
        let service = |group: &String| Source {
            service: service_of(group),
            kind: "cloudwatch".into(),
            earliest: None,
            latest: None,
        };
        Ok(Services { services: groups.iter().map(service).collect(), skipped })
    }
}

/// Returns the length of the slice after a whole one with so many events.
fn next_length(length: i64, events: usize) -> i64 {
    let events = i64::try_from(events).unwrap_or(i64::MAX).max(1);
    let wanted = length.saturating_mul(SLICE_EVENTS_WANTED) / events;
    wanted.clamp((length / SHORTER).max(1), length.saturating_mul(LONGER))
}

/// Returns the name of a log group as a service: `_ecs_web` for `/ecs/web`.
fn service_of(group: &str) -> String {
    crate::public_name(group, NAME_MAX)
}

impl Region {
    /// Returns the log groups of a service, or all, in order, and notes about those that are not found.
    async fn groups(
        &self,
        service: Option<&str>,
        access: &Access,
    ) -> Result<(Vec<String>, Vec<Skipped>), BackendError> {
        let (mut groups, mut skipped) = (Vec::new(), Vec::new());
        for pattern in &self.groups {
            match pattern {
                GroupPattern::Name(name) => groups.push(name.clone()),
                GroupPattern::Prefix(prefix) => {
                    if !self.find_groups(prefix, &mut groups, access).await? {
                        skipped.push(self.skipped("there are more log groups than are listed"));
                    }
                }
            }
        }
        groups.retain(|group| service.is_none_or(|service| service_of(group) == service));
        groups.sort();
        groups.dedup();
        Ok((groups, skipped))
    }

    /// Adds the log groups that begin so. Returns whether these are all.
    async fn find_groups(&self, prefix: &str, groups: &mut Vec<String>, access: &Access) -> Result<bool, BackendError> {
        let mut token = None::<String>;
        for _ in 0..GROUPS_MAX.div_ceil(GROUPS_OF_ANSWER) {
            let mut request = json!({ "limit": GROUPS_OF_ANSWER });
            if let Some(members) = request.as_object_mut() {
                members.extend(token.take().map(|token| ("nextToken".to_owned(), Value::from(token))));
                if !prefix.is_empty() {
                    members.insert("logGroupNamePrefix".to_owned(), Value::from(prefix));
                }
            }
            let body = self.ask("DescribeLogGroups", &request, access).await.map_err(|refused| match refused {
                Refused::NoGroup => self.not_cloudwatch(),
                Refused::All(error) => error,
            })?;
            let (names, next) = decode::groups(&body).ok_or_else(|| self.not_cloudwatch())?;
            // SECURITY: only names that the operator has configured are read.
            groups.extend(names.into_iter().filter(|name| name.starts_with(prefix)));
            if groups.len() > GROUPS_MAX {
                groups.truncate(GROUPS_MAX);
                return Ok(false);
            }
            let Some(next) = next else { return Ok(true) };
            token = Some(next);
        }
        Ok(false)
    }

    /// Sends one request.
    async fn ask(&self, operation: &str, request: &Value, access: &Access) -> Result<Vec<u8>, Refused> {
        let Some(SignIn::Signature(key)) = access.credentials.get(&self.name) else {
            return Err(self.unavailable("its secret is missing").into());
        };
        let unwritable = || self.unavailable("the request cannot be written as HTTP");
        let (body, target) = (request.to_string().into_bytes(), format!("Logs_20140328.{operation}"));
        let host = self.url.host_str().unwrap_or_default();
        let host = self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let signed = [(CONTENT_TYPE.as_str(), JSON), ("host", &host), (DATE, key.time()), (TARGET, &target)];
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_bad| unwritable());
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static(JSON)),
            (HeaderName::from_static(DATE), value(key.time())?),
            (HeaderName::from_static(TARGET), value(&target)?),
            (AUTHORIZATION, key.authorization(&signed, &body).map_err(|_bad| unwritable())?),
        ]);
        let uri = self.url.as_str().parse().map_err(|_long| unwritable())?;
        // A server that is silent does not keep the entries of the other backends back.
        let left = access.deadline.saturating_duration_since(Instant::now());
        let deadline = Instant::now() + left / 3 * 2;
        let exchange = Exchange { method: Method::POST, uri, headers, body, deadline };
        let response = self.http.exchange(exchange).await.map_err(|error| match error {
            HttpError::Deadline => self.unavailable("it does not answer in time"),
            HttpError::NotHttp => unwritable(),
            HttpError::Setup(_) | HttpError::Unreachable(_) | HttpError::Lost(_) => {
                self.unavailable("it cannot be reached")
            }
        })?;
        let (head, body) = remote::read(response, RESULT_BYTES_MAX, deadline).await;
        let body = body.map_err(|error| {
            self.unavailable(match error {
                BodyError::TooLarge => "its answer is larger than is read",
                BodyError::Encoded => "its answer is compressed, although nobody asked for that",
                BodyError::Broken => "its answer breaks off",
                BodyError::Late => "it does not answer in time",
            })
        });
        if head.status == StatusCode::OK {
            Ok(body?)
        } else {
            Err(self.refused(head.status, &body.unwrap_or_default()))
        }
    }

    /// Explains an answer that is not 200. Only known words of it are shown.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Refused {
        let kind = decode::fault(body).unwrap_or_default();
        let reason = match (kind.as_str(), status) {
            ("ResourceNotFoundException", _) => return Refused::NoGroup,
            ("ThrottlingException" | "ServiceUnavailableException" | "LimitExceededException", _) => {
                "it limits requests now; try again later".to_owned()
            }
            ("AccessDeniedException", _) => {
                "the access key may not read these log groups (AccessDeniedException)".to_owned()
            }
            (
                "UnrecognizedClientException"
                | "InvalidSignatureException"
                | "IncompleteSignatureException"
                | "ExpiredTokenException"
                | "MissingAuthenticationTokenException",
                _,
            ) => format!("it refuses the access key; check it and the clock ({kind})"),
            (_, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) => {
                format!("it refuses the access key ({})", status.as_u16())
            }
            (_, status) => format!("it answers {}", status.as_u16()),
        };
        self.unavailable(&reason).into()
    }

    fn not_cloudwatch(&self) -> BackendError {
        self.unavailable("its answer is not that of CloudWatch Logs")
    }

    fn unavailable(&self, reason: &str) -> BackendError {
        BackendError::Unavailable { what: "cloudwatch", reason: format!("{}: {reason}", self.name) }
    }

    fn skipped(&self, reason: &str) -> Skipped {
        Skipped::new("cloudwatch", &format!("{}: {reason}", self.name))
    }

    fn no_group(&self, group: &str) -> Skipped {
        Skipped::new(&service_of(group), &format!("{}: there is no such log group", self.name))
    }
}

impl Backend for CloudWatch {
    fn query(&self, search: Arc<Search>, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.search(&search, &access).await })
    }

    fn entry(&self, id: EntryId, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.find(id, &access).await })
    }

    fn services(&self, access: Access) -> Running<Result<Services, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.list_services(&access).await })
    }
}

#[cfg(test)]
mod tests;
