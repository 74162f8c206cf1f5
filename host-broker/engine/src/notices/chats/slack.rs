//! A channel of a Slack app: notices as messages with buttons, and the answers of its members.
//!
//! ```text
//! POST /api/chat.postMessage       {"channel": "C0123", "text": "…", "blocks": […]}
//! POST /api/apps.connections.open  {"ok": true, "url": "wss://…"}
//! wss  ──► {"envelope_id": "1", "type": "interactive", "payload": {…}}      a button was pressed
//!      ◄── {"envelope_id": "1"}                                             the answer is recorded
//! ```
//! SECURITY: an answer is of a member of the app's own workspace: the user ids of other workspaces mean other people. An
//! edit is no answer, nor is a message of another app.
//!
//! Source: the Web API and Socket Mode, <https://docs.slack.dev/apis/>.

use super::{ChatAnswer, ChatError, MARGIN, Place, RESPONSE_MAX, WAIT, bearer, code, is_answer};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use kernel::Message;
use platform::http::{Exchange, Http};
use platform::websocket::WebSocket;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

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
    socket: Option<WebSocket>,
    // The answer that is not confirmed, with its envelope.
    open: Option<(String, ChatAnswer)>,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    envelope_id: Option<String>,
    payload: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Payload {
    #[serde(rename = "event_callback")]
    Event { team_id: String, event: ChatMessage },
    #[serde(rename = "block_actions")]
    Press { team: Id, user: User, channel: Id, message: Card, actions: Vec<Pressed> },
}

#[derive(Deserialize)]
struct ChatMessage {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<IgnoredAny>,
    bot_id: Option<IgnoredAny>,
    app_id: Option<IgnoredAny>,
    edited: Option<IgnoredAny>,
    team: String,
    user: String,
    channel: String,
    text: String,
    ts: String,
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
        Self { app, socket: None, open: None }
    }

    pub(super) async fn fetch(&mut self) -> Result<Vec<ChatAnswer>, ChatError> {
        if let Some((_, answer)) = &self.open {
            return Ok(vec![answer.clone()]);
        }
        let began = Instant::now();
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.app.connect(began + MARGIN).await?,
        };
        while let Some(frame) = socket.next(began + WAIT).await.map_err(|fault| fault.to_string())? {
            let Ok(Frame { kind, envelope_id, payload }) = serde_json::from_str(&frame) else { continue };
            if kind == "disconnect" {
                // The next fetch opens a new connection.
                return Ok(Vec::new());
            }
            let Some(envelope) = envelope_id else { continue };
            if let Some(answer) = payload.and_then(|payload| self.app.answer(payload)) {
                self.open = Some((envelope, answer.clone()));
                self.socket = Some(socket);
                return Ok(vec![answer]);
            }
            acknowledge(&mut socket, &envelope).await.map_err(|fault| fault.to_string())?;
        }
        // A connection whose server is gone says nothing for ever.
        if socket.heard() < began {
            return Err("its connection is silent".into());
        }
        socket.ping(Instant::now() + MARGIN).await.map_err(|fault| fault.to_string())?;
        self.socket = Some(socket);
        Ok(Vec::new())
    }

    pub(super) async fn confirm(&mut self) {
        let (Some((envelope, _)), Some(mut socket)) = (self.open.take(), self.socket.take()) else { return };
        // Without it, Slack delivers the answer again, and it counts once.
        if acknowledge(&mut socket, &envelope).await.is_ok() {
            self.socket = Some(socket);
        }
    }
}

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
    async fn connect(&self, deadline: Instant) -> Result<WebSocket, ChatError> {
        let token = self.app_token.ok_or("the channel has no `app_token`")?;
        let opened = self.called("apps.connections.open", ("app_token", token), &json!({}), deadline).await?;
        let address = opened.get("url").and_then(Value::as_str).ok_or("its response has no `url`")?;
        // The address has a ticket, which does not cross a network in plain.
        if !address.starts_with("wss://") && self.url.starts_with("https://") {
            return Err("its connection would not be encrypted".into());
        }
        Ok(WebSocket::connect(address, RESPONSE_MAX, deadline).await.map_err(|fault| fault.to_string())?)
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
        let uri = format!("{}/{method}", self.url).parse().map_err(|_bad| "the url is no address")?;
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json), (AUTHORIZATION, bearer(key, token)?)]);
        let post = Exchange::post(uri, headers, request.to_string().into_bytes(), deadline);
        let (status, body) = self.http.ask(post, RESPONSE_MAX).await.map_err(|fault| fault.to_string())?;
        let response: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status == 200 && response.get("ok") == Some(&Value::Bool(true)) {
            return Ok(response);
        }
        let error = response.get("error").and_then(Value::as_str).unwrap_or_default();
        Err(fault(status, error, key).into())
    }

    /// Returns the answer of an envelope, if it is one.
    fn answer(&self, payload: Value) -> Option<ChatAnswer> {
        let (teams, user, channel, text, place) = match serde_json::from_value(payload).ok()? {
            Payload::Event { team_id, event } => {
                let ChatMessage { kind, subtype, bot_id, app_id, edited, team, user, channel, text, ts } = event;
                let foreign = [&subtype, &bot_id, &app_id, &edited];
                let is_own = kind == "message" && foreign.into_iter().all(Option::is_none);
                let place = Place { message: ts.into(), button: None };
                ((team_id, team), Some(user).filter(|_| is_own)?, channel, unescaped(&text), place)
            }
            Payload::Press { team, user, channel, message, actions } => {
                let Card { ts, text, blocks } = message;
                let blocks: Vec<_> = blocks.into_iter().filter(|block| block["type"] != "actions").collect();
                let place = Place { message: ts.into(), button: Some(json!({ "text": text, "blocks": blocks })) };
                let value = actions.into_iter().next()?.value?;
                ((team.id, user.team_id), user.id, channel.id, value, place)
            }
        };
        (is_answer(&text) && channel == self.channel && teams.0 == teams.1).then(|| ChatAnswer {
            // The conversations of one person with the app.
            is_private: channel.starts_with('D'),
            from: format!("slack:{user}"),
            text,
            place,
        })
    }
}

/// Returns text as a block that shows it literally: no sign in it is a link or a mention.
fn block(text: &str) -> Value {
    let text = json!({ "type": "text", "text": text });
    json!({ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": [text] }] })
}

/// Text between these signs would be a link or a mention of everybody.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
        | "not_allowed_token_type" => format!("it refuses the token; set {key} again"),
        "channel_not_found" | "not_in_channel" | "is_archived" => {
            "the app is not in the channel; correct channel_id, and invite the app with /invite".to_owned()
        }
        "missing_scope" => {
            let scope = if key == "app_token" { "connections:write" } else { "chat:write" };
            format!("the token lacks the scope {scope}; add it, and install the app again")
        }
        "ratelimited" => "too many requests".to_owned(),
        _ if status == 429 => "too many requests".to_owned(),
        _ if status == 200 => "it refused the request".to_owned(),
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
        app.answer(payload.clone())
    }

    fn merged(to: &Value, from: &Value) -> Value {
        let mut to = to.clone();
        for (key, value) in from.as_object().unwrap() {
            let merged = if value.is_object() { merged(&to[key], value) } else { value.clone() };
            to[key] = merged;
        }
        to
    }

    #[test]
    fn only_own_words_of_a_member_of_the_workspace_in_the_channel_are_an_answer() {
        let message = json!({
            "type": "event_callback", "team_id": "T1", "is_ext_shared_channel": false,
            "event": { "type": "message", "team": "T1", "user": "U1", "channel": "C1", "ts": "1.2",
                       "channel_type": "channel", "text": "deny k7f3qd because 1 &lt; 2 &amp;lt; 3" },
        });
        let found = read(&message).unwrap();
        assert_eq!((found.from.as_str(), found.text.as_str()), ("slack:U1", "deny k7f3qd because 1 < 2 &lt; 3"));
        for more in [
            json!({ "event": { "team": "T2" } }),
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
            json!({ "team": null }),
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
