//! The receivers: each fetches the answers of one chat, and has the broker take them.
//!
//! ```text
//! row `started` is durable ──► fetch ──► answer ──► the broker's reply ──► confirm ──► the chat
//!                               ▲                                                        │
//!                               └────────────────────────────────────────────────────────┘
//! ```
//! An answer is confirmed after the broker has recorded it. Otherwise the chat delivers it again, and it counts once.

use crate::control::{Asked, CommandDispatcher};
use crate::daemon::EventSender;
use engine::chat::RelayedAnswer;
use engine::notices::chats::{ChatAnswer, ChatError, ChatReceiver};
use engine::notices::sender::NoticeSender;
use engine::request::Command;
use futures_util::FutureExt as _;
use kernel::OpenChannel;
use platform::delivery::pause;
use serde_json::Value;
use shared::reply::Status;
use shared::{Code, Reply};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The shortest time of a fetch without an answer of a known person. A chat that answers sooner is not asked again at
/// once, so strangers who write much cost little.
const FETCH_MIN: Duration = Duration::from_secs(1);

/// The state of the receivers, for people: the last fault of each channel, or none.
#[derive(Debug, Clone, Default)]
pub struct ReceiverFaults(Arc<Mutex<BTreeMap<String, Option<String>>>>);

impl ReceiverFaults {
    /// Returns the fault of each channel whose answers are fetched: `{"phone": null}`.
    pub fn all(&self) -> BTreeMap<String, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, channel: &str, fault: Option<&str>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(channel.to_owned(), fault.map(str::to_owned));
        match (before, fault) {
            // The same state again and again says nothing new.
            (Some(before), fault) if before.as_deref() == fault => {}
            (_, Some(reason)) => tracing::warn!(channel, reason, "the answers of the chat cannot be fetched"),
            (_, None) => tracing::info!(channel, "the answers of the chat are fetched"),
        }
    }
}

/// The parts of every receiver.
#[derive(Clone)]
pub struct AnswerReceiver {
    /// The channels.
    pub notice_sender: Arc<NoticeSender>,
    /// The sender of answers to the broker.
    pub dispatcher: CommandDispatcher,
    /// Where answers go.
    pub reports: EventSender,
}

/// The broker's reply to an answer.
struct Taken {
    /// The words for the chat.
    text: String,
    /// Whether the approval request is closed by it.
    is_closed: bool,
}

impl AnswerReceiver {
    /// Fetches the answers of a channel until it is dropped.
    pub async fn run(self, channel: OpenChannel) {
        loop {
            if AssertUnwindSafe(self.receive(&channel)).catch_unwind().await.is_err() {
                self.dispatcher
                    .receiving
                    .note(channel.name(), Some("the broker's own code failed; for the reason: host-broker logs"));
            }
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }

    async fn receive(&self, channel: &OpenChannel) {
        let mut receiver = match self.notice_sender.receiver(channel) {
            Ok(receiver) => receiver,
            Err(reason) => return self.dispatcher.receiving.note(channel.name(), Some(&reason)),
        };
        // The stranger who wrote last.
        let (mut failures, mut stranger) = (0_u32, None);
        loop {
            let began = Instant::now();
            let wait = match self.fetch(channel, &mut receiver, &mut stranger).await {
                Ok(is_answer) => {
                    self.dispatcher.receiving.note(channel.name(), None);
                    failures = 0;
                    if is_answer { Duration::ZERO } else { FETCH_MIN.saturating_sub(began.elapsed()) }
                }
                Err(fault) => {
                    self.dispatcher.receiving.note(channel.name(), Some(&fault.reason));
                    failures = failures.saturating_add(1);
                    let wait = pause(failures).min(PAUSE_MAX);
                    fault.retry_after.map_or(wait, |told| told.max(wait))
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Fetches once, and takes the answers. Returns whether somebody whom the broker knows gave one.
    async fn fetch(
        &self,
        channel: &OpenChannel,
        receiver: &mut ChatReceiver<'_>,
        stranger: &mut Option<String>,
    ) -> Result<bool, ChatError> {
        receiver.fetch().await?;
        let mut is_answer = false;
        while let Some(answer) = receiver.first().cloned() {
            let Some(taken) = self.ask(channel.name(), &answer).await else {
                // It is not recorded: the next fetch has it again.
                return Err("the broker cannot record answers now".into());
            };
            receiver.confirm().await;
            if answer.is_private || self.dispatcher.config.speaker(&answer.from).is_some() {
                self.tell(channel, receiver, &answer, &taken).await;
                is_answer = true;
            } else if stranger.as_ref() != Some(&answer.from) {
                // The members of a group whom the broker does not know get no reply to each of their lines.
                tracing::info!(channel = channel.name(), from = answer.from, "nobody's `chat` names a writer");
                *stranger = Some(answer.from);
            }
        }
        Ok(is_answer)
    }

    async fn tell(&self, channel: &OpenChannel, receiver: &ChatReceiver<'_>, answer: &ChatAnswer, taken: &Taken) {
        if let Err(fault) = receiver.respond(answer, (&taken.text, taken.is_closed)).await {
            tracing::warn!(channel = channel.name(), reason = %fault.reason, "the chat was not told of an answer");
        }
    }

    /// Puts an answer to the broker. `None` means that the broker has not recorded it.
    async fn ask(&self, channel: &str, answer: &ChatAnswer) -> Option<Taken> {
        let relayed = RelayedAnswer::new(answer.from.clone(), answer.text.clone());
        let relayed = RelayedAnswer { may_relay: true, channel: Some(channel.to_owned()), ..relayed };
        let command = Command::RelayedAnswer(relayed);
        if let Err(text) = command.check() {
            return Some(Taken { text, is_closed: false });
        }
        let asked = Asked { person: format!("channel:{channel}"), command, channel: "chat" };
        let reply = self.dispatcher.ask(&self.reports, asked).await.ok()?;
        let reply: Reply = serde_json::from_slice(&reply).ok()?;
        if reply.code.as_deref() == Some(Code::EvidenceUnavailable.word()) {
            return None;
        }
        let state = reply.data.as_ref().and_then(|data| data.get("state")).and_then(Value::as_str);
        let is_closed = reply.status == Status::Executed && state != Some("waiting");
        Some(Taken { text: reply.error.or(reply.summary).unwrap_or_default(), is_closed })
    }
}
