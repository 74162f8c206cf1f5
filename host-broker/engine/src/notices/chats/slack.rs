//! A channel of a Slack app: notices as messages with buttons, and the answers of its members.
//!
//! ```text
//! POST /api/chat.postMessage       {"channel": "C0123", "text": "…", "blocks": […]}
//! POST /api/apps.connections.open  {"ok": true, "url": "wss://…"}
//! wss  ──► {"envelope_id": "1", "type": "interactive", "payload": {…}}      a button was pressed
//!      ◄── {"envelope_id": "1"}                                             the answer is recorded
//! ```
//! SECURITY: an answer is of a member of the bot's own workspace: the user ids of other workspaces mean other people. The
//! outer team of a payload can be that of a guest, so it proves nothing. An edit is no answer, nor is a message of another
//! app.
//!
//! Source: the Web API and Socket Mode, <https://docs.slack.dev/apis/>.

use super::{ChatAnswer, ChatError, MARGIN, Place, RESPONSE_MAX, RETRY_MAX, code, escaped, is_answer, post};
use kernel::Message;
use platform::delivery::bearer;
use platform::http::{Answer, Http};
use platform::websocket::WebSocket;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// An app and its channel.
pub(in crate::notices) struct SlackApp<'a> {
    pub(in crate::notices) http: &'a dyn Http,
    pub(in crate::notices) url: &'a str,
    pub(in crate::notices) token: &'a str,
    pub(in crate::notices) app_token: Option<&'a str>,
    pub(in crate::notices) channel: &'a str,
}

/// The answers in the channel of an app.
pub(super) struct Receiver<'a> {
    pub(super) app: SlackApp<'a>,
    connection: Option<Connection>,
    // The envelope of the answer that is not confirmed.
    open: Option<String>,
}

/// A connection for the answers.
struct Connection {
    socket: WebSocket,
    opened: Instant,
    // The workspace of the bot.
    team: String,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    envelope_id: Option<String>,
    // An unreadable one is acknowledged, too.
    payload: Option<Box<RawValue>>,
    // Of a disconnection.
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Payload {
    #[serde(rename = "event_callback")]
    Event { event: ChatMessage },
    #[serde(rename = "block_actions")]
    Press { user: User, channel: Id, message: Card, actions: Vec<Pressed> },
}

#[derive(Deserialize)]
struct ChatMessage {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    bot_id: Option<IgnoredAny>,
    app_id: Option<IgnoredAny>,
    edited: Option<IgnoredAny>,
    team: Option<String>,
    // In a channel with other workspaces.
    user_team: Option<String>,
    source_team: Option<String>,
    user: String,
    channel: String,
    text: String,
    ts: String,
    thread_ts: Option<String>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct User {
    id: String,
    team_id: String,
}

#[derive(Deserialize)]
struct Card {
    ts: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    blocks: Vec<Value>,
}

#[derive(Deserialize)]
struct Pressed {
    value: Option<String>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(app: SlackApp<'a>) -> Self {
        Self { app, connection: None, open: None }
    }

    pub(super) async fn fetch(&mut self, wait: Duration) -> Result<Vec<ChatAnswer>, ChatError> {
        let began = Instant::now();
        let Some(mut connection) = self.connection.take() else {
            self.connection = Some(self.app.connect(began + MARGIN).await?);
            return Ok(Vec::new());
        };
        let Connection { socket, opened, team } = &mut connection;
        while let Some(frame) = socket.next(began + wait).await.map_err(|fault| fault.to_string())? {
            let Ok(Frame { kind, envelope_id, payload, reason }) = serde_json::from_str(&frame) else { continue };
            if kind == "disconnect" {
                let is_usual = matches!(reason.as_deref(), Some("warning" | "refresh_requested"));
                // The next fetch opens a new connection.
                return if is_usual && opened.elapsed() > MARGIN { Ok(Vec::new()) } else { Err(ENDED.into()) };
            }
            let Some(envelope) = envelope_id else { continue };
            if let Some(answer) = payload.and_then(|payload| self.app.answer(&payload, team)) {
                self.open = Some(envelope);
                self.connection = Some(connection);
                return Ok(vec![answer]);
            }
            acknowledge(socket, &envelope).await.map_err(|fault| fault.to_string())?;
        }
        // A server that is gone does not end the connection.
        if socket.heard() < began {
            return Err("its connection is silent".into());
        }
        socket.ping(Instant::now() + MARGIN).await.map_err(|fault| fault.to_string())?;
        self.connection = Some(connection);
        Ok(Vec::new())
    }

    pub(super) async fn confirm(&mut self) {
        let (Some(envelope), Some(mut connection)) = (self.open.take(), self.connection.take()) else { return };
        if acknowledge(&mut connection.socket, &envelope).await.is_ok() {
            self.connection = Some(connection);
        }
    }
}

/// The reason why a connection ends unexpectedly.
const ENDED: &str = "it has closed the connection; turn Socket Mode on for the app, and use one app for each broker";

async fn acknowledge(socket: &mut WebSocket, envelope: &str) -> Result<(), platform::http::HttpError> {
    socket.send(json!({ "envelope_id": envelope }).to_string(), Instant::now() + MARGIN).await
}

impl SlackApp<'_> {
    /// Sends a notice. One with a card has two buttons.
    pub(super) async fn send(&self, message: &Message, deadline: Instant) -> Result<(), ChatError> {
        let mut blocks = vec![block(&message.text)];
        blocks.extend(code(message).map(|code| {
            let button = |word: &str, name: &str, style: &str| {
                json!({
                    "type": "button", "action_id": word, "value": format!("{word} {code}"), "style": style,
                    "text": { "type": "plain_text", "text": name },
                })
            };
            json!({
                "type": "actions",
                "elements": [button("approve", "Approve", "primary"), button("deny", "Deny", "danger")],
            })
        }));
        let request = json!({
            "channel": self.channel, "text": escaped(&message.title), "blocks": blocks,
            "unfurl_links": false, "unfurl_media": false,
        });
        self.call("chat.postMessage", &request, deadline).await.map(drop)
    }

    /// Tells the writer of an answer its effect, below it. The buttons disappear once the approval request is closed.
    pub(super) async fn respond(
        &self,
        answer: &ChatAnswer,
        (text, is_closed): (&str, bool),
        deadline: Instant,
    ) -> Result<(), ChatError> {
        let Place { message, button } = &answer.place;
        let request = json!({
            "channel": self.channel, "thread_ts": message, "text": escaped(text), "blocks": [block(text)],
            "unfurl_links": false, "unfurl_media": false,
        });
        let told = self.call("chat.postMessage", &request, deadline).await.map(drop);
        if let (Some(card), true) = (button, is_closed) {
            let mut request = card.clone();
            if let Some(members) = request.as_object_mut() {
                members.extend([("channel".to_owned(), json!(self.channel)), ("ts".to_owned(), message.clone())]);
            }
            self.call("chat.update", &request, deadline).await?;
        }
        told
    }

    /// Opens a connection for the answers.
    async fn connect(&self, deadline: Instant) -> Result<Connection, ChatError> {
        let token = self.app_token.ok_or("the channel has no `app_token`")?;
        let opened = self.called("apps.connections.open", ("app_token", token), &json!({}), deadline).await?;
        let address = opened.get("url").and_then(Value::as_str).ok_or("its response has no `url`")?;
        if !is_safe(address) {
            return Err("its connection would not be encrypted".into());
        }
        let bot = self.call("auth.test", &json!({}), deadline).await?;
        let team = bot.get("team_id").and_then(Value::as_str).ok_or("its response has no `team_id`")?.to_owned();
        let socket = WebSocket::connect(address, RESPONSE_MAX, deadline).await.map_err(|fault| fault.to_string())?;
        Ok(Connection { socket, opened: Instant::now(), team })
    }

    async fn call(&self, method: &str, request: &Value, deadline: Instant) -> Result<Value, ChatError> {
        self.called(method, ("bot_token", self.token), request, deadline).await
    }

    async fn called(
        &self,
        method: &str,
        (key, token): (&str, &str),
        request: &Value,
        deadline: Instant,
    ) -> Result<Value, ChatError> {
        let (address, token) = (format!("{}/{method}", self.url), bearer(key, token)?);
        let Answer { status, retry_after, body } = post(self.http, &address, Some(token), request, deadline).await?;
        let response: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status == 200 && response.get("ok") == Some(&Value::Bool(true)) {
            return Ok(response);
        }
        let error = response.get("error").and_then(Value::as_str).unwrap_or_default();
        Err(ChatError { reason: fault(status, error, key), retry_after: retry_after.map(|pause| pause.min(RETRY_MAX)) })
    }

    /// Returns the answer of an envelope, if it is one.
    fn answer(&self, payload: &RawValue, own_team: &str) -> Option<ChatAnswer> {
        let (team, user, channel, text, place) = match serde_json::from_str(payload.get()).ok()? {
            Payload::Event { event } => {
                let is_own = event.is_own();
                let ChatMessage { team, user_team, source_team, user, channel, text, ts, thread_ts, .. } = event;
                // A response belongs to the thread, and not to a message in it.
                let place = Place { message: thread_ts.unwrap_or(ts).into(), button: None };
                let team = user_team.or(source_team).or(team)?;
                (team, Some(user).filter(|_| is_own)?, channel, unescaped(&text), place)
            }
            Payload::Press { user, channel, message, actions } => {
                let Card { ts, text, blocks } = message;
                let blocks: Vec<_> = blocks.into_iter().filter(|block| block["type"] != "actions").collect();
                let place = Place { message: ts.into(), button: Some(json!({ "text": text, "blocks": blocks })) };
                let value = actions.into_iter().next()?.value?;
                (user.team_id, user.id, channel.id, value, place)
            }
        };
        if !is_answer(&text) || channel != self.channel {
            return None;
        }
        if team != own_team {
            tracing::info!("an answer of a member of another workspace is ignored");
            return None;
        }
        Some(ChatAnswer {
            // The conversations of one person with the app.
            is_private: channel.starts_with('D'),
            from: format!("slack:{user}"),
            text,
            place,
        })
    }
}

impl ChatMessage {
    /// Returns whether these are new words of its writer.
    fn is_own(&self) -> bool {
        // Beside plain words, a reply that is also sent to the channel.
        let is_new = self.subtype.as_deref().is_none_or(|subtype| subtype == "thread_broadcast");
        let foreign = [&self.bot_id, &self.app_id, &self.edited];
        self.kind == "message" && is_new && foreign.into_iter().all(Option::is_none)
    }
}

/// Returns whether a connection is encrypted, or stays on this machine. Its address has a ticket.
fn is_safe(address: &str) -> bool {
    let is_here = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    Url::parse(address).is_ok_and(|url| match url.scheme() {
        "wss" => true,
        "ws" => url.host_str().is_some_and(is_here),
        _ => false,
    })
}

/// Returns text as a block that shows it literally: no sign in it is a link or a mention.
fn block(text: &str) -> Value {
    let text = json!({ "type": "text", "text": text });
    json!({ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": [text] }] })
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Returns the reason for a refusal, with its remedy.
fn fault(status: u16, error: &str, key: &str) -> String {
    match error {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type" => format!("it refuses the token; set {key} again, and reload"),
        "channel_not_found" | "not_in_channel" | "is_archived" => {
            "the app is not in the channel; correct channel_id, and invite the app with /invite".to_owned()
        }
        "missing_scope" => {
            let scope = if key == "app_token" { "connections:write" } else { "chat:write" };
            format!("the token lacks the scope {scope}; add it, and install the app again")
        }
        "ratelimited" => "too many requests".to_owned(),
        _ if status == 429 => "too many requests".to_owned(),
        // The names of errors are words.
        _ if status == 200 && error.len() <= 40 && error.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
            format!("it refused the request: {error}")
        }
        _ => format!("it answered HTTP {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::http::SystemHttp;

    fn read(payload: &Value) -> Option<ChatAnswer> {
        let http = SystemHttp::default();
        let app = SlackApp { http: &http, url: "http://127.0.0.1:1", token: "x", app_token: None, channel: "C1" };
        app.answer(&serde_json::value::to_raw_value(payload).unwrap(), "T1")
    }

    fn merged(to: &Value, from: &Value) -> Value {
        let mut to = to.clone();
        for (key, value) in from.as_object().unwrap() {
            let merged = if value.is_object() { merged(&to[key], value) } else { value.clone() };
            to[key] = merged;
        }
        to
    }

    /// Attack (Approvals and notices): A message in Slack is an edit, or comes from another
    /// channel, app or workspace.
    /// Defence: Only new words and presses of a member of the bot's own workspace count, in the
    /// configured channel.
    #[test]
    fn only_own_words_of_a_member_of_the_workspace_in_the_channel_are_an_answer() {
        let message = json!({
            "type": "event_callback", "team_id": "T1",
            "event": { "type": "message", "team": "T1", "user": "U1", "channel": "C1", "ts": "1.2",
                       "channel_type": "channel", "text": "deny k7f3qd because 1 &lt; 2 &amp;lt; 3" },
        });
        let found = read(&message).unwrap();
        assert_eq!((found.from.as_str(), found.text.as_str()), ("slack:U1", "deny k7f3qd because 1 < 2 &lt; 3"));
        for more in [
            json!({ "event": { "team": "T2" } }),
            // A guest: the outer team is that of the writer, or only the inner ones tell.
            json!({ "team_id": "T2", "context_team_id": "T1", "event": { "team": "T2" } }),
            json!({ "event": { "user_team": "T2", "source_team": "T2" } }),
            json!({ "event": { "source_team": "T2" } }),
            json!({ "event": { "team": null } }),
            json!({ "event": { "channel": "C2" } }),
            json!({ "event": { "type": "app_mention" } }),
            json!({ "event": { "text": "please deny k7f3qd" } }),
            json!({ "event": { "subtype": "message_changed" } }),
            json!({ "event": { "bot_id": "B1" } }),
            json!({ "event": { "app_id": "A1" } }),
            json!({ "event": { "edited": { "user": "U1" } } }),
            json!({ "event": { "user": 5 } }),
            json!({ "type": "url_verification" }),
        ] {
            assert_eq!(read(&merged(&message, &more)), None, "{more}");
        }
    }

    #[test]
    fn a_response_to_words_in_a_thread_belongs_to_the_thread() {
        let message = json!({
            "type": "event_callback", "event": {
                "type": "message", "subtype": "thread_broadcast", "team": "T1", "user": "U1", "channel": "C1",
                "ts": "3.4", "thread_ts": "1.2", "text": "approve k7f3qd",
            },
        });
        assert_eq!(read(&message).unwrap().place, Place { message: json!("1.2"), button: None });
    }

    /// Attack (Approvals and notices): The address of a Slack connection leads over a network in
    /// plain.
    /// Defence: Only `wss`, or `ws` on this machine, is opened.
    #[test]
    fn a_connection_is_encrypted_or_stays_on_this_machine() {
        for (address, is) in [
            ("wss://wss-primary.slack.com/link/?ticket=x", true),
            ("ws://127.0.0.1:8080/", true),
            ("ws://localhost.example.com/", false),
            ("ws://wss-primary.slack.com/", false),
            ("http://127.0.0.1/", false),
            ("", false),
        ] {
            assert_eq!(is_safe(address), is, "{address}");
        }
    }

    /// Attack: see `only_own_words_of_a_member_of_the_workspace_in_the_channel_are_an_answer`.
    #[test]
    fn a_press_is_an_answer_at_its_card() {
        let card = json!({ "ts": "1.2", "text": "card", "blocks": [{ "type": "rich_text" }, { "type": "actions" }] });
        let press = json!({
            "type": "block_actions", "team": { "id": "T1" }, "user": { "id": "U1", "team_id": "T1" },
            "channel": { "id": "C1" }, "message": card, "actions": [{ "value": "approve k7f3qd" }],
        });
        let found = read(&press).unwrap();
        assert_eq!((found.from.as_str(), found.text.as_str()), ("slack:U1", "approve k7f3qd"));
        let kept = json!({ "text": "card", "blocks": [{ "type": "rich_text" }] });
        assert_eq!(found.place, Place { message: json!("1.2"), button: Some(kept) });
        for more in [
            json!({ "user": { "team_id": "T2" } }),
            json!({ "user": { "team_id": null } }),
            json!({ "channel": { "id": "D1" } }),
            json!({ "actions": [] }),
            json!({ "actions": [{ "value": "maybe" }] }),
            json!({ "message": null }),
            json!({ "type": "view_submission" }),
        ] {
            assert_eq!(read(&merged(&press, &more)), None, "{more}");
        }
    }
}
