//! Gmail's API: a mailbox over HTTP, with an OAuth access token.
//!
//! A folder is a label. A message has all labels at once, and keeps its id when it gets another.
//!
//! Source: Gmail API reference, version 1, `users.messages`, `users.labels`, `users.drafts`.

mod client;
mod labels;

use crate::Mail;
use crate::address::Address;
use crate::backend::{Content, Opened, Purpose, Target};
use crate::failures::{Sending, guardrail, unknown_reference};
use crate::list_messages::{Day, Listed, Marks, Search, Summary};
use crate::read_attachment::MESSAGE_BYTES_MAX;
use crate::reference::{Cursor, Folder, MessageRef};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use client::Session;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use labels::{ALL_MAIL, DRAFT, INBOX, SENT, SPAM, TRASH, UNREAD};
use model::Nonce;
use platform::http::Http;
use provider::contract::{Execution, Failure, Probed};
use provider::remote;
use serde::Deserialize;
use serde_json::json;
use shared::limits::RESULT_BYTES_MAX;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use url::Url;

/// The address of the API, unless the table has another.
pub(crate) const URL: &str = "https://gmail.googleapis.com/";
/// The header field that names the effect of a message. Gmail can replace its `Message-ID`.
pub(crate) const NONCE_FIELD: &str = "X-Broker-Nonce";
/// The fields of a message that a list shows, as senders write their names. Gmail may compare the case.
const LISTED: [&str; 16] = [
    "From",
    "FROM",
    "To",
    "TO",
    "Cc",
    "CC",
    "Subject",
    "SUBJECT",
    "Date",
    "DATE",
    "Message-ID",
    "Message-Id",
    "Message-id",
    "In-Reply-To",
    "In-Reply-to",
    "In-reply-to",
];
/// The fields by which a lost message is found.
const MARKED: [&str; 3] = ["Message-ID", "Message-Id", NONCE_FIELD];
/// The most bytes of an answer with the header fields of one message, and of one field in a list.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const FIELD_BYTES_MAX: usize = 4 * 1024;
/// The most bytes of an answer with the ids of messages.
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// The number of messages that one call fetches at once. Gmail limits the requests that are under way.
const AT_ONCE: usize = 4;
/// The number of messages that are downloaded and decoded at once, for all calls.
const DOWNLOADS_MAX: usize = 4;
/// The most messages in which a lost one is looked for.
const LOOKED_MAX: usize = 50;

/// Gmail's API.
pub(crate) struct Gmail {
    url: Url,
    http: Arc<dyn Http>,
    downloads: Arc<Semaphore>,
}

/// The mailbox of one execution.
pub(crate) struct Mailbox {
    session: Session,
    downloads: Arc<Semaphore>,
}

/// Returns the label of a purpose.
pub(crate) fn folder(purpose: Purpose) -> Folder {
    Folder::known(match purpose {
        Purpose::Archive => ALL_MAIL,
        Purpose::Trash => TRASH,
        Purpose::Drafts => DRAFT,
        Purpose::Sent => SENT,
    })
}

impl Gmail {
    pub(crate) fn new(url: Url, http: Arc<dyn Http>) -> Self {
        Self { url, http, downloads: Arc::new(Semaphore::new(DOWNLOADS_MAX)) }
    }

    /// Asks the API without a sign-in. Returns the status of its answer, which is not that of a fault.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn status(&self, deadline: Instant) -> Result<u16, Failure> {
        let status = remote::status_of(self.http.as_ref(), &self.url, deadline).await;
        match status.map_err(|error| client::unanswered(&error))? {
            status @ 500.. => Err(Failure::Unavailable { message: format!("Gmail answers {status}.") }),
            status => Ok(status),
        }
    }

    /// Returns the address of a resource in the mailbox of an address. The API refuses a token of another mailbox.
    pub(crate) fn resource(&self, address: &Address, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["gmail", "v1", "users", address.as_str()]).extend(path);
        }
        url
    }
}

impl Mail {
    /// Opens the mailbox. It contacts no server.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) fn gmail(&self, gmail: &Gmail, execution: &Execution) -> Result<Mailbox, Failure> {
        let (_, token) = self.account.sign_in(execution)?;
        let authorization = remote::authorization(None, &token).ok_or_else(|| Failure::Refused {
            message: "The token of the mail account has characters that no header can have.".into(),
        })?;
        let base = gmail.resource(self.address()?, &[]);
        let (http, account) = (Arc::clone(&gmail.http), self.account.clone());
        let session = Session { http, account, base, authorization, deadline: execution.deadline() };
        Ok(Mailbox { session, downloads: Arc::clone(&gmail.downloads) })
    }
}

/// The messages of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    messages: Vec<Named>,
    #[serde(default, rename = "nextPageToken")]
    next: Option<String>,
}

/// A message in a list.
#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The properties of a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    #[serde(default)]
    label_ids: Vec<String>,
    size_estimate: Option<u32>,
    #[serde(default)]
    payload: Payload,
}

#[derive(Default, Deserialize)]
struct Payload {
    #[serde(default)]
    headers: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(default)]
    value: String,
}

/// The content of a message.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    raw: Cow<'a, str>,
}

impl Found {
    fn has(&self, label: &str) -> bool {
        self.label_ids.iter().any(|of| of == label)
    }

    /// Returns the values of a field, one line each.
    fn values(&self, name: &str) -> Vec<String> {
        let fields = self.payload.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        fields.map(Field::line).collect()
    }

    /// Returns the entry of the message in a list.
    fn summary(&self, id: String) -> Summary {
        let (bytes, is_read) = (self.size_estimate.unwrap_or_default(), !self.has(UNREAD));
        let summary = Summary::of(id, &self.header(), &Marks { bytes, is_read, is_answered: None });
        // SECURITY: a name that was encoded can look like an address after Gmail has decoded it.
        summary.with_whole_fields(self.values("From"), self.values("To"), self.values("Cc"))
    }

    /// Returns the header fields as a message has them.
    fn header(&self) -> Vec<u8> {
        let mut header = String::new();
        for field in &self.payload.headers {
            let name = &field.name;
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                write!(header, "{name}: {}\r\n", field.line()).ok();
            }
        }
        (header + "\r\n").into_bytes()
    }
}

impl Field {
    /// Returns the value as one line of bounded length.
    fn line(&self) -> String {
        let end = self.value.floor_char_boundary(FIELD_BYTES_MAX);
        // SECURITY: an end of a line would begin another field.
        let shown = self.value.get(..end).unwrap_or_default().chars();
        shown.map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

impl Mailbox {
    /// Returns the names of at most so many labels, and whether there are more.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn folders(&mut self, most: usize) -> Result<(Vec<String>, bool), Failure> {
        let mut names = self.session.labels().await?.names();
        let has_more = names.len() > most;
        names.truncate(most);
        Ok((names, has_more))
    }

    /// Lists the messages that match, the newest first.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn list(&mut self, search: &Search) -> Result<Listed, Failure> {
        let label = self.session.label(&search.folder).await?;
        let page = match &search.cursor {
            Some(Cursor::Page(token)) => Some(token.as_str()),
            Some(Cursor::Below(_)) => return Err(unknown_reference("cursor")),
            None => None,
        };
        let Page { messages, next } = self.page(label.as_deref(), &query(search), search.limit, page).await?;
        let session = &self.session;
        let summaries = messages.into_iter().take(search.limit).map(|Named { id }| async move {
            Ok::<_, Failure>(match session.found(&id, &LISTED).await {
                Ok(Some(found)) => Some(found.summary(id)),
                // A message can be removed while it is listed.
                Ok(None) => None,
                // SECURITY: anybody can send a message with such a header. It hides no other message.
                Err(Failure::InvalidOutput { .. }) => Some(Summary::without_header(id)),
                Err(failure) => return Err(failure),
            })
        });
        let summaries: Vec<Option<Summary>> = stream::iter(summaries).buffered(AT_ONCE).try_collect().await?;
        let unknown = || client::unusable("names a page in a form that is not known");
        let next = next.as_deref().filter(|token| !token.is_empty());
        let next = next.map(|token| Cursor::page(token).ok_or_else(unknown)).transpose()?;
        let messages = summaries.into_iter().flatten().collect();
        Ok(Listed { messages, next_cursor: next.map(|cursor| cursor.to_string()) })
    }

    async fn page(&self, label: Option<&str>, query: &str, most: usize, page: Option<&str>) -> Result<Page, Failure> {
        let mut url = self.session.url(&["messages"]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("maxResults", &most.to_string());
            if let Some(label) = label {
                pairs.append_pair("labelIds", label);
            }
            if label.is_some_and(|label| label == TRASH || label == SPAM) {
                pairs.append_pair("includeSpamTrash", "true");
            }
            if !query.is_empty() {
                pairs.append_pair("q", query);
            }
            if let Some(page) = page {
                pairs.append_pair("pageToken", page);
            }
        }
        let page: Page = self.session.read(&url, PAGE_BYTES_MAX).await?;
        // The ids go into addresses.
        let are_ids = page.messages.iter().all(|message| matches!(message.id.parse(), Ok(MessageRef::Gmail(_))));
        if are_ids { Ok(page) } else { Err(client::unusable("has an id in a form that is not known")) }
    }

    /// Finds a message.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn open(&mut self, message: &MessageRef) -> Result<Opened, Failure> {
        let found = self.session.found(id(message)?, &[]).await?.ok_or_else(gone)?;
        let size = found.size_estimate.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        Ok(Opened { size, is_read: !found.has(UNREAD) })
    }

    /// Reads the content of a message.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn content(&mut self, message: &MessageRef, opened: Opened) -> Result<Content, Failure> {
        let too_long = || Failure::Refused {
            message: "The message has more than 16 MiB. Gmail gives a message whole, so it cannot be read here.".into(),
        };
        let Some(size) = opened.size else { return Err(client::unusable("does not tell the size of the message")) };
        if size > MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        let permit = Arc::clone(&self.downloads).acquire_owned().await;
        let mut url = self.session.url(&["messages", id(message)?]);
        url.query_pairs_mut().append_pair("format", "raw");
        // The size is an estimate. Base64 has four bytes for three.
        let most = MESSAGE_BYTES_MAX / 3 * 4 + RESULT_BYTES_MAX;
        let body = self.session.get(&url, most).await?.ok_or_else(gone)?;
        // Megabytes are decoded on a thread for long work.
        let decoded = spawn_blocking(move || {
            let Raw { raw } = serde_json::from_slice(&body).ok()?;
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(raw.trim_end_matches('=')).ok();
            drop(permit);
            bytes
        });
        let bytes = decoded.await.ok().flatten().ok_or_else(|| client::unusable("has no message in base64"))?;
        if bytes.len() > MESSAGE_BYTES_MAX { Err(too_long()) } else { Ok(Content { bytes, is_cut: false }) }
    }

    /// Moves a message to the archive or to the trash.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the message may have been moved.
    pub(crate) async fn move_to(
        &mut self,
        message: &MessageRef,
        target: Target,
        sending: &Sending,
    ) -> Result<(), Failure> {
        let id = id(message)?;
        let found = self.session.found(id, &[]).await?.ok_or_else(gone)?;
        let (url, body) = match target {
            Target::Trash | Target::Archive if found.has(TRASH) => return Err(is_in(TRASH)),
            Target::Trash => (self.session.url(&["messages", id, "trash"]), None),
            Target::Archive if found.has(SPAM) => return Err(is_in(SPAM)),
            Target::Archive if !found.has(INBOX) => return Err(is_in(ALL_MAIL)),
            Target::Archive => {
                (self.session.url(&["messages", id, "modify"]), Some(json!({ "removeLabelIds": [INBOX] })))
            }
        };
        self.session.change(&url, body.as_ref(), sending).await
    }

    /// Looks where a message is whose move had no outcome. Somebody else can have moved it, too.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn probe_move(&mut self, message: &MessageRef, target: Target) -> Result<Probed, Failure> {
        let Some(found) = self.session.found(id(message)?, &[]).await? else {
            return Ok(Probed::State { message: "The message is no longer in the account.".to_owned() });
        };
        let (is_moved, place) = match target {
            Target::Trash => (found.has(TRASH), "in TRASH"),
            Target::Archive => (!found.has(INBOX), "out of INBOX"),
        };
        Ok(if is_moved {
            Probed::State { message: format!("The message is {place}.") }
        } else {
            Probed::Absent { message: format!("The message is not {place}.") }
        })
    }

    /// Saves a draft.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the draft may have been saved.
    pub(crate) async fn save_draft(&mut self, message: &str, sending: &Sending) -> Result<(), Failure> {
        let body = json!({ "message": { "raw": BASE64_URL_SAFE_NO_PAD.encode(message) } });
        self.session.change(&self.session.url(&["drafts"]), Some(&body), sending).await
    }

    /// Sends a message to the recipients in its header.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the message may have been sent.
    pub(crate) async fn send(&mut self, message: &str, sending: &Sending) -> Result<(), Failure> {
        let body = json!({ "raw": BASE64_URL_SAFE_NO_PAD.encode(message) });
        self.session.change(&self.session.url(&["messages", "send"]), Some(&body), sending).await
    }

    /// Looks for a message among the newest ones of a label. Returns whether it is there, and the place that was searched.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn look_for(
        &mut self,
        label: &Folder,
        message_id: &str,
        nonce: &Nonce,
    ) -> Result<(bool, String), Failure> {
        // An index comes later than the messages, so the newest ones are looked at themselves.
        let Page { messages, next } = self.page(Some(label.as_str()), "", LOOKED_MAX, None).await?;
        let session = &self.session;
        let looks = messages.into_iter().take(LOOKED_MAX).map(|Named { id }| async move {
            let Some(found) = session.found(&id, &MARKED).await? else { return Ok(false) };
            let is_it = |field: &Field| {
                field.value == message_id
                    || field.name.eq_ignore_ascii_case(NONCE_FIELD) && field.value == nonce.as_str()
            };
            Ok::<_, Failure>(found.payload.headers.iter().any(is_it))
        });
        let mut looks = stream::iter(looks).buffered(AT_ONCE);
        let label = label.as_str();
        while let Some(is_it) = looks.try_next().await? {
            if is_it {
                return Ok((true, label.to_owned()));
            }
        }
        let place =
            if next.is_some() { format!("the newest {LOOKED_MAX} messages of {label}") } else { label.to_owned() };
        Ok((false, place))
    }
}

/// Returns the id of a message.
fn id(message: &MessageRef) -> Result<&str, Failure> {
    match message {
        MessageRef::Gmail(id) => Ok(id),
        MessageRef::Imap(_) => Err(unknown_reference("id")),
    }
}

/// The message is there already, or is where it cannot be archived.
fn is_in(place: &str) -> Failure {
    Failure::Guard(guardrail(format!("The message is in {place} already.")))
}

/// There is no such message.
fn gone() -> Failure {
    Failure::Refused { message: "There is no such message in the account. List the folder again.".into() }
}

/// Returns a search as Gmail writes it.
fn query(search: &Search) -> String {
    let mut query = String::from(if search.unread { "is:unread" } else { "" });
    let texts = [("from:", &search.from), ("to:", &search.to), ("subject:", &search.subject), ("", &search.text)];
    for (key, text) in texts {
        if let Some(text) = text {
            // SECURITY: a word in quotation marks, or one behind a key, is no operator. Gmail has no escape for the marks.
            let is_value = !key.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '@' | '.' | '_'));
            let quoted = if is_value {
                text.clone()
            } else {
                format!("\"{}\"", text.replace(['"', '\u{201c}', '\u{201d}'], " "))
            };
            write!(query, " {key}{quoted}").ok();
        }
    }
    // A date would begin at midnight of the Pacific coast. `after` excludes its second.
    let bounds = [("after", search.since.map(|day| day.seconds() - 1)), ("before", search.before.map(Day::seconds))];
    for (key, seconds) in bounds {
        if let Some(seconds) = seconds {
            write!(query, " {key}:{seconds}").ok();
        }
    }
    query.trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn search(params: Value) -> Search {
        serde_json::from_value(params).unwrap()
    }

    #[test]
    fn no_text_of_a_search_is_an_operator() {
        let all = search(json!({
            "from": "a\" OR in:spam \"", "to": "ada@example.com", "subject": "-a", "text": "OR", "since": "2026-02-01", "before": "2026-12-31", "unread": true,
        }));
        let expected = "is:unread from:\"a  OR in:spam  \" to:ada@example.com subject:\"-a\" \"OR\" after:1769903999 before:1798675200";
        assert_eq!(query(&all), expected);
        assert_eq!(query(&search(json!({}))), "");
    }

    #[test]
    fn a_field_of_a_header_has_one_line() {
        let found: Found = serde_json::from_value(json!({ "payload": { "headers": [
            { "name": "Subject", "value": "a\r\nFrom: boss@example.com\r\n\r\ntext" },
            { "name": "X\r\nTo", "value": "b" },
        ] } }))
        .unwrap();
        assert_eq!(found.header(), b"Subject: a  From: boss@example.com    text\r\n\r\n");
    }
}
