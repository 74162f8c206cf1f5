//! The executing side: commands of other hosts, one after the other.

use super::signed::{Use, sign, verify};
use super::{FleetCommand, FleetReply, OtherHosts};
use crate::control::{self, CommandDispatcher, refusal};
use crate::daemon::EventSender;
use model::HostName;
use serde_json::Value;
use shared::RequestId;
use shared::digest::Digest;
use std::sync::Arc;
use std::time::Duration;
use store::fleet::commands::{REPLY_MAX, ReceivedCommand};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The largest difference between the clocks of two hosts, with the time on the way.
const CLOCKS: Duration = Duration::from_secs(300);
/// The longest time for the daemon's reply. The sender waits longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// The pause after the database could not be read.
const PAUSE: Duration = Duration::from_secs(1);

impl OtherHosts {
    /// Starts the task that executes the commands of other hosts.
    pub(crate) fn start(
        self: &Arc<Self>,
        runtime: &Handle,
        dispatcher: CommandDispatcher,
        reports: EventSender,
    ) -> AbortHandle {
        let others = Arc::clone(self);
        runtime.spawn(async move { others.receive(dispatcher, reports).await }).abort_handle()
    }

    async fn receive(&self, dispatcher: CommandDispatcher, reports: EventSender) {
        let named = self.hosts().filter(|(_, other)| !other.people.is_empty());
        let senders: Vec<HostName> = named.map(|(host, _)| host.clone()).collect();
        if senders.is_empty() {
            return;
        }
        let mut is_away = false;
        loop {
            let taken = self.commands.take(&senders).await;
            if let Err(error) = &taken {
                if !is_away {
                    tracing::warn!(%error, "commands of other hosts cannot be read");
                }
                tokio::time::sleep(PAUSE).await;
            }
            is_away = taken.is_err();
            for command in taken.unwrap_or_default() {
                let answered = match self.execute(&command, &dispatcher, &reports).await {
                    Ok(reply) => self.commands.answer(&command, &reply).await,
                    Err(fault) => {
                        tracing::warn!(host = %command.sender, fault, "a command of another host is not valid");
                        self.commands.discard(&command).await
                    }
                };
                if let Err(error) = answered {
                    tracing::warn!(host = %command.sender, %error, "a command of another host has no answer yet");
                }
            }
        }
    }

    /// Executes a command, and returns the signed reply.
    ///
    /// # Errors
    /// The reason why it is no command of the host. It gets no answer.
    async fn execute(
        &self,
        received: &ReceivedCommand,
        dispatcher: &CommandDispatcher,
        reports: &EventSender,
    ) -> Result<String, String> {
        let other = self.other(&received.sender).ok_or("the configuration does not name the host")?;
        let key = other.public_key().ok_or("its key is not valid")?;
        let command: FleetCommand = verify(&key, Use::Command, &received.command)?;
        let is_this = command.from == received.sender && command.to == *self.own() && command.id == received.id;
        if !is_this {
            return Err("it was signed for another host or another id".to_owned());
        }
        // A command that is taken again has the same id, so nothing happens twice.
        let id = format!("fleet-{}-{}", received.sender, received.id);
        let id: RequestId = id.parse().map_err(|_invalid| "its id is not valid")?;
        let reply = if other.people.contains(&command.person) {
            self.reply_to(id, command, dispatcher, reports).await
        } else {
            refusal(&format!(
                "the host `{}` executes no commands of {} that come from `{}`; it needs `people` in [store.hosts.{}]",
                self.own(),
                command.person,
                received.sender,
                received.sender
            ))
        };
        self.signed_reply(received, reply).map_err(|error| error.to_string())
    }

    async fn reply_to(
        &self,
        id: RequestId,
        FleetCommand { from, person, sent_at, request, .. }: FleetCommand,
        dispatcher: &CommandDispatcher,
        reports: &EventSender,
    ) -> Value {
        let now = self.clock.now();
        if now.since(sent_at).max(sent_at.since(now)) > CLOCKS {
            return refusal(&format!(
                "the command was sent at {sent_at}, and at `{}` it is {now}; set the clocks of both hosts",
                self.own()
            ));
        }
        tracing::info!(host = %from, request_id = %id, person, "a command of another host");
        let answered = control::answer_fleet_command((person, id), request, dispatcher, reports);
        let Ok(reply) = timeout(ANSWERED_WITHIN, answered).await else {
            return refusal("the daemon did not answer; it is unknown whether the command was executed");
        };
        serde_json::from_slice(&reply).unwrap_or_else(|_other| refusal("the daemon gave no reply"))
    }

    fn signed_reply(&self, received: &ReceivedCommand, reply: Value) -> Result<String, serde_json::Error> {
        let command = Digest::of(received.command.as_bytes());
        let (from, to) = (self.own().clone(), received.sender.clone());
        let mut document = FleetReply { from, to, command, reply };
        let signed = sign(&self.key, Use::Reply, &document)?;
        if signed.len() <= REPLY_MAX {
            return Ok(signed);
        }
        document.reply = refusal("the reply is too long for another host; run the command on the host itself");
        sign(&self.key, Use::Reply, &document)
    }
}
