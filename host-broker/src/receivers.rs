//! The receivers: each fetches the answers of one chat, and has the broker take them.
//!
//! ```text
//! row `started` is durable ──► fetch ──► answer ──► the broker's reply ──► the chat
//!                               ▲                                           │
//!                               └──────── the next fetch confirms it ◄──────┘
//! ```
//! An answer is confirmed after the broker has recorded it. After a crash the chat delivers it again, and the approval
//! request is closed by then.

use crate::control::{Asked, CommandDispatcher};
use crate::daemon::EventSender;
use engine::chat::RelayedAnswer;
use engine::notices::pause;
use engine::notices::sender::NoticeSender;
use engine::notices::telegram::ChatAnswer;
use engine::request::Command;
use kernel::OutgoingNotice;
use shared::Reply;
use shared::reply::Status;
use std::sync::Arc;
use std::time::Duration;

/// How long the broker may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The parts of every receiver.
#[derive(Clone)]
pub struct AnswerReceiver {
    /// The channels.
    pub notice_sender: Arc<NoticeSender>,
    /// Who puts an answer to the broker.
    pub dispatcher: CommandDispatcher,
    /// Where answers go.
    pub reports: EventSender,
}

impl AnswerReceiver {
    /// Fetches the answers of a channel until it is dropped.
    pub async fn run(self, channel: OutgoingNotice) {
        let name = channel.channel();
        tracing::info!(channel = name, "the answers of the chat are fetched");
        let (mut next, mut failures, mut known) = (0, 0_u32, String::new());
        loop {
            match self.notice_sender.fetch(&channel, next).await {
                Ok(fetched) => {
                    (failures, known) = (0, String::new());
                    for answer in fetched.answers {
                        self.take(&channel, &answer).await;
                    }
                    next = fetched.next;
                }
                Err(fault) => {
                    failures = failures.saturating_add(1);
                    // The same reason again and again says nothing new.
                    if known != fault.reason {
                        tracing::warn!(channel = name, reason = %fault.reason, "the answers cannot be fetched");
                        known.clone_from(&fault.reason);
                    }
                    let wait = pause(failures).min(PAUSE_MAX);
                    tokio::time::sleep(fault.retry_after.map_or(wait, |told| told.max(wait))).await;
                }
            }
        }
    }

    async fn take(&self, channel: &OutgoingNotice, answer: &ChatAnswer) {
        let (text, counts) = self.ask(channel.channel(), answer).await;
        if let Err(fault) = self.notice_sender.respond(channel, answer, (&text, counts)).await {
            tracing::warn!(channel = channel.channel(), reason = %fault.reason, "the chat was not told of an answer");
        }
    }

    /// Puts an answer to the broker. Returns the words for the chat, and whether the answer counts.
    async fn ask(&self, channel: &str, answer: &ChatAnswer) -> (String, bool) {
        let relayed = RelayedAnswer::new(answer.from.clone(), answer.text.clone());
        let relayed = RelayedAnswer { may_relay: true, channel: Some(channel.to_owned()), ..relayed };
        let command = Command::RelayedAnswer(relayed);
        if let Err(why) = command.check() {
            return (why, false);
        }
        let asked = Asked { person: format!("channel:{channel}"), command, channel: "chat" };
        let reply = match tokio::time::timeout(TIMEOUT, self.dispatcher.ask(&self.reports, asked)).await {
            Ok(Ok(reply)) => serde_json::from_slice::<Reply>(&reply).ok(),
            Ok(Err(_)) | Err(_) => None,
        };
        match reply {
            Some(Reply { status: Status::Executed, summary, .. }) => (summary.unwrap_or_default(), true),
            Some(Reply { error: Some(error), .. }) => (error, false),
            Some(_) | None => ("The broker has not answered; use the inbox.".to_owned(), false),
        }
    }
}
