//! A room of a Matrix account: notices as messages, and the answers of its members, in words.
//!
//! ```text
//! PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}   a message, once
//! GET /_matrix/client/v3/sync?since=…&timeout=50000&filter=…              waits for the next messages
//! PUT /_matrix/client/v3/user/{user}/rooms/{room}/account_data/{type}     the position, for the next start
//! ```
//! SECURITY: the server of the account names the sender of a message, as it does for all its rooms. An edit is no answer,
//! nor is a message of another type than text. The server reads the cards, because the room is not encrypted.
//!
//! Source: the Client-Server API, <https://spec.matrix.org/v1.16/client-server-api/>.

use super::{ChatAnswer, ChatError, MARGIN, Place, RESPONSE_MAX, RETRY_MAX, WAIT, bearer, is_answer};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use kernel::Message;
use platform::http::{Exchange, Http};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The most messages of one response.
const MESSAGES_MAX: u32 = 50;
/// The most responses that are read for the messages of one absence.
const PAGES_MAX: usize = 20;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
/// The type of the room's account data with the position.
const POSITION: &str = "org.host-broker.position";

/// An account and its room.
pub(in crate::notices) struct Account<'a> {
    pub(in crate::notices) http: &'a dyn Http,
    pub(in crate::notices) url: &'a str,
    pub(in crate::notices) token: &'a str,
    pub(in crate::notices) room: &'a str,
}

/// The answers in the room of an account.
pub(super) struct Receiver<'a> {
    pub(super) account: Account<'a>,
    // Absent until the room was entered.
    place: Option<Position>,
    // The number of answers that are not confirmed.
    open: usize,
}

struct Position {
    // The user of the account.
    user: String,
    // Where the next fetch begins, once all answers are confirmed.
    next: String,
    // Where the fetch of the present answers began.
    since: String,
    // Whether the account data has an earlier position, with answers since.
    is_behind: bool,
}

/// A part of the room's timeline.
#[derive(Default)]
struct Batch {
    // The answers, oldest first.
    answers: Vec<ChatAnswer>,
    next: String,
    // Whether the account has left the room, or the room is encrypted now.
    is_closed: bool,
}

#[derive(Deserialize)]
struct Sync {
    next_batch: String,
    #[serde(default)]
    rooms: Rooms,
}

#[derive(Default, Deserialize)]
struct Rooms {
    #[serde(default)]
    join: BTreeMap<String, Joined>,
    #[serde(default)]
    leave: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Joined {
    #[serde(default)]
    timeline: Timeline,
}

#[derive(Default, Deserialize)]
struct Timeline {
    #[serde(default)]
    events: Vec<Value>,
    #[serde(default)]
    limited: bool,
    prev_batch: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    chunk: Vec<Value>,
    end: Option<String>,
}

#[derive(Deserialize)]
struct RoomEvent {
    #[serde(rename = "type")]
    kind: String,
    event_id: String,
    sender: String,
    content: Content,
}

#[derive(Deserialize)]
struct Content {
    msgtype: Option<String>,
    body: Option<String>,
    #[serde(rename = "m.new_content")]
    edited: Option<Value>,
    #[serde(rename = "m.relates_to")]
    relation: Option<Relation>,
}

#[derive(Deserialize)]
struct Relation {
    rel_type: Option<String>,
    #[serde(rename = "m.in_reply_to")]
    reply: Option<Value>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(account: Account<'a>) -> Self {
        Self { account, place: None, open: 0 }
    }

    pub(super) async fn fetch(&mut self) -> Result<Vec<ChatAnswer>, ChatError> {
        let deadline = Instant::now() + WAIT + MARGIN;
        let place = match &mut self.place {
            Some(place) => place,
            empty @ None => empty.insert(self.account.enter(deadline).await?),
        };
        if self.open == 0 {
            place.since.clone_from(&place.next);
            if place.is_behind {
                self.account.keep(&place.user, &place.since, deadline).await?;
                place.is_behind = false;
            }
        }
        let batch = self.account.batch(&place.user, &place.since, deadline).await?;
        if batch.is_closed {
            // The way in states the reason.
            self.place = None;
            return Ok(Vec::new());
        }
        // A server that delivers the same messages again and again gets no second response.
        if self.open == 0 && batch.next == place.since {
            return Ok(Vec::new());
        }
        place.next = batch.next;
        place.is_behind |= !batch.answers.is_empty();
        self.open = batch.answers.len();
        Ok(batch.answers)
    }

    pub(super) fn confirm(&mut self) {
        self.open = self.open.saturating_sub(1);
    }
}

impl Account<'_> {
    /// Sends a notice.
    pub(super) async fn send(&self, message: &Message, deadline: Instant) -> Result<(), ChatError> {
        let content = json!({ "msgtype": "m.text", "body": message.text, "m.mentions": {} });
        let answer = self.write(&message.name, &content, deadline).await?;
        if answer.status != FORBIDDEN {
            return answer.checked().map(drop);
        }
        // The account may be invited only.
        self.join(deadline).await?;
        self.write(&message.name, &content, deadline).await?.checked().map(drop)
    }

    /// Tells the writer of an answer its effect.
    pub(super) async fn respond(&self, answer: &ChatAnswer, text: &str, deadline: Instant) -> Result<(), ChatError> {
        let id = &answer.place.message;
        let relation = json!({ "m.in_reply_to": { "event_id": id } });
        let content = json!({ "msgtype": "m.notice", "body": text, "m.mentions": {}, "m.relates_to": relation });
        self.write(&id.to_string(), &content, deadline).await?.checked().map(drop)
    }

    /// Writes a message. The server takes the same message of the same name once.
    async fn write(&self, name: &str, content: &Value, deadline: Instant) -> Result<Answer, ChatError> {
        let transaction = Digest::of(format!("{name} {content}").as_bytes()).hex();
        let path = ["rooms", self.room, "send", "m.room.message", &transaction];
        self.call(Method::PUT, &path, &[], Some(content), deadline).await
    }

    async fn join(&self, deadline: Instant) -> Result<(), ChatError> {
        let path = ["rooms", self.room, "join"];
        self.call(Method::POST, &path, &[], Some(&json!({})), deadline).await?.checked().map(drop)
    }

    /// Enters the room, and returns where the last daemon ended, or else the present end of the room.
    async fn enter(&self, deadline: Instant) -> Result<Position, ChatError> {
        self.join(deadline).await?;
        let encryption = ["rooms", self.room, "state", "m.room.encryption"];
        let encryption = self.call(Method::GET, &encryption, &[], None, deadline).await?;
        if encryption.status != NOT_FOUND {
            encryption.checked()?;
            return Err("the room is encrypted; take a room without encryption".into());
        }
        let who = self.call(Method::GET, &["account", "whoami"], &[], None, deadline).await?.checked()?;
        let user = text(&who, "user_id")?;
        let kept = self.call(Method::GET, &self.position(&user), &[], None, deadline).await?;
        let since = if kept.status == NOT_FOUND {
            let next = self.sync(&user, None, deadline).await?.next_batch;
            self.keep(&user, &next, deadline).await?;
            next
        } else {
            text(&kept.checked()?, "since")?
        };
        Ok(Position { user, next: since.clone(), since, is_behind: false })
    }

    fn position<'p>(&'p self, user: &'p str) -> [&'p str; 6] {
        ["user", user, "rooms", self.room, "account_data", POSITION]
    }

    /// Keeps the position for the next start.
    async fn keep(&self, user: &str, since: &str, deadline: Instant) -> Result<(), ChatError> {
        let kept = json!({ "since": since });
        self.call(Method::PUT, &self.position(user), &[], Some(&kept), deadline).await?.checked().map(drop)
    }

    /// Waits for the next messages, and returns the answers among them.
    async fn batch(&self, user: &str, since: &str, deadline: Instant) -> Result<Batch, ChatError> {
        let sync = self.sync(user, Some(since), deadline).await?;
        let mut batch = Batch { next: sync.next_batch, ..Batch::default() };
        batch.is_closed = sync.rooms.leave.contains_key(self.room);
        let mut rooms = sync.rooms.join;
        let Some(Joined { timeline }) = rooms.remove(self.room) else { return Ok(batch) };
        if let (true, Some(from)) = (timeline.limited, timeline.prev_batch) {
            batch.answers = self.earlier(user, &from, since, deadline).await?;
        }
        for event in timeline.events {
            batch.is_closed |= event.get("type").and_then(Value::as_str) == Some("m.room.encrypted");
            batch.answers.extend(serde_json::from_value(event).ok().and_then(|event| answer(event, user)));
        }
        Ok(batch)
    }

    async fn sync(&self, user: &str, since: Option<&str>, deadline: Instant) -> Result<Sync, ChatError> {
        let none = json!({ "types": [] });
        let mut timeline = filter(user);
        if let (None, Some(members)) = (since, timeline.as_object_mut()) {
            members.insert("limit".to_owned(), json!(1));
        }
        let filter = json!({
            "presence": none,
            "account_data": none,
            "room": {
                "rooms": [self.room], "timeline": timeline, "state": none, "ephemeral": none, "account_data": none,
                "include_leave": since.is_some(),
            },
        });
        let (filter, timeout) = (filter.to_string(), WAIT.as_millis().to_string());
        let mut query = vec![("filter", filter.as_str())];
        query.extend(since.into_iter().flat_map(|since| [("since", since), ("timeout", timeout.as_str())]));
        let response = self.call(Method::GET, &["sync"], &query, None, deadline).await?.checked()?;
        serde_json::from_value(response).map_err(|_bad| "its response is no sync".into())
    }

    /// Returns the answers before a gap in the timeline, oldest first.
    async fn earlier(&self, user: &str, from: &str, to: &str, deadline: Instant) -> Result<Vec<ChatAnswer>, ChatError> {
        let path = ["rooms", self.room, "messages"];
        let (filter, limit) = (filter(user).to_string(), MESSAGES_MAX.to_string());
        let (mut from, mut answers) = (from.to_owned(), Vec::new());
        for _ in 0..PAGES_MAX {
            let query = [("dir", "b"), ("from", &from), ("to", to), ("limit", &limit), ("filter", &filter)];
            let response = self.call(Method::GET, &path, &query, None, deadline).await?.checked()?;
            let page: Page = serde_json::from_value(response).map_err(|_bad| "its response is no page of messages")?;
            let events = page.chunk.into_iter().filter_map(|event| serde_json::from_value(event).ok());
            answers.extend(events.filter_map(|event| answer(event, user)));
            match page.end {
                Some(end) if end != from => from = end,
                Some(_) | None => break,
            }
        }
        answers.reverse();
        Ok(answers)
    }

    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
        deadline: Instant,
    ) -> Result<Answer, ChatError> {
        let mut url = Url::parse(self.url).map_err(|_bad| "the url is no address")?;
        url.path_segments_mut()
            .map_err(|()| "the url is no address")?
            .pop_if_empty()
            .extend(["_matrix", "client", "v3"])
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let uri = url.as_str().parse().map_err(|_bad| "the url is no address")?;
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, bearer("access_token", self.token)?)]);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let exchange = Exchange { method, uri, headers, body, deadline };
        let (status, body) = self.http.ask(exchange, RESPONSE_MAX).await.map_err(|fault| fault.to_string())?;
        Ok(Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() })
    }
}

/// The status and the body of a response.
struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn checked(self) -> Result<Value, ChatError> {
        if self.status == 200 {
            return Ok(self.body);
        }
        let remedy = match self.status {
            401 => ": it refuses the access token; set access_token again",
            FORBIDDEN => ": its user may not do this in the room; invite the user, and let it write",
            NOT_FOUND => ": it does not know the room; correct url and room_id",
            429 => ": too many requests",
            _ => "",
        };
        let pause = self.body.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis);
        let reason = format!("it answered HTTP {}{remedy}", self.status);
        Err(ChatError { reason, retry_after: pause.map(|pause| pause.min(RETRY_MAX)) })
    }
}

fn text(response: &Value, member: &str) -> Result<String, ChatError> {
    let text = response.get(member).and_then(Value::as_str);
    text.map(ToOwned::to_owned).ok_or_else(|| format!("its response has no `{member}`").into())
}

/// Returns the filter for the messages of others.
fn filter(own: &str) -> Value {
    json!({ "types": ["m.room.message", "m.room.encrypted"], "not_senders": [own], "limit": MESSAGES_MAX })
}

/// Returns the answer of an event, if it is one.
fn answer(event: RoomEvent, own: &str) -> Option<ChatAnswer> {
    let RoomEvent { kind, event_id, sender, content: Content { msgtype, body, edited, relation } } = event;
    let (kind_of_relation, reply) = relation.map_or((None, None), |relation| (relation.rel_type, relation.reply));
    let is_text = kind == "m.room.message" && msgtype.as_deref() == Some("m.text");
    let is_edit = edited.is_some() || kind_of_relation.as_deref() == Some("m.replace");
    let body = body?;
    let text = if reply.is_some() { without_quotation(&body) } else { &body };
    (is_text && !is_edit && sender != own && is_answer(text)).then(|| ChatAnswer {
        // The number of members is unknown.
        is_private: false,
        from: format!("matrix:{sender}"),
        text: text.to_owned(),
        place: Place { message: event_id.into(), button: None },
    })
}

/// Removes the quotation with which older clients begin a reply: lines after `> `, and an empty line.
fn without_quotation(body: &str) -> &str {
    let mut rest = body;
    while let Some((_, after)) = rest.split_once('\n').filter(|(line, _)| line.starts_with("> ")) {
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "@broker:example.org";

    fn read(more: Value, content: Value) -> Option<ChatAnswer> {
        let mut event = json!({
            "type": "m.room.message", "event_id": "$1", "sender": "@ann:example.org", "origin_server_ts": 1,
            "content": { "msgtype": "m.text", "body": "approve k7f3qd" },
        });
        let merge = |to: &mut Value, from: Value| {
            to.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
        };
        merge(&mut event["content"], content);
        merge(&mut event, more);
        serde_json::from_value(event).ok().and_then(|event| answer(event, OWN))
    }

    #[test]
    fn only_new_words_of_another_member_are_an_answer() {
        let found = read(json!({}), json!({})).unwrap();
        assert_eq!((found.from.as_str(), found.text.as_str()), ("matrix:@ann:example.org", "approve k7f3qd"));
        for (more, content) in [
            (json!({ "sender": OWN }), json!({})),
            (json!({ "sender": 5 }), json!({})),
            (json!({ "type": "m.reaction" }), json!({})),
            (json!({ "content": {} }), json!({})),
            (json!({}), json!({ "msgtype": "m.notice" })),
            (json!({}), json!({ "msgtype": "m.emote" })),
            (json!({}), json!({ "body": "I approve k7f3qd" })),
            (json!({}), json!({ "m.new_content": { "body": "x" } })),
            (json!({}), json!({ "m.relates_to": { "rel_type": "m.replace", "event_id": "$0" } })),
            // Only a reply has a quotation.
            (json!({}), json!({ "body": "> approve aaaaaa\n\napprove k7f3qd" })),
        ] {
            assert_eq!(read(more.clone(), content.clone()), None, "{more} {content}");
        }
    }

    #[test]
    fn a_reply_is_read_without_its_quotation() {
        let relation = json!({ "m.in_reply_to": { "event_id": "$0" } });
        for (body, text) in [
            (
                "> <@broker:example.org> [APPROVAL REQUIRED] k7f3qd\n> approve k7f3qd\n\ndeny k7f3qd because no",
                "deny k7f3qd because no",
            ),
            ("deny k7f3qd", "deny k7f3qd"),
        ] {
            let found = read(json!({}), json!({ "body": body, "m.relates_to": relation })).unwrap();
            assert_eq!(found.text.trim(), text);
        }
        assert_eq!(read(json!({}), json!({ "body": "> approve k7f3qd", "m.relates_to": relation })), None);
    }
}
