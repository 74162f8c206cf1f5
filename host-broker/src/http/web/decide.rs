//! A person's answer from a page: the same command as the command line's, through the same command dispatcher.

use super::inbox::NOT_YOURS;
use super::other_hosts::no_reply;
use super::page::answered::Answered;
use super::read_pool::{self, Listed};
use super::{Shared, html, page};
use crate::control::approvals::ApprovalRecord;
use crate::control::{Asked, SocketRequest};
use crate::fleet_commands::{FleetRequest, NoReply};
use crate::http::web::sessions::{Use, Visitor};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::approval_requests::{AnswerChannel, ApprovalAnswer, may_answer};
use engine::request::Command;
use model::HostName;
use model::access::AccessScope;
use model::approval::{Approval, ApprovalState, SubjectKind};
use model::standing_approval::StandingScope;
use serde::Deserialize;
use serde_json::Value;
use shared::reply::Status;
use shared::{Action, Level, Reply};
use std::collections::BTreeSet;
use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;
use store::state::approvals;
use store::{StoreError, View};
use tokio::time::Instant;

/// The content of the form.
#[derive(Deserialize)]
pub(super) struct AnswerForm {
    // Of the session.
    form: String,
    // Of everything that was shown.
    digest: String,
    #[serde(rename = "answer")]
    said: Choice,
    #[serde(default)]
    reason: String,
    // Of a standing approval: its time in seconds, or `session`.
    #[serde(default)]
    standing: String,
    // The names of the parameters that must stay as they are.
    #[serde(default)]
    fixed: String,
    #[serde(default)]
    production: Option<String>,
    #[serde(default)]
    trifecta: Option<String>,
    // Of the access to be given; empty as requested.
    #[serde(default)]
    level: String,
    #[serde(default)]
    actions: String,
    #[serde(default)]
    access_s: String,
    #[serde(default)]
    gate: String,
}

/// Whether a character stands between two names of a list.
fn is_between(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

/// Returns the actions of a list; `None` if a name is not valid, or if it has separators only.
pub(super) fn action_names(text: &str) -> Option<BTreeSet<Action>> {
    if text.contains(',') && text.chars().all(is_between) {
        return None;
    }
    text.split(is_between).filter(|name| !name.is_empty()).map(|name| name.parse().ok()).collect()
}

/// Returns the level of a field, if it is one.
pub(super) fn level(text: &str) -> Option<Level> {
    text.trim().parse().ok().and_then(Level::from_number)
}

/// The time of a standing approval for a session, which can end it earlier.
pub(super) const SESSION_S: u64 = 24 * 3600;

impl AnswerForm {
    /// Returns the scope of the standing approval that the person gives, if the form asks for one.
    ///
    /// # Errors
    /// The time is none of the form's.
    fn scope(&self) -> Result<Option<StandingScope>, ParseIntError> {
        if self.standing.is_empty() || self.said != Choice::Yes {
            return Ok(None);
        }
        let session = self.standing == "session";
        let for_s = if session { SESSION_S } else { self.standing.parse()? };
        let fixed = self.fixed.split(is_between).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let (production, trifecta) = (self.production.is_some(), self.trifecta.is_some());
        Ok(Some(StandingScope { for_s, session, fixed, production, trifecta }))
    }
}

impl AnswerForm {
    /// Returns the access that the person gives, if it is not the requested one.
    ///
    /// # Errors
    /// The field whose text is not valid.
    fn access(&self) -> Result<Option<AccessScope>, &'static str> {
        let set = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty() && self.said == Choice::Yes);
        let level = |text: String| level(&text).ok_or("level");
        let actions = |text: String| action_names(&text).ok_or("actions");
        let scope = AccessScope {
            access_level: set(&self.level).map(level).transpose()?,
            actions: set(&self.actions).map(actions).transpose()?,
            duration_s: set(&self.access_s).map(|text| text.parse().map_err(|_bad| "time")).transpose()?,
            gate: set(&self.gate).map(|text| text.parse().map_err(|_bad| "gate")).transpose()?,
        };
        Ok((!scope.is_empty()).then_some(scope))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Yes,
    // Of changes to files: and they are made at once.
    Apply,
    No,
}

/// The broker's response to the answer.
pub(super) enum FormOutcome {
    /// It counts: the sentence.
    Counted(String),
    /// It does not: the sentence.
    Refused(String),
    /// The result is unknown.
    Unknown(String),
}

/// How long the broker may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `POST /approvals/ask-N/answer`
pub(super) async fn answer(
    State(shared): State<Shared>,
    Path(reference): Path<String>,
    headers: HeaderMap,
    form: Result<Form<AnswerForm>, FormRejection>,
) -> Response {
    let (visitor, form) = match shared.sent(&headers, &format!("/approvals/{reference}"), form) {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let found = look(&shared, move |ledger| {
        approvals::named(ledger, &reference)?.map(|found| ApprovalRecord::of(ledger, found)).transpose()
    });
    match found.await {
        Some(Some(record)) => decide(&shared, &visitor, &form, Listed { record, host: None }).await,
        Some(None) => shared.nothing(&visitor, StatusCode::NOT_FOUND, NOT_YOURS),
        None => shared.nothing(&visitor, StatusCode::SERVICE_UNAVAILABLE, UNREADABLE),
    }
}

/// `POST /hosts/NAME/approvals/ask-N/answer`
pub(super) async fn answer_on_host(
    State(shared): State<Shared>,
    Path((host, reference)): Path<(HostName, String)>,
    headers: HeaderMap,
    form: Result<Form<AnswerForm>, FormRejection>,
) -> Response {
    let (visitor, form) = match shared.sent(&headers, &format!("/hosts/{host}/approvals/{reference}"), form) {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    match shared.one_on_other_host(&visitor.person, &host, &reference).await {
        Ok(Some(listed)) => decide(&shared, &visitor, &form, listed).await,
        Ok(None) => shared.nothing(&visitor, StatusCode::NOT_FOUND, NOT_YOURS),
        Err(reason) => shared.no_answer_of(&visitor, &host, &reason),
    }
}

const UNREADABLE: &str = "The ledger cannot be read just now. Try again; for the reason: host-broker logs";

impl Shared {
    /// Says why nothing was answered.
    fn nothing(&self, visitor: &Visitor, status: StatusCode, words: &str) -> Response {
        self.told(status, Some(visitor), "Nothing was answered", words)
    }

    /// Returns the person and the form, if a page of the person's session has sent it. `page` is the address of the page.
    fn sent(
        &self,
        headers: &HeaderMap,
        page: &str,
        form: Result<Form<AnswerForm>, FormRejection>,
    ) -> Result<(Visitor, AnswerForm), Box<Response>> {
        let visitor = self.visitor(headers, Use::Page).ok_or_else(|| Box::new(self.sign_in_first(headers, page)))?;
        let Form(form) = form.map_err(|rejection| {
            let words = "This is not an answer to an approval request.";
            Box::new(self.nothing(&visitor, rejection.status(), words))
        })?;
        if visitor.sent(&form.form) {
            return Ok((visitor, form));
        }
        let words = "The page is older than your sign-in. Open the approval request again.";
        Err(Box::new(self.nothing(&visitor, StatusCode::FORBIDDEN, words)))
    }
}

/// Answers an approval request, and shows the result.
async fn decide(shared: &Shared, visitor: &Visitor, form: &AnswerForm, listed: Listed) -> Response {
    let approval = &listed.record.approval;
    // A person who may not answer has seen nothing; the broker refuses the answer, and records it. Another host shows
    // only those that the person may answer.
    let has_seen = listed.host.is_some() || may_answer(&shared.web.config, &visitor.person, approval);
    if has_seen && form.digest != approval.digest.hex() {
        let words = "The approval request has changed since the page was loaded. Open it again.";
        return shared.nothing(visitor, StatusCode::CONFLICT, words);
    }
    let Ok(standing) = form.scope() else {
        let words = "The time of the standing approval is not one of the page's.";
        return shared.nothing(visitor, StatusCode::BAD_REQUEST, words);
    };
    let access = match form.access() {
        Ok(access) => access,
        Err(field) => {
            let words = format!("The {field} of the access is not valid.");
            return shared.nothing(visitor, StatusCode::BAD_REQUEST, &words);
        }
    };
    let came = put(shared, visitor, &listed, form, (standing, access)).await;
    let status = match came {
        FormOutcome::Counted(_) => StatusCode::OK,
        FormOutcome::Refused(_) => StatusCode::CONFLICT,
        FormOutcome::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let counts = matches!(came, FormOutcome::Counted(_));
    let settled = counts && form.said != Choice::No;
    let timeout = if settled { OUTCOME_TIMEOUT } else { Duration::ZERO };
    let wants_now = form.said == Choice::Apply;
    let Some((found, waiting)) = settle(shared, visitor, &listed, (timeout, wants_now)).await else {
        return shared.nothing(visitor, StatusCode::SERVICE_UNAVAILABLE, UNREADABLE);
    };
    let unread =
        Listed { record: ApprovalRecord { answers: Vec::new(), outcome: None, ..listed.record }, host: listed.host };
    let listed = found.unwrap_or(unread);
    let now = shared.web.clock.now();
    let answered = Answered { listed: &listed, yes: form.said != Choice::No, came: &came, waiting: &waiting };
    html(status, page::answered::page(visitor, now, &answered))
}

/// The longest time that a page waits for the outcome of an approval.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest times until another host takes an answer, and then until it replies.
const ANSWER_WITHIN: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(10));
/// How often it is looked for, here and on another host.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_FAR: Duration = Duration::from_millis(500);

/// Returns the approval request after the answer, and the person's other pending ones. `None` if the ledger cannot be read.
///
/// It has its outcome if that is known in time.
async fn settle(
    shared: &Shared,
    visitor: &Visitor,
    answered: &Listed,
    (timeout, wants_now): (Duration, bool),
) -> Option<(Option<Listed>, Vec<Listed>)> {
    let until = Instant::now() + timeout;
    loop {
        let (person, reference) = (visitor.person.clone(), answered.record.approval.reference());
        let listed = if let Some(host) = &answered.host {
            shared.one_on_other_host(&person, host, &reference).await.ok().flatten()
        } else {
            let config = Arc::clone(&shared.web.config);
            look(shared, move |ledger| read_pool::one(ledger, &config, &person, &reference)).await?
        };
        let is_open = listed.as_ref().is_some_and(|listed| is_open(&listed.record, wants_now));
        if is_open && Instant::now() < until {
            tokio::time::sleep(if answered.host.is_some() { LOOK_FAR } else { LOOK }).await;
            continue;
        }
        let (config, person, now) = (Arc::clone(&shared.web.config), visitor.person.clone(), shared.web.clock.now());
        // A page about this host does not wait for the others.
        let mut others = match &answered.host {
            Some(_) => shared.waiting_on_other_hosts(&person).await.0,
            None => Vec::new(),
        };
        let mut waiting = look(shared, move |ledger| read_pool::waiting(ledger, &config, &person, now)).await?.mine;
        waiting.append(&mut others);
        waiting.retain(|one| one.path() != answered.path());
        return Some((listed, waiting));
    }
}

/// Looks into the ledger on a thread that may wait; `None` if it cannot be read.
pub(super) async fn look<T: Send + 'static>(
    shared: &Shared,
    look: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
) -> Option<T> {
    let read_pool = Arc::clone(&shared.read_pool);
    tokio::task::spawn_blocking(move || read_pool.look(look)).await.ok()?.ok()
}

/// Checks whether the outcome of an approval will change soon.
fn is_open(ApprovalRecord { approval, outcome, .. }: &ApprovalRecord, wants_now: bool) -> bool {
    match (approval.kind, outcome) {
        (SubjectKind::File, _) if !wants_now => false,
        (_, Some(outcome)) => outcome.is_open() && !is_refused(approval),
        (SubjectKind::File | SubjectKind::Grant | SubjectKind::Access | SubjectKind::Plan, None) => {
            approval.state == ApprovalState::Approved
        }
        (SubjectKind::Call | SubjectKind::Account | SubjectKind::Definition | SubjectKind::Flow, None) => false,
    }
}

/// Checks whether it ended without an effect.
fn is_refused(approval: &Approval) -> bool {
    approval.state == ApprovalState::Closed && approval.became.as_deref() != Some("spent")
}

/// Sends the answer to the broker. The code always belongs to this approval request, whose subject never changes.
async fn put(
    shared: &Shared,
    visitor: &Visitor,
    listed: &Listed,
    form: &AnswerForm,
    (standing, access): (Option<StandingScope>, Option<AccessScope>),
) -> FormOutcome {
    let reason = Some(form.reason.trim()).filter(|reason| !reason.is_empty()).map(ToOwned::to_owned);
    let (code, yes, apply) = (listed.record.approval.code.clone(), form.said != Choice::No, form.said == Choice::Apply);
    let reason = reason.filter(|_| !yes);
    let given = ApprovalAnswer {
        standing,
        access,
        channel: AnswerChannel::Web,
        ..ApprovalAnswer::new(code, yes, reason, apply)
    };
    match (&listed.host, shared.web.dispatcher.other_hosts.as_ref()) {
        (None, _) => send(shared, visitor, Command::Answer(given)).await,
        (Some(host), Some(others)) => {
            let request = Box::new(SocketRequest::Command(Command::Answer(given)));
            let request = FleetRequest { host: host.clone(), request };
            match others.ask_within(&visitor.person, request, ANSWER_WITHIN).await {
                Ok(reply) => outcome_of_host(&reply),
                Err(none @ NoReply::NotExecuted(_)) => {
                    FormOutcome::Refused(format!("The host {host} has not taken it: {}.", no_reply(host, &none)))
                }
                Err(none @ NoReply::Unknown(_)) => {
                    FormOutcome::Unknown(format!("The host {host}: {}.", no_reply(host, &none)))
                }
            }
        }
        (Some(_), None) => FormOutcome::Refused("This host knows no other hosts.".to_owned()),
    }
}

/// Sends a command of a person to the broker.
pub(super) async fn send(shared: &Shared, visitor: &Visitor, command: Command) -> FormOutcome {
    let asked = Asked { person: visitor.person.clone(), command, channel: "web" };
    match tokio::time::timeout(TIMEOUT, shared.web.dispatcher.ask(&shared.web.reports, asked)).await {
        Ok(Ok(reply)) => outcome_of(&reply),
        Ok(Err(why)) => FormOutcome::Unknown(format!("The broker has not answered: {why}.")),
        Err(_elapsed) => FormOutcome::Unknown("The broker has not answered in time.".to_owned()),
    }
}

/// The outcome in the reply of another host, whose refusals need not have all members of a reply.
fn outcome_of_host(reply: &Value) -> FormOutcome {
    let text = |name: &str| reply.get(name).and_then(Value::as_str);
    match (text("status"), text("error")) {
        (Some("executed"), _) => FormOutcome::Counted(text("summary").unwrap_or_default().to_owned()),
        (_, Some(error)) => FormOutcome::Refused(error.to_owned()),
        (_, None) => FormOutcome::Unknown("The broker's answer cannot be read.".to_owned()),
    }
}

fn outcome_of(reply: &[u8]) -> FormOutcome {
    match serde_json::from_slice::<Reply>(reply).ok() {
        Some(Reply { status: Status::Executed, summary, .. }) => FormOutcome::Counted(summary.unwrap_or_default()),
        Some(Reply { error: Some(error), .. }) => FormOutcome::Refused(error),
        Some(_) | None => FormOutcome::Unknown("The broker's answer cannot be read.".to_owned()),
    }
}
