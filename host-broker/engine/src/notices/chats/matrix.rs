//! A room of a Matrix account: notices as messages, and the answers of its members, in words.
//!
//! ```text
//! PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}   a message, once
//! GET /_matrix/client/v3/sync?since=…&timeout=50000&filter=…              waits for the next messages
//! PUT /_matrix/client/v3/user/{user}/rooms/{room}/account_data/{type}     the position, for the next start
//! ```
//! SECURITY: the server of the sender signs a message. An edit is no answer, nor is a message of another type than text. The
//! servers of all members read the cards, because the room is not encrypted. Anyone can send events to the devices of an
//! account, so a response can be long. Only the events of the room are read from it, each alone: an unreadable one blocks no
//! other.
//!
//! Source: the Client-Server API, <https://spec.matrix.org/v1.16/client-server-api/>.

use super::{ChatAnswer, ChatError, MARGIN, Place, RETRY_MAX, escaped, is_answer};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use kernel::Message;
use platform::delivery::bearer;
use platform::http::{Answer, Exchange, Http, HttpError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The most bytes of a response: a hundred events to the device of local users, at three times 64 KiB.
const RESPONSE_MAX: usize = 32 * 1024 * 1024;
/// The reason of a longer one. No filter holds back the events to the device, and those of other servers have no limit. A
/// new device has none.
const TOO_LONG: &str = "its response is too long, perhaps because of messages to its device; sign the account in again and set access_token";
/// The most messages of one response.
const MESSAGES_MAX: u32 = 10;
/// The most responses that are read for the messages of one absence, and the most messages of each.
const PAGES_MAX: usize = 20;
const PAGE_MAX: u32 = 50;
/// The time for each of them.
const PAGE: Duration = Duration::from_secs(30);
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
}

struct Position {
    // The user of the account.
    user: String,
    // Where the next fetch begins.
    next: String,
    // Whether the account data has an earlier position, with answers since.
    is_behind: bool,
    has_left: bool,
}

/// A part of the room's timeline.
#[derive(Default)]
struct Batch {
    // The answers, oldest first.
    answers: Vec<ChatAnswer>,
    next: String,
    has_encrypted: bool,
    has_left: bool,
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
    leave: BTreeMap<String, Joined>,
}

#[derive(Deserialize)]
struct Joined {
    #[serde(default)]
    timeline: Timeline,
}

#[derive(Default, Deserialize)]
struct Timeline {
    #[serde(default)]
    events: Vec<Box<RawValue>>,
    #[serde(default)]
    limited: bool,
    prev_batch: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    chunk: Vec<Box<RawValue>>,
    end: Option<String>,
}

#[derive(Deserialize)]
struct WhoAmI {
    user_id: String,
}

#[derive(Deserialize)]
struct Kept {
    since: String,
}

#[derive(Deserialize)]
struct Limited {
    retry_after_ms: Option<u64>,
}

/// The members of every event.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    sender: String,
}

impl Head {
    fn of(event: &RawValue) -> Option<Self> {
        serde_json::from_str(event.get()).ok()
    }
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
        Self { account, place: None }
    }

    pub(super) async fn fetch(&mut self, wait: Duration) -> Result<Vec<ChatAnswer>, ChatError> {
        let deadline = Instant::now() + wait + MARGIN;
        let Some(place) = &mut self.place else {
            let (place, answers) = self.account.enter(deadline).await?;
            self.place = Some(place);
            return Ok(answers);
        };
        if place.is_behind {
            self.account.keep(&place.user, &place.next, deadline).await?;
            place.is_behind = false;
        }
        if place.has_left {
            // The next fetch enters again, or states why not.
            self.place = None;
            return Ok(Vec::new());
        }
        let batch = self.account.batch(&place.user, &place.next, wait, deadline).await?;
        // Anyone can write an event of this type.
        if batch.has_encrypted {
            self.account.check_plain(deadline).await?;
        }
        // A server that delivers the same messages again and again gets no second response.
        if batch.next == place.next {
            return Ok(Vec::new());
        }
        place.next = batch.next;
        // A server can repeat its last response for minutes, so the position behind a departure counts, too.
        place.is_behind = batch.has_left || !batch.answers.is_empty();
        place.has_left = batch.has_left;
        Ok(batch.answers)
    }
}

impl Account<'_> {
    /// Sends a notice.
    pub(super) async fn send(&self, message: &Message, deadline: Instant) -> Result<(), ChatError> {
        if message.shows_card {
            self.check_plain(deadline).await?;
        }
        self.write(&message.name, &content("m.text", &message.text), deadline).await
    }

    /// Tells the writer of an answer its effect.
    pub(super) async fn respond(&self, answer: &ChatAnswer, text: &str, deadline: Instant) -> Result<(), ChatError> {
        let id = &answer.place.message;
        let mut content = content("m.notice", text);
        if let Some(members) = content.as_object_mut() {
            members.insert("m.relates_to".to_owned(), json!({ "m.in_reply_to": { "event_id": id } }));
        }
        self.write(&id.to_string(), &content, deadline).await
    }

    /// Writes a message. The server takes the same message of the same name once.
    async fn write(&self, name: &str, content: &Value, deadline: Instant) -> Result<(), ChatError> {
        let transaction = Digest::of(format!("{name} {content}").as_bytes()).hex();
        let path = ["rooms", self.room, "send", "m.room.message", &transaction];
        self.as_member(Method::PUT, &path, Some(content), deadline).await?.checked().map(drop)
    }

    /// Sends a request of a member of the room. The account may be invited only, so it joins after a refusal.
    async fn as_member(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
        deadline: Instant,
    ) -> Result<Response, ChatError> {
        let response = self.call(method.clone(), path, &[], body, deadline).await?;
        if response.0.status != FORBIDDEN {
            return Ok(response);
        }
        self.join(deadline).await?;
        self.call(method, path, &[], body, deadline).await
    }

    async fn join(&self, deadline: Instant) -> Result<(), ChatError> {
        let path = ["rooms", self.room, "join"];
        self.call(Method::POST, &path, &[], Some(&json!({})), deadline).await?.checked().map(drop)
    }

    /// Checks that the room is not encrypted: its members expect that no server reads a message there.
    async fn check_plain(&self, deadline: Instant) -> Result<(), ChatError> {
        let path = ["rooms", self.room, "state", "m.room.encryption", ""];
        let encryption = self.as_member(Method::GET, &path, None, deadline).await?;
        if encryption.0.status == NOT_FOUND {
            return Ok(());
        }
        encryption.checked()?;
        Err("the room is encrypted; take a room without encryption".into())
    }

    /// Enters the room, and returns where the last daemon ended. If that is unknown, the last page of messages counts: the
    /// answers after the account's own first message.
    async fn enter(&self, deadline: Instant) -> Result<(Position, Vec<ChatAnswer>), ChatError> {
        self.join(deadline).await?;
        self.check_plain(deadline).await?;
        let who = self.call(Method::GET, &["account", "whoami"], &[], None, deadline).await?.checked()?;
        let user = who.read::<WhoAmI>()?.user_id;
        let kept = self.call(Method::GET, &self.position(&user), &[], None, deadline).await?;
        if kept.0.status != NOT_FOUND {
            let next = kept.checked()?.read::<Kept>()?.since;
            return Ok((Position { user, next, is_behind: false, has_left: false }, Vec::new()));
        }
        let Sync { next_batch: next, mut rooms } = self.sync(&user, None, Duration::ZERO, deadline).await?;
        let events = rooms.join.remove(self.room).map(|room| room.timeline.events).unwrap_or_default();
        let is_own = |event: &RawValue| Head::of(event).is_some_and(|head| head.sender == user);
        let later = events.iter().skip_while(|event| !is_own(event));
        let answers: Vec<_> = later.filter_map(|event| answer(event, &user)).collect();
        self.keep(&user, &next, deadline).await?;
        Ok((Position { user, next, is_behind: false, has_left: false }, answers))
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
    async fn batch(&self, user: &str, since: &str, wait: Duration, deadline: Instant) -> Result<Batch, ChatError> {
        let sync = self.sync(user, Some(since), wait, deadline).await?;
        let mut rooms = sync.rooms.join;
        let has_left = sync.rooms.leave.contains_key(self.room);
        let mut batch = Batch { next: sync.next_batch, has_left, ..Batch::default() };
        let Some(Joined { timeline }) = rooms.remove(self.room) else { return Ok(batch) };
        if let (true, Some(from)) = (timeline.limited, timeline.prev_batch) {
            batch.answers = self.earlier(user, &from, since).await?;
        }
        for event in &timeline.events {
            batch.has_encrypted |= Head::of(event).is_some_and(|head| head.kind == "m.room.encrypted");
            batch.answers.extend(answer(event, user));
        }
        Ok(batch)
    }

    async fn sync(
        &self,
        user: &str,
        since: Option<&str>,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Sync, ChatError> {
        let none = json!({ "types": [] });
        // The first one needs the account's own messages, too.
        let timeline = filter(since.map(|_| user), MESSAGES_MAX);
        let filter = json!({
            "presence": none,
            "account_data": none,
            "event_fields": ["type", "event_id", "sender", "content"],
            "room": {
                "rooms": [self.room], "timeline": timeline, "state": none, "ephemeral": none, "account_data": none,
                "include_leave": since.is_some(),
            },
        });
        let (filter, timeout) = (filter.to_string(), wait.as_millis().to_string());
        let mut query = vec![("filter", filter.as_str())];
        query.extend(since.into_iter().flat_map(|since| [("since", since), ("timeout", timeout.as_str())]));
        self.call(Method::GET, &["sync"], &query, None, deadline).await?.checked()?.read()
    }

    /// Returns the answers before a gap in the timeline, oldest first.
    async fn earlier(&self, user: &str, from: &str, to: &str) -> Result<Vec<ChatAnswer>, ChatError> {
        let path = ["rooms", self.room, "messages"];
        let (filter, limit) = (filter(Some(user), PAGE_MAX).to_string(), PAGE_MAX.to_string());
        let (mut from, mut answers) = (from.to_owned(), Vec::new());
        for page in 1.. {
            let query = [("dir", "b"), ("from", &from), ("to", to), ("limit", &limit), ("filter", &filter)];
            let response = self.call(Method::GET, &path, &query, None, Instant::now() + PAGE).await?.checked()?;
            let Page { chunk, end } = response.read()?;
            answers.extend(chunk.iter().filter_map(|event| answer(event, user)));
            match end {
                Some(end) if end != from && page < PAGES_MAX => from = end,
                Some(end) if end != from => {
                    tracing::warn!("there are too many messages in the room; the oldest ones are not read");
                    break;
                }
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
    ) -> Result<Response, ChatError> {
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
        match self.http.ask(exchange, RESPONSE_MAX).await {
            Ok(answer) => Ok(Response(answer)),
            Err(HttpError::TooLong) => Err(TOO_LONG.into()),
            Err(fault) => Err(fault.to_string().into()),
        }
    }
}

/// A response of the server.
struct Response(Answer);

impl Response {
    /// Returns it if it is a success.
    fn checked(self) -> Result<Self, ChatError> {
        let remedy = match self.0.status {
            200 => return Ok(self),
            401 => ": it refuses the access token; set access_token again, and reload",
            FORBIDDEN => ": its user may not do this in the room; invite the user, and let it write",
            NOT_FOUND => ": it does not know the room; correct url and room_id",
            429 => ": too many requests",
            _ => "",
        };
        let told: Option<Limited> = serde_json::from_slice(&self.0.body).ok();
        let told = told.and_then(|limited| limited.retry_after_ms).map(Duration::from_millis);
        let retry_after = self.0.retry_after.or(told).map(|pause| pause.min(RETRY_MAX));
        Err(ChatError { reason: format!("it answered HTTP {}{remedy}", self.0.status), retry_after })
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, ChatError> {
        serde_json::from_slice(&self.0.body).map_err(|_bad| "its response has another form".into())
    }
}

/// Returns the filter for messages, without those of this user. A room that the account has left appears with the change of
/// its membership only.
fn filter(without: Option<&str>, limit: u32) -> Value {
    let without: Vec<&str> = without.into_iter().collect();
    let types = ["m.room.message", "m.room.encrypted", "m.room.member"];
    json!({ "types": types, "not_senders": without, "limit": limit })
}

/// Returns the content of a message. In a block of code, a client makes no link and fetches no preview of one.
fn content(kind: &str, text: &str) -> Value {
    json!({
        "msgtype": kind, "body": text, "m.mentions": {},
        "format": "org.matrix.custom.html", "formatted_body": format!("<pre><code>{}</code></pre>", escaped(text)),
    })
}

/// Returns the answer of an event, if it is one.
fn answer(event: &RawValue, own: &str) -> Option<ChatAnswer> {
    let RoomEvent { kind, event_id, sender, content } = serde_json::from_str(event.get()).ok()?;
    let Content { msgtype, body, edited, relation } = content;
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
        answer(&serde_json::value::to_raw_value(&event).unwrap(), OWN)
    }

    /// Attack (Approvals and notices): A message in Matrix is an edit or a quotation, or comes from
    /// another room or the account itself.
    /// Defence: Only new words of another member of the room are an answer. A quotation is removed
    /// from a reply.
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

    /// Attack: see `only_new_words_of_another_member_are_an_answer`.
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
