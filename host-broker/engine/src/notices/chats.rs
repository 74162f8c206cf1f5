//! The chats: each sends notices as messages, and fetches the answers of its people.
//!
//! ```text
//! fetch ──► first ──► the broker records it ──► confirm ──► respond
//!              ▲                                   │
//!              └──────────── the next one ◄────────┘
//! ```
//! A chat delivers an answer again that is not confirmed when the daemon ends. Slack does so with words, for some minutes,
//! and not with presses.
//!
//! SECURITY: the chat names the writer of an answer. Only the own words of a person in the configured chat count. No error
//! quotes a URL or a response, because both can have secrets.

pub(super) mod matrix;
pub(super) mod slack;
pub(super) mod telegram;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use kernel::Message;
use platform::http::{Answer, Exchange, Http};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// How long a fetch waits for the next answer, and how much longer for its response.
const WAIT: Duration = Duration::from_secs(50);
const MARGIN: Duration = Duration::from_secs(10);
/// The most bytes of a response.
const RESPONSE_MAX: usize = 4 * 1024 * 1024;
/// The longest pause that a response can ask for.
const RETRY_MAX: Duration = Duration::from_hours(1);

/// The reason why a request of a chat failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatError {
    /// One sentence for the operator, without anything of the response.
    pub reason: String,
    /// The time before which the chat must not be asked again.
    pub retry_after: Option<Duration>,
}

impl From<String> for ChatError {
    fn from(reason: String) -> Self {
        Self { reason, retry_after: None }
    }
}

impl From<&str> for ChatError {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// An answer in a chat.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatAnswer {
    /// Whether its writer is alone with the broker.
    pub is_private: bool,
    /// The writer: `telegram:12345`.
    pub from: String,
    /// The text: `approve k7f3qd`.
    pub text: String,
    /// The place of the response.
    place: Place,
}

impl fmt::Debug for ChatAnswer {
    /// Omits the text, which has a secret code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatAnswer(from {})", self.from)
    }
}

/// The place of an answer, in the chat's own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    // The id of the answer, or of the message whose button was pressed.
    message: Value,
    // The part of the press that a response at the button needs.
    button: Option<Value>,
}

/// Returns whether a text is meant as an answer. People also write other things in a chat.
fn is_answer(text: &str) -> bool {
    let word = text.split_whitespace().next().map(str::to_ascii_lowercase);
    matches!(word.as_deref(), Some("approve" | "deny"))
}

/// Returns the code of a card that a chat can answer.
fn code(message: &Message) -> Option<&str> {
    message.document.get("code").and_then(Value::as_str).filter(|_| message.shows_card)
}

/// Returns text without the signs that begin a link, a mention or an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Posts a document, and returns the response.
async fn post(
    http: &dyn Http,
    address: &str,
    authorization: Option<HeaderValue>,
    document: &Value,
    deadline: Instant,
) -> Result<Answer, ChatError> {
    let uri = address.parse().map_err(|_bad| "the url is no address")?;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
    let exchange = Exchange::post(uri, headers, document.to_string().into_bytes(), deadline);
    Ok(http.ask(exchange, RESPONSE_MAX).await.map_err(|fault| fault.to_string())?)
}

/// A chat, with its secrets.
pub(super) enum Chat<'a> {
    Telegram(telegram::Bot<'a>),
    Matrix(matrix::Account<'a>),
    Slack(slack::SlackApp<'a>),
}

impl<'a> Chat<'a> {
    /// Sends a notice. One with a card has two buttons, where the chat has buttons.
    pub(super) async fn send(&self, message: &Message, deadline: Instant) -> Result<(), ChatError> {
        match self {
            Self::Telegram(bot) => bot.send(message, deadline).await,
            Self::Matrix(account) => account.send(message, deadline).await,
            Self::Slack(app) => app.send(message, deadline).await,
        }
    }

    /// Returns the receiver of its answers.
    pub(super) fn receiver(self) -> ChatReceiver<'a> {
        let service = match self {
            Self::Telegram(bot) => Receiver::Telegram(telegram::Receiver::new(bot)),
            Self::Matrix(account) => Receiver::Matrix(matrix::Receiver::new(account)),
            Self::Slack(app) => Receiver::Slack(slack::Receiver::new(app)),
        };
        ChatReceiver { service, open: VecDeque::new(), is_sound: false }
    }
}

/// The answers of one chat.
pub struct ChatReceiver<'a> {
    service: Receiver<'a>,
    // The answers that are not confirmed.
    open: VecDeque<ChatAnswer>,
    // Whether the last fetch succeeded. The first one after a failure does not wait, so that its success is known at once.
    is_sound: bool,
}

enum Receiver<'a> {
    Telegram(telegram::Receiver<'a>),
    Matrix(matrix::Receiver<'a>),
    Slack(slack::Receiver<'a>),
}

/// How long a response to an answer may take.
const RESPOND: Duration = Duration::from_secs(10);

impl ChatReceiver<'_> {
    /// Waits for the next answers, unless there is one that is not [confirmed](Self::confirm).
    ///
    /// # Errors
    /// [`ChatError`], without anything of the response. The chat delivers its answers again.
    pub async fn fetch(&mut self) -> Result<(), ChatError> {
        if self.open.is_empty() {
            let wait = if self.is_sound { WAIT } else { Duration::ZERO };
            self.is_sound = false;
            self.open = match &mut self.service {
                Receiver::Telegram(receiver) => receiver.fetch(wait).await?,
                Receiver::Matrix(receiver) => receiver.fetch(wait).await?,
                Receiver::Slack(receiver) => receiver.fetch(wait).await?,
            }
            .into();
            self.is_sound = true;
        }
        Ok(())
    }

    /// Returns the oldest answer that is not confirmed.
    pub fn first(&self) -> Option<&ChatAnswer> {
        self.open.front()
    }

    /// Confirms that answer: the broker has recorded it.
    pub async fn confirm(&mut self) {
        self.open.pop_front();
        match &mut self.service {
            // The next fetch confirms all.
            Receiver::Telegram(_) | Receiver::Matrix(_) => {}
            Receiver::Slack(receiver) => receiver.confirm().await,
        }
    }

    /// Tells the writer of an answer its effect. The buttons disappear once the approval request is closed.
    ///
    /// # Errors
    /// [`ChatError`], without anything of the response. The effect of the answer remains.
    pub async fn respond(&self, answer: &ChatAnswer, effect: (&str, bool)) -> Result<(), ChatError> {
        let deadline = Instant::now() + RESPOND;
        match &self.service {
            Receiver::Telegram(receiver) => receiver.bot.respond(answer, effect, deadline).await,
            Receiver::Matrix(receiver) => receiver.account.respond(answer, effect.0, deadline).await,
            Receiver::Slack(receiver) => receiver.app.respond(answer, effect, deadline).await,
        }
    }
}
