//! The executing side: commands of other hosts, one after the other.

use super::signed::{DocumentKind, sign, verify};
use super::{FleetCommand, FleetReply, OtherHosts, row};
use crate::control::{self, CommandDispatcher, refusal};
use crate::daemon::EventSender;
use model::HostName;
use secrets::exchange::{EncryptedText, encrypt_reply, is_reply_key};
use serde_json::Value;
use shared::RequestId;
use shared::digest::Digest;
use shared::limits::REQUEST_NODES_MAX;
use std::sync::Arc;
use std::time::Duration;
use store::fleet::commands::{COMMAND_MAX, REPLY_MAX, ReceivedCommand};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The largest difference between the clocks of two hosts, with the time on the way. A withdrawn command whose text somebody
/// has kept is executed no later.
const CLOCKS: Duration = Duration::from_secs(60);
/// The longest time for the daemon's reply. The sender waits longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// The same for a read, so that commands do not wait for it.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// The pause after the database could not be read or written.
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
            let verified = taken.unwrap_or_default().into_iter().map(|received| (self.verify(&received), received));
            let mut commands: Vec<_> = verified.collect();
            // A kill switch does not wait for a page.
            commands.sort_by_key(|(verified, _)| verified.as_ref().is_ok_and(|command| command.request.is_a_read()));
            let mut has_failed = false;
            for (verified, received) in commands {
                has_failed |= !self.execute(verified, &received, &dispatcher, &reports).await;
            }
            if has_failed {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Executes and answers a command. Returns whether that is over; otherwise the command is taken again.
    async fn execute(
        &self,
        verified: Result<FleetCommand, String>,
        received: &ReceivedCommand,
        dispatcher: &CommandDispatcher,
        reports: &EventSender,
    ) -> bool {
        let sender = &received.sender;
        let ended = match verified {
            Ok(command) => {
                let reply_key = command.reply_key.clone();
                // A daemon that stops does not know whether the command is executed. The next one finds out.
                let Some(reply) = self.reply_to(received, command, dispatcher, reports).await else { return false };
                match self.signed_reply(received, &reply_key, &reply) {
                    Ok(reply) => self.commands.answer(received, &reply).await,
                    Err(error) => {
                        tracing::error!(error, "a reply for another host cannot be written");
                        return false;
                    }
                }
            }
            Err(fault) => {
                tracing::warn!(host = %sender, fault, "a command of another host is not valid");
                self.commands.discard(received).await
            }
        };
        if let Err(error) = &ended {
            tracing::warn!(host = %sender, %error, "a command of another host has no answer yet");
        }
        ended.is_ok()
    }

    /// Decrypts and returns the command, if its sender has signed it for this host.
    ///
    /// # Errors
    /// The reason why it is no command of the host. It gets no answer.
    fn verify(&self, received: &ReceivedCommand) -> Result<FleetCommand, String> {
        let other = self.other(&received.sender).ok_or("the configuration does not name the host")?;
        let key = other.public_key().ok_or("its key is not valid")?;
        if received.command.len() > COMMAND_MAX {
            return Err("it is too long".to_owned());
        }
        let encrypted: EncryptedText = serde_json::from_str(&received.command).map_err(|fault| fault.to_string())?;
        let about = row(self.own(), &received.sender, &received.id);
        let signed = self.key.decrypt(about.as_bytes(), &encrypted);
        let signed = signed.map_err(|error| format!("{error}; the sender may have another key of this host"))?;
        let signed = String::from_utf8(signed).map_err(|fault| fault.to_string())?;
        let command: FleetCommand = verify(&key, (DocumentKind::Command, COMMAND_MAX, REQUEST_NODES_MAX), &signed)?;
        let is_this = command.from == received.sender && command.to == *self.own() && command.id == received.id;
        if !is_this {
            return Err("it was signed for another host or another id".to_owned());
        }
        // Before it is executed: without a key it could not be answered.
        if is_reply_key(&command.reply_key) == Ok(false) {
            return Err("its key for the reply is not valid".to_owned());
        }
        request_id(received).map(|_valid| command)
    }

    /// Returns the reply; `None` if it is unknown whether the command was executed.
    async fn reply_to(
        &self,
        received: &ReceivedCommand,
        FleetCommand { from, person, sent_at, request, .. }: FleetCommand,
        dispatcher: &CommandDispatcher,
        reports: &EventSender,
    ) -> Option<Value> {
        let (own, now) = (self.own(), self.clock.now());
        let refused = |why: String| {
            let before = if received.was_taken { "; it is unknown whether it was executed before" } else { "" };
            Some(refusal(&format!("{why}{before}")))
        };
        if !self.other(&from).is_some_and(|other| other.people.contains(&person)) {
            return refused(format!(
                "the host `{own}` executes no commands of {person} that come from `{from}`; it needs `people` in \
                 [store.hosts.{from}]"
            ));
        }
        if now.since(sent_at).max(sent_at.since(now)) > CLOCKS {
            return refused(format!(
                "the command was sent at {sent_at}, and at `{own}` it is {now}; set the clocks of both hosts"
            ));
        }
        // A command that is taken again has the same id, so nothing happens twice.
        let id = request_id(received).ok()?;
        tracing::info!(host = %from, request_id = %id, person, "a command of another host");
        let within = if request.is_a_read() { READ_WITHIN } else { ANSWERED_WITHIN };
        let answered = control::answer_fleet_command((person, id), request, dispatcher, reports);
        let reply = timeout(within, answered).await.ok()??;
        serde_json::from_slice(&reply).ok()
    }

    fn signed_reply(&self, received: &ReceivedCommand, reply_key: &str, reply: &Value) -> Result<String, String> {
        let signed = self.signed_for(received, reply_key, reply)?;
        if signed.len() <= REPLY_MAX {
            return Ok(signed);
        }
        let refusal = refusal("the reply is too long for another host; run the command on the host itself");
        self.signed_for(received, reply_key, &refusal)
    }

    fn signed_for(&self, received: &ReceivedCommand, reply_key: &str, reply: &Value) -> Result<String, String> {
        let command = Digest::of(received.command.as_bytes());
        let reply = encrypt_reply(reply_key, command.as_bytes(), reply.to_string().into_bytes());
        let reply = reply.map_err(|error| error.to_string())?;
        let document = FleetReply { from: self.own().clone(), to: received.sender.clone(), command, reply };
        sign(self.key.signing(), DocumentKind::Reply, &document).map_err(|error| error.to_string())
    }
}

/// Returns the request id of the row of a command.
fn request_id(received: &ReceivedCommand) -> Result<RequestId, String> {
    let id = format!("fleet-{}-{}", received.sender, received.id);
    id.parse().map_err(|_invalid| "its id is not valid".to_owned())
}
