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

use crate::backend::{Access, BackendError, Found, Remote, SignIn, Source, Sources};
use crate::entry::{Record, shortened};
use crate::format::Format;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::transport::{self, Answer};
use crate::window::Window;
use decode::Events;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use platform::http::{Exchange, Http};
use serde_json::{Value, json};
use settings::GroupPattern;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The most events and bytes of a slice.
const SLICE_EVENTS: usize = 1000;
const SLICE_BYTES: usize = 4 * 1024 * 1024;
/// The most answers for a slice: with events, and without any, as CloudWatch gives them while it looks through streams.
const SLICE_ANSWERS: usize = 3;
const EMPTY_ANSWERS: usize = 10;
/// The first slice, in milliseconds, and the factors by which the next one can be longer or shorter.
const SLICE: i64 = 15 * 60 * 1000;
const LONGER: i64 = 4;
const SHORTER: i64 = 8;
/// How full the next slice shall be, in thousandths of the bounds.
const FULLNESS: i64 = 600;
/// The most requests for events in one query. The log groups share them.
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
    /// It was read to its end. It was so full, in thousandths of the bounds. These events are wanted.
    Whole(usize, Vec<Record>),
    /// It has more events than are read at once. The oldest were read, up to this time, and of these some are wanted.
    Part(Option<i64>, Vec<Record>),
    /// No request is left.
    NoRequestLeft,
}

/// The state of one query.
struct Reading {
    newest: Newest,
    /// The requests that are left for the log group.
    left: usize,
    /// Whether the region has answered for a log group.
    has_answered: bool,
}

/// Why a log group gave nothing.
enum Refused {
    /// This log group cannot be read.
    Group(String),
    /// The region cannot be used.
    Region(String),
    /// The region limits requests.
    Limited(Option<Duration>),
    /// The answer has more bytes than are read.
    TooLarge,
}

const MORE: &str = "there are more entries than are read; ask for one service or a shorter time";
const INSTANT: &str = "an instant has more entries than are read";

impl CloudWatch {
    pub(crate) fn new(region: Region) -> Self {
        Self(Arc::new(region))
    }

    /// Reads a log group from the end of the window, until older entries cannot be among the newest. Returns a note about
    /// unread ones.
    async fn search_group(
        &self,
        group: &str,
        search: &Arc<Search>,
        reading: &mut Reading,
        access: &Access,
    ) -> Result<Option<&'static str>, Refused> {
        let Window { since, until } = search.open_window();
        let (since, mut end) = (since.max(0), until.max(0));
        let (mut length, mut note, mut is_dense) = (SLICE, None, false);
        // An entry of the floor's instant can still be among the newest.
        while end > since && reading.newest.floor().is_none_or(|floor| floor.time < end) {
            let start = end.saturating_sub(length).max(since);
            let wanted = Arc::clone(search);
            let keep = move |record: &Record| wanted.admits(record.position) && wanted.wants(&record.parsed);
            let slice = self.slice(group, (start, end), &mut reading.left, access, keep).await?;
            reading.has_answered = true;
            match slice {
                Slice::Whole(fullness, records) => {
                    reading.newest.offer_all(records);
                    // Most log groups are quiet, and then two slices are all.
                    let is_quiet = fullness == 0 && !is_dense;
                    length = if is_quiet { end - since } else { next_length(end - start, fullness) };
                    end = start;
                }
                Slice::Part(_, records) if end - start <= 1 => {
                    reading.newest.offer_all(records);
                    note = Some(INSTANT);
                    (end, length) = (start, SLICE);
                }
                Slice::Part(last, _) => (length, is_dense) = (shorter_length((start, end), last), true),
                Slice::NoRequestLeft => return Ok(Some(MORE)),
            }
        }
        Ok(note)
    }

    /// Reads the events from `start` to before `end`, in milliseconds. Returns those that `keep` wants.
    async fn slice(
        &self,
        group: &str,
        (start, end): (i64, i64),
        left: &mut usize,
        access: &Access,
        keep: impl Fn(&Record) -> bool + Send + 'static,
    ) -> Result<Slice, Refused> {
        let (mut events, mut token, mut bytes, mut answers) = (Events::default(), None::<String>, 0, 0);
        let is_whole = loop {
            if *left == 0 {
                return Ok(Slice::NoRequestLeft);
            }
            *left -= 1;
            // The documentation counts the end to the range, and reports from the field do not. So it is asked for, too.
            let mut request =
                json!({ "logGroupName": group, "startTime": start, "endTime": end, "limit": SLICE_EVENTS });
            if let (Some(token), Some(members)) = (token.take(), request.as_object_mut()) {
                members.insert("nextToken".to_owned(), Value::from(token));
            }
            let body = match self.0.ask("FilterLogEvents", &request, access).await {
                Err(Refused::TooLarge) => break false,
                answer => answer?,
            };
            let page: Events = serde_json::from_slice(&body).map_err(|_other| not_cloudwatch())?;
            (bytes, answers) = (bytes + body.len(), answers + 1);
            // An answer can have no events and yet a token.
            token = events.extend(page, (start, end));
            let has_enough = events.len() >= SLICE_EVENTS
                || bytes >= SLICE_BYTES
                || answers >= if events.len() == 0 { EMPTY_ANSWERS } else { SLICE_ANSWERS };
            if token.is_none() || has_enough {
                break token.is_none();
            }
        };
        let fullness = match events.len() {
            0 => 0,
            count => [(count, SLICE_EVENTS), (bytes, SLICE_BYTES), (answers, SLICE_ANSWERS)]
                .map(|(value, bound)| value.saturating_mul(1000) / bound)
                .into_iter()
                .fold(1, usize::max),
        };
        let last = events.last_time();
        let (region, group) = (Arc::clone(&self.0), group.to_owned());
        let records = transport::decoded(move || {
            let records = events.records(&region.name, &group, region.format);
            records.filter(keep).map(shortened).collect::<Vec<_>>()
        });
        let records = records.await.ok_or_else(not_cloudwatch)?;
        Ok(if is_whole { Slice::Whole(fullness, records) } else { Slice::Part(last, records) })
    }
}

impl Remote for CloudWatch {
    async fn search(&self, search: &Arc<Search>, access: &Access) -> Result<Found, BackendError> {
        let region = &self.0;
        let (groups, mut skipped) = region.groups(search.service.as_deref(), access).await?;
        let mut reading = Reading { newest: Newest::new(search.limit), left: 0, has_answered: false };
        let mut unshared = REQUESTS_MAX;
        for (place, group) in groups.iter().enumerate() {
            // The rest of a log group's share is for those after it.
            reading.left = unshared.div_ceil(groups.len() - place);
            unshared -= reading.left;
            let outcome = self.search_group(group, search, &mut reading, access).await;
            unshared += reading.left;
            match outcome {
                Ok(None) => {}
                Ok(Some(note)) => skipped.push(region.of_group(group, note)),
                Err(Refused::Group(reason)) => skipped.push(region.of_group(group, &reason)),
                Err(Refused::TooLarge) => skipped.push(region.of_group(group, "its answer is larger than is read")),
                Err(Refused::Region(reason)) if reading.has_answered => {
                    skipped.push(region.skipped(&format!("{reason}, and entries are missing")));
                    break;
                }
                Err(Refused::Limited(pause)) if reading.has_answered => {
                    skipped.push(region.skipped(&format!("{}, and entries are missing", transport::limited(pause))));
                    break;
                }
                Err(Refused::Region(reason)) => return Err(region.unavailable(&reason)),
                Err(Refused::Limited(pause)) => return Err(region.limited(pause)),
            }
        }
        skipped.dedup();
        Ok(Found { records: reading.newest.into_records(), skipped })
    }

    async fn find(&self, id: EntryId, access: &Access) -> Result<Found, BackendError> {
        let region = &self.0;
        // The place of an entry begins with the check of its log group, so only that one is asked.
        let is_of = |group: &String| decode::group_check(&region.name, group) == id.place >> 32;
        let named = region.groups.iter().any(|pattern| match pattern {
            GroupPattern::Name(name) => is_of(name),
            GroupPattern::Prefix(_) => true,
        });
        if !named {
            return Ok(Found::default());
        }
        let (groups, mut skipped) = region.groups(None, access).await?;
        for group in groups.iter().filter(|group| is_of(group)) {
            let mut left = EMPTY_ANSWERS;
            // The rest of its place can change if an entry of the same instant arrives late.
            let is_it = move |record: &Record| record.position.stream == id.stream && record.position.check == id.check;
            match self.slice(group, (id.time, id.time.saturating_add(1)), &mut left, access, is_it).await {
                Ok(Slice::Whole(_, records)) if records.is_empty() => {}
                Ok(Slice::Whole(_, mut records) | Slice::Part(_, mut records)) if !records.is_empty() => {
                    records.truncate(1);
                    return Ok(Found { records, skipped: Vec::new() });
                }
                Ok(Slice::Whole(..) | Slice::Part(..) | Slice::NoRequestLeft) => {
                    skipped.push(region.of_group(group, INSTANT));
                }
                Err(Refused::Group(reason)) => skipped.push(region.of_group(group, &reason)),
                Err(Refused::TooLarge) => skipped.push(region.of_group(group, INSTANT)),
                Err(Refused::Region(reason)) => return Err(region.unavailable(&reason)),
                Err(Refused::Limited(pause)) => return Err(region.limited(pause)),
            }
        }
        Ok(Found { records: Vec::new(), skipped })
    }

    async fn list_services(&self, access: &Access) -> Result<Sources, BackendError> {
        let (groups, skipped) = self.0.groups(None, access).await?;
        let services: BTreeSet<String> = groups.iter().map(|group| service_of(group)).collect();
        let service = |service| Source { service, kind: "cloudwatch".into(), earliest: None, latest: None };
        Ok(Sources { services: services.into_iter().map(service).collect(), skipped, has_unlisted: false })
    }

    async fn connect(&self, access: &Access) -> Result<String, BackendError> {
        let region = &self.0;
        let (groups, _skipped) = region.groups(None, access).await?;
        let Some(group) = groups.first() else {
            return Err(region.unavailable("it has no log group that `groups` names"));
        };
        // The first millisecond of all has no events.
        match self.slice(group, (0, 1), &mut 1, access, |_record| false).await {
            Ok(_) | Err(Refused::TooLarge) => {
                Ok(format!("cloudwatch {} lets the log group {} be read.", region.name, service_of(group)))
            }
            Err(Refused::Group(reason)) => Err(region.unavailable(&format!("{}: {reason}", service_of(group)))),
            Err(Refused::Region(reason)) => Err(region.unavailable(&reason)),
            Err(Refused::Limited(pause)) => Err(region.limited(pause)),
        }
    }
}

/// Returns the length of the slice after a whole one that was so full, in thousandths.
fn next_length(length: i64, fullness: usize) -> i64 {
    let fullness = i64::try_from(fullness).unwrap_or(i64::MAX).max(1);
    let next = length.saturating_mul(FULLNESS) / fullness;
    next.clamp((length / SHORTER).max(1), length.saturating_mul(LONGER))
}

/// Returns the length of the slice after a part of one, whose oldest events were read up to this time. The next one begins
/// behind them if that is short enough.
fn shorter_length((start, end): (i64, i64), last: Option<i64>) -> i64 {
    let shorter = (end - start) / SHORTER;
    last.map_or(shorter, |last| shorter.min(end - last - 1)).max(1)
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
                Refused::Group(reason) | Refused::Region(reason) => self.unavailable(&reason),
                Refused::Limited(pause) => self.limited(pause),
                Refused::TooLarge => self.unavailable("its answer is larger than is read"),
            })?;
            let (names, next) =
                decode::groups(&body).ok_or_else(|| self.unavailable("its answer is not that of CloudWatch Logs"))?;
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
        let of_region = |reason: &str| Refused::Region(reason.to_owned());
        let Some(SignIn::Signature(key)) = access.credentials.get(&self.name) else {
            return Err(of_region("its secret is missing"));
        };
        let unwritable = || of_region(transport::UNWRITABLE);
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
        let exchange = Exchange { method: Method::POST, uri, headers, body, deadline: access.deadline };
        let Answer { status, body, retry_after } =
            transport::send(self.http.as_ref(), exchange).await.map_err(of_region)?;
        match status {
            StatusCode::OK => body.ok_or(Refused::TooLarge),
            status => Err(refused(status, &body.unwrap_or_default(), retry_after)),
        }
    }

    fn unavailable(&self, reason: &str) -> BackendError {
        BackendError::Unavailable { what: "cloudwatch", reason: format!("{}: {reason}", self.name) }
    }

    fn limited(&self, retry_after: Option<Duration>) -> BackendError {
        let reason = format!("{}: {}", self.name, transport::limited(retry_after));
        BackendError::Limited { what: "cloudwatch", reason, retry_after }
    }

    fn skipped(&self, reason: &str) -> Skipped {
        Skipped::new("cloudwatch", &format!("{}: {reason}", self.name))
    }

    fn of_group(&self, group: &str, reason: &str) -> Skipped {
        Skipped::new(&service_of(group), &format!("{}: {reason}", self.name))
    }
}

fn not_cloudwatch() -> Refused {
    Refused::Region("its answer is not that of CloudWatch Logs".to_owned())
}

/// Explains an answer that is not 200. Only known words of it are shown.
fn refused(status: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Refused {
    let kind = decode::fault(body).unwrap_or_default();
    match (kind.as_str(), status) {
        ("ResourceNotFoundException", _) => Refused::Group("there is no such log group".to_owned()),
        ("AccessDeniedException", _) => {
            Refused::Group("the access key has no permission for this (AccessDeniedException)".to_owned())
        }
        ("InvalidParameterException" | "InvalidOperationException", _) => {
            Refused::Group(format!("it cannot be searched ({kind})"))
        }
        ("ThrottlingException" | "ServiceUnavailableException" | "LimitExceededException", _)
        | (_, StatusCode::TOO_MANY_REQUESTS) => Refused::Limited(retry_after),
        (
            "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "ExpiredTokenException"
            | "MissingAuthenticationTokenException",
            _,
        ) => Refused::Region(format!(
            "it refuses the access key; the operator must check its id, its secret and the clock ({kind})"
        )),
        (_, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) => {
            let reason = "it refuses the access key; the operator must check its id, its secret and its policy";
            Refused::Region(format!("{reason} ({})", status.as_u16()))
        }
        (_, status) => Refused::Region(format!("it answers {}", status.as_u16())),
    }
}

#[cfg(test)]
mod tests;
