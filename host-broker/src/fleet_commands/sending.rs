//! The sender's side: a person of this host asks another one.

use super::signed::{DocumentKind, sign, verify};
use super::{FleetCommand, FleetReply, FleetRequest, OtherHosts, row};
use crate::control::refusal;
use config::store::OtherHost;
use engine::request::Command;
use filter::holds_own;
use model::{HostName, Nonce};
use secrets::exchange::{ReplyKey, encrypt_command};
use serde_json::{Value, json};
use shared::Code;
use shared::digest::Digest;
use shared::json::parse_object_within;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::fleet::FleetError;
use store::fleet::commands::{COMMAND_MAX, REPLY_MAX, SentState};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The most values and keys of a reply, and of the document that carries it encrypted.
const REPLY_NODES_MAX: usize = 200_000;
const SIGNED_NODES_MAX: usize = 100;
/// The most bytes of a signed command: as many as [`COMMAND_MAX`] permits in base64, with the key of the sender.
const SIGNED_COMMAND_MAX: usize = COMMAND_MAX / 4 * 3 - 1024;
/// The longest time for the database, beside the times of the other host.
const DATABASE: Duration = Duration::from_secs(12);
/// The longest time until the host takes a command. It is withdrawn then.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// The longest time until the host answers a command that it has taken.
const ANSWERED_WITHIN: Duration = Duration::from_secs(40);
/// The longest time of both, for the client of the control socket.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(70);

/// The reason why there is no reply of the other host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoReply {
    /// The host does not execute the request.
    #[error("{0}")]
    NotExecuted(String),
    /// It may execute the request.
    #[error("{0}; it is unknown whether the host executes the command, so look there")]
    Unknown(String),
}

impl NoReply {
    fn not(why: impl Into<String>) -> Self {
        Self::NotExecuted(why.into())
    }

    /// Returns the document for the person.
    fn to_reply(&self) -> Value {
        match self {
            Self::NotExecuted(_) => refusal(&self.to_string()),
            Self::Unknown(_) => {
                json!({ "status": "unknown", "code": Code::OutcomeUnknown.word(), "error": self.to_string() })
            }
        }
    }
}

/// The longest times of a request: until the host takes it, and then until it answers.
pub(crate) type Within = (Duration, Duration);

impl OtherHosts {
    /// Sends the request of a person to another host. Returns its reply, or a refusal that says whether the request was
    /// executed.
    pub(crate) async fn ask(self: &Arc<Self>, person: &str, request: FleetRequest) -> Value {
        let asked = self.ask_within(person, request, (TAKEN_WITHIN, ANSWERED_WITHIN));
        asked.await.unwrap_or_else(|none| none.to_reply())
    }

    /// Sends the command of a person to all other hosts at the same time. Returns their replies, of which each may be a
    /// refusal.
    pub(crate) async fn ask_all(self: &Arc<Self>, person: &str, command: Command) -> Value {
        let mut asked = JoinSet::new();
        for (host, _) in self.hosts() {
            let (others, person, host) = (Arc::clone(self), person.to_owned(), host.clone());
            let request = FleetRequest { host: host.clone(), request: Box::new(command.clone().into()) };
            asked.spawn(async move { (host, others.ask(&person, request).await) });
        }
        let mut replies: BTreeMap<HostName, Value> = self
            .hosts()
            .map(|(host, _)| (host.clone(), NoReply::Unknown("the daemon gave no reply".to_owned()).to_reply()))
            .collect();
        while let Some(asked) = asked.join_next().await {
            replies.extend(asked.ok());
        }
        json!({ "status": "executed", "data": { "host": self.own(), "replies": replies } })
    }

    /// Does the same within these times. A caller that leaves does not keep a request from being withdrawn.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn ask_within(
        self: &Arc<Self>,
        person: &str,
        request: FleetRequest,
        within: Within,
    ) -> Result<Value, NoReply> {
        let (others, person) = (Arc::clone(self), person.to_owned());
        let asked = tokio::spawn(async move { others.try_to_ask(person, request, within).await });
        match timeout(within.0 + within.1 + DATABASE, asked).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(failed)) => Err(NoReply::Unknown(failed.to_string())),
            Err(_elapsed) => Err(NoReply::Unknown("the fleet's database did not answer in time".to_owned())),
        }
    }

    async fn try_to_ask(
        &self,
        person: String,
        FleetRequest { host, request }: FleetRequest,
        within: Within,
    ) -> Result<Value, NoReply> {
        // The other host has a configuration of its own about this person.
        if !self.config.people.contains_key(&person) {
            return Err(NoReply::not(format!(
                "{person} is no person of the configuration, so no other host executes the command; add [people.NAME] \
                 with `uid` to broker.toml of both hosts"
            )));
        }
        let key = self.key_of(&host).map_err(NoReply::NotExecuted)?;
        let unsent = |fault: &dyn std::fmt::Display| NoReply::not(format!("nothing was sent: {fault}"));
        let id = Nonce::fresh(self.ids.as_ref()).map_err(|none| unsent(&none))?.as_str().to_owned();
        let reply_key = ReplyKey::new().map_err(|error| unsent(&error))?;
        let document = FleetCommand {
            from: self.own().clone(),
            to: host.clone(),
            id: id.clone(),
            person,
            sent_at: self.clock.now(),
            reply_key: reply_key.public_text(),
            request: *request,
        };
        // SECURITY: the other host gets the text.
        let text = serde_json::to_value(&document).map_err(|error| unsent(&error))?;
        if holds_own(text, &self.scrubber) {
            return Err(NoReply::not("it holds a secret of the broker's own; leave the secret out"));
        }
        let signed = sign(self.key.signing(), DocumentKind::Command, &document).map_err(|error| unsent(&error))?;
        if signed.len() > SIGNED_COMMAND_MAX {
            return Err(unsent(&format!("a command has at most {} KiB", SIGNED_COMMAND_MAX / 1024)));
        }
        let about = row(&host, self.own(), &id);
        let encrypted = encrypt_command(&key, about.as_bytes(), signed.into_bytes()).map_err(|error| unsent(&error))?;
        let command = serde_json::to_string(&encrypted).map_err(|error| unsent(&error))?;
        self.commands.connect().await.map_err(|error| unsent(&error))?;
        if let Err(error) = self.commands.send(&host, &id, &command).await {
            if matches!(error, FleetError::Left(_)) {
                return Err(NoReply::not(format!(
                    "the host `{host}` has left the fleet's database, so no command reaches it; use its own command \
                     line, and remove [store.hosts.{host}]"
                )));
            }
            if matches!(error, FleetError::NoHost(_) | FleetError::Refused(_)) {
                return Err(unsent(&error));
            }
            // The row may be there. Then it is withdrawn, or answered.
            tracing::warn!(%host, id, %error, "it is unknown whether a command was sent");
        }
        tracing::info!(%host, id, person = document.person, "a command was sent to another host");
        let signed = self.reply((&host, &id), within).await?;
        let not_valid =
            |fault: String| NoReply::Unknown(format!("the reply of the host `{host}` is not valid: {fault}"));
        let reply: FleetReply =
            verify(&key, (DocumentKind::Reply, REPLY_MAX, SIGNED_NODES_MAX), &signed).map_err(not_valid)?;
        let digest = Digest::of(command.as_bytes());
        if reply.from != host || reply.to != *self.own() || reply.command != digest {
            return Err(NoReply::Unknown(format!("the reply of the host `{host}` belongs to another command")));
        }
        let text = reply_key.decrypt(digest.as_bytes(), &reply.reply).map_err(|error| not_valid(error.to_string()))?;
        let (reply, _) = parse_object_within(&text, REPLY_NODES_MAX).map_err(|fault| not_valid(fault.to_string()))?;
        Ok(Value::Object(reply))
    }

    /// Returns the public key of another host.
    fn key_of(&self, host: &HostName) -> Result<[u8; 32], String> {
        if host == self.own() {
            return Err(format!("`{host}` is this host; leave out --host"));
        }
        self.other(host).and_then(OtherHost::public_key).ok_or_else(|| unknown_host(host))
    }

    /// Waits for the reply, and withdraws a command that the host does not take.
    async fn reply(
        &self,
        (host, id): (&HostName, &str),
        (taken_within, answered_within): Within,
    ) -> Result<String, NoReply> {
        let unknown = |error: FleetError| NoReply::Unknown(error.to_string());
        let mut state = self.commands.reply(host, id, taken_within).await.map_err(unknown)?;
        if state == SentState::Waiting {
            if self.commands.withdraw(host, id).await.map_err(unknown)? {
                return Err(NoReply::not(format!(
                    "the host `{host}` did not take the command within {} s, so it was withdrawn and is not executed. \
                     Its daemon must run, and its broker.toml needs [store.hosts.{}] with `people`",
                    taken_within.as_secs(),
                    self.own()
                )));
            }
            state = self.commands.reply(host, id, answered_within).await.map_err(unknown)?;
        }
        match state {
            SentState::Answered(signed) => Ok(signed),
            SentState::Waiting => {
                Err(NoReply::Unknown(format!("the host `{host}` took the command and did not answer")))
            }
            SentState::Gone => Err(NoReply::Unknown(format!(
                "the command is gone without a reply. The host `{host}` discards a command if a key does not fit: compare \
                 the key of `{host}` in broker.toml here, and the key of this host there, with `fleet key` of each"
            ))),
        }
    }
}

/// Returns the refusal for a host that the configuration does not name.
pub(crate) fn unknown_host(host: &HostName) -> String {
    format!(
        "broker.toml has no table [store.hosts.{host}]; add it with `key`, which the command `fleet key` prints on that \
         host, then: host-broker reload"
    )
}
