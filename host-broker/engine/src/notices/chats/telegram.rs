//! A chat of a Telegram bot: notices as messages with buttons, and the answers of the chat.
//!
//! ```text
//! POST /bot<token>/sendMessage     {"chat_id": 12345, "text": "…", "reply_markup": {"inline_keyboard": …}}
//! POST /bot<token>/getUpdates      {"offset": 7, "timeout": 50, …}     waits for the next updates
//! ```
//! SECURITY: a forwarded message, or one that another bot wrote, is no answer of its sender. The token of the bot is in
//! the path of each request.
//!
//! Source: the Bot API, <https://core.telegram.org/bots/api>.

use super::{ChatAnswer, ChatError, MARGIN, Place, RETRY_MAX, code, is_answer, post};
use kernel::Message;
use platform::http::Http;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// The most updates of one response.
const UPDATES_MAX: usize = 10;
/// The longest text in response to a button, in characters.
const TOLD_MAX: usize = 200;
/// A bot and its chat.
pub(in crate::notices) struct Bot<'a> {
    pub(in crate::notices) http: &'a dyn Http,
    pub(in crate::notices) url: &'a str,
    pub(in crate::notices) token: &'a str,
    pub(in crate::notices) chat_id: i64,
}

/// The answers in the chat of a bot.
pub(super) struct Receiver<'a> {
    pub(super) bot: Bot<'a>,
    // The number from which to fetch next. That confirms the updates before it. After a quiet week it can be lower than
    // before.
    next: i64,
}

/// The updates of one response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Updates {
    // The answers, oldest first.
    answers: Vec<ChatAnswer>,
    // The number after the last one, if there was any update.
    next: Option<i64>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(bot: Bot<'a>) -> Self {
        Self { bot, next: 0 }
    }

    pub(super) async fn fetch(&mut self, wait: Duration) -> Result<Vec<ChatAnswer>, ChatError> {
        let updates = self.bot.updates(self.next, wait).await?;
        // A chat that delivers the same updates again and again gets no second response.
        let Some(next) = updates.next.filter(|next| *next != self.next) else { return Ok(Vec::new()) };
        self.next = next;
        Ok(updates.answers)
    }
}

#[derive(Deserialize)]
struct Response {
    ok: bool,
    result: Option<Value>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct Update {
    message: Option<ChatMessage>,
    callback_query: Option<Query>,
}

#[derive(Deserialize)]
struct ChatMessage {
    message_id: i64,
    from: Option<User>,
    chat: Chat,
    text: Option<String>,
    forward_origin: Option<IgnoredAny>,
    // Of servers before version 7.0.
    forward_date: Option<IgnoredAny>,
    via_bot: Option<IgnoredAny>,
    sender_chat: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Query {
    id: String,
    from: User,
    message: Option<QueryMessage>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct QueryMessage {
    message_id: i64,
    chat: Chat,
}

#[derive(Deserialize)]
struct User {
    id: i64,
    #[serde(default)]
    is_bot: bool,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
}

impl Bot<'_> {
    /// Sends a notice. One with a card has two buttons.
    pub(super) async fn send(&self, message: &Message, deadline: Instant) -> Result<(), ChatError> {
        self.call("sendMessage", &self.message(message), deadline).await.map(drop)
    }

    /// Waits for the next updates from this number on, and returns the answers among them.
    async fn updates(&self, offset: i64, wait: Duration) -> Result<Updates, ChatError> {
        let deadline = Instant::now() + wait + MARGIN;
        let request = json!({
            "offset": offset,
            "limit": UPDATES_MAX,
            "timeout": wait.as_secs(),
            "allowed_updates": ["message", "callback_query"],
        });
        let Value::Array(updates) = self.call("getUpdates", &request, deadline).await? else {
            return Err("its updates are no list".into());
        };
        Ok(self.parsed(updates))
    }

    /// Tells the writer of an answer its effect. The buttons disappear once the approval request is closed.
    pub(super) async fn respond(
        &self,
        answer: &ChatAnswer,
        (text, is_closed): (&str, bool),
        deadline: Instant,
    ) -> Result<(), ChatError> {
        let Place { message, button } = &answer.place;
        let Some(query) = button else { return self.reply(message, text, deadline).await };
        let told: String = text.chars().take(TOLD_MAX).collect();
        let request = json!({ "callback_query_id": query, "text": told, "show_alert": true });
        // A press of long ago can no longer be answered at its button.
        let told = match self.call("answerCallbackQuery", &request, deadline).await {
            Ok(_) => Ok(()),
            Err(_) => self.reply(message, text, deadline).await,
        };
        if is_closed {
            let none = json!({ "inline_keyboard": [] });
            let request = json!({ "chat_id": self.chat_id, "message_id": message, "reply_markup": none });
            self.call("editMessageReplyMarkup", &request, deadline).await?;
        }
        told
    }

    async fn reply(&self, to: &Value, text: &str, deadline: Instant) -> Result<(), ChatError> {
        let reply = json!({ "message_id": to, "allow_sending_without_reply": true });
        let request = json!({ "chat_id": self.chat_id, "text": text, "reply_parameters": reply });
        self.call("sendMessage", &request, deadline).await.map(drop)
    }

    fn message(&self, message: &Message) -> Value {
        let mut request = json!({
            "chat_id": self.chat_id,
            "text": message.text,
            "link_preview_options": { "is_disabled": true },
        });
        if let (Some(code), Some(members)) = (code(message), request.as_object_mut()) {
            let button = |word: &str, name: &str| json!({ "text": name, "callback_data": format!("{word} {code}") });
            let row = [button("approve", "Approve"), button("deny", "Deny")];
            members.insert("reply_markup".to_owned(), json!({ "inline_keyboard": [row] }));
        }
        request
    }

    async fn call(&self, method: &str, request: &Value, deadline: Instant) -> Result<Value, ChatError> {
        let is_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
        if self.token.is_empty() || !self.token.chars().all(is_of_token) {
            return Err("its secret `bot_token` has characters that no token has; set it again".into());
        }
        let address = Zeroizing::new(format!("{}/bot{}/{method}", self.url, self.token));
        let answer = post(self.http, &address, None, request, deadline).await?;
        let response: Option<Response> = serde_json::from_slice(&answer.body).ok();
        match (answer.status, response) {
            (200, Some(Response { ok: true, result: Some(result), .. })) => Ok(result),
            (status, response) => {
                let seconds = response.and_then(|response| response.parameters?.retry_after);
                let retry_after = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_MAX));
                Err(ChatError { reason: fault(method, status), retry_after })
            }
        }
    }

    fn parsed(&self, updates: Vec<Value>) -> Updates {
        let mut parsed = Updates::default();
        for update in updates {
            // An unreadable update is confirmed, too. Otherwise each fetch would return it.
            let number = update.get("update_id").and_then(Value::as_i64);
            let Some(number) = number.filter(|number| (0..i64::from(i32::MAX)).contains(number)) else { continue };
            parsed.next = parsed.next.max(Some(number + 1));
            parsed.answers.extend(serde_json::from_value(update).ok().and_then(|update| self.answer(update)));
        }
        parsed
    }

    /// Returns the answer of an update, if it is one.
    fn answer(&self, update: Update) -> Option<ChatAnswer> {
        let (user, chat, text, place) = match update {
            Update { message: Some(message), .. } => {
                let ChatMessage { message_id, from, chat, text, forward_origin, forward_date, via_bot, sender_chat } =
                    message;
                let foreign = [&forward_origin, &forward_date, &via_bot, &sender_chat];
                let is_own = foreign.into_iter().all(Option::is_none);
                (from.filter(|_| is_own)?, chat, text?, Place { message: message_id.into(), button: None })
            }
            Update { callback_query: Some(Query { id, from, message, data }), .. } => {
                let message = message?;
                (from, message.chat, data?, Place { message: message.message_id.into(), button: Some(id.into()) })
            }
            Update { message: None, callback_query: None } => return None,
        };
        (is_answer(&text) && chat.id == self.chat_id && !user.is_bot).then(|| ChatAnswer {
            // The chats of several people have negative numbers.
            is_private: chat.id > 0,
            from: format!("telegram:{}", user.id),
            text,
            place,
        })
    }
}

/// Returns the reason for a status, with its remedy.
fn fault(method: &str, status: u16) -> String {
    let remedy = match status {
        400 if method == "sendMessage" => ": it does not know the chat; correct chat_id, and write to the bot once",
        401 | 404 => ": it refuses the token of the bot; set bot_token again, and reload",
        403 => ": the bot may not write to the chat; add it to the chat, or write to it once",
        409 => ": another program fetches the answers of this bot, or it has a webhook; use one bot for each broker",
        429 => ": too many requests",
        _ => "",
    };
    format!("it answered HTTP {status}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::http::SystemHttp;

    fn parsed(updates: Value) -> Updates {
        let http = SystemHttp::default();
        let bot = Bot { http: &http, url: "http://127.0.0.1:1", token: "1:x", chat_id: -5 };
        let Value::Array(updates) = updates else { panic!("not a list") };
        bot.parsed(updates)
    }

    /// Attack (Approvals and notices): A message in Telegram is forwarded, comes from a bot or
    /// another chat, or has other words.
    /// Defence: Only the own words of a person in the configured chat are an answer; the person
    /// must be known.
    #[test]
    fn only_the_own_words_of_a_person_in_the_configured_chat_are_an_answer() {
        let message = |more: Value| {
            let mut message = json!({
                "message_id": 1, "from": { "id": 12345, "is_bot": false }, "chat": { "id": -5 }, "text": "Approve k7f3qd"
            });
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            parsed(json!([{ "update_id": 9, "message": message }]))
        };
        let found = message(json!({}));
        let answer = &found.answers[0];
        assert_eq!((answer.from.as_str(), answer.text.as_str()), ("telegram:12345", "Approve k7f3qd"));
        assert_eq!((found.next, answer.is_private), (Some(10), false));
        for more in [
            json!({ "chat": { "id": -6 } }),
            json!({ "from": { "id": 12345, "is_bot": true } }),
            json!({ "from": null }),
            json!({ "text": "I approve k7f3qd" }),
            json!({ "text": "" }),
            json!({ "text": null }),
            json!({ "forward_origin": { "type": "user" } }),
            json!({ "forward_date": 1 }),
            json!({ "via_bot": { "id": 1 } }),
            json!({ "sender_chat": { "id": -5 } }),
            json!({ "from": { "id": "12345" } }),
        ] {
            let found = message(more.clone());
            assert_eq!(found, Updates { answers: Vec::new(), next: Some(10) }, "{more}");
        }
    }

    /// Attack: see `faults_are_waited_out_and_an_answer_given_meanwhile_counts`.
    #[test]
    fn an_unreadable_update_is_passed_over_and_the_next_number_follows_the_response() {
        let query = |chat: i64| {
            let message = json!({ "message_id": 3, "chat": { "id": chat } });
            json!({ "update_id": 8, "callback_query": {
                "id": "q", "from": { "id": 1 }, "message": message, "data": "deny k7f3qd" } })
        };
        let found =
            parsed(json!([{ "update_id": 3 }, "x", { "update_id": "8" }, query(-5), { "update_id": i64::MAX }]));
        assert_eq!(found.next, Some(9));
        assert_eq!(found.answers[0].place, Place { message: json!(3), button: Some(json!("q")) });
        assert_eq!(parsed(json!([query(5)])), Updates { answers: Vec::new(), next: Some(9) });
        assert_eq!(parsed(json!([])).next, None);
    }
}
