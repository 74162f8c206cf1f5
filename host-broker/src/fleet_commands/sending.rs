//! The sender's side: a person of this host asks another one.

use super::signed::{Use, sign, verify};
use super::{FleetCommand, FleetReply, FleetRequest, OtherHosts};
use crate::control::fault;
use config::store::OtherHost;
use filter::holds_own;
use model::{HostName, Nonce};
use shared::digest::Digest;
use std::time::Duration;
use store::fleet::FleetError;
use store::fleet::commands::COMMAND_MAX;

/// The longest time until the host takes a command. It is withdrawn then.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// The longest time until the host answers a command that it has taken.
const ANSWERED_WITHIN: Duration = Duration::from_secs(40);
/// The longest time of both, for the client of the control socket.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(70);

impl OtherHosts {
    /// Sends the request of a person to another host. Returns its reply, or a refusal that says whether the request was
    /// executed.
    pub(crate) async fn ask(&self, person: &str, request: FleetRequest) -> Vec<u8> {
        self.ask_within(person, request, TAKEN_WITHIN).await
    }

    /// Does the same with another longest time until the host takes the request.
    pub(crate) async fn ask_within(&self, person: &str, request: FleetRequest, taken_within: Duration) -> Vec<u8> {
        self.try_to_ask(person, request, taken_within).await.unwrap_or_else(|why| fault(&why))
    }

    async fn try_to_ask(
        &self,
        person: &str,
        FleetRequest { host, request }: FleetRequest,
        taken_within: Duration,
    ) -> Result<Vec<u8>, String> {
        // The other host has a configuration of its own about this person.
        if !self.config.people.contains_key(person) {
            return Err(format!(
                "{person} is no person of the configuration, so no other host executes the command; add [people.NAME] \
                 with `uid` to broker.toml of both hosts"
            ));
        }
        let key = self.key_of(&host)?;
        let id = Nonce::fresh(self.ids.as_ref()).map_err(|none| none.to_string())?.as_str().to_owned();
        let (from, to, person) = (self.own().clone(), host.clone(), person.to_owned());
        let document = FleetCommand { from, to, id: id.clone(), person, sent_at: self.clock.now(), request: *request };
        let unwritten = |error: serde_json::Error| format!("nothing was sent: {error}");
        // SECURITY: the database gets the text.
        if holds_own(serde_json::to_value(&document).map_err(unwritten)?, &self.scrubber) {
            return Err("it holds a secret of the broker's own; leave the secret out".to_owned());
        }
        let command = sign(&self.key, Use::Command, &document).map_err(unwritten)?;
        if command.len() > COMMAND_MAX {
            return Err(format!("nothing was sent: a command has at most {} KiB", COMMAND_MAX / 1024));
        }
        let unknown = |fault: &str| {
            format!("{fault}; it is unknown whether the host `{host}` executes the command, so look there")
        };
        self.commands.connect().await.map_err(|error| format!("nothing was sent: {error}"))?;
        if let Err(error) = self.commands.send(&host, &id, &command).await {
            if let FleetError::NoHost(host) = error {
                return Err(format!("nothing was sent: the fleet's database has no host `{host}`"));
            }
            let is_refused = matches!(error, FleetError::Refused(_));
            let error = error.to_string();
            return Err(if is_refused { format!("nothing was sent: {error}") } else { unknown(&error) });
        }
        tracing::info!(%host, id, person = document.person, "a command was sent to another host");
        let sealed = self.reply((&host, &id), taken_within).await.map_err(|error| unknown(&error.to_string()))?;
        let sealed = match sealed {
            Received::Reply(sealed) => sealed,
            Received::Withdrawn => {
                return Err(format!(
                    "the host `{host}` did not take the command within {} s, so it was withdrawn and is not executed. \
                     Its daemon must run, and its broker.toml needs [store.hosts.{}] with `people`",
                    taken_within.as_secs(),
                    self.own()
                ));
            }
            Received::Nothing => {
                return Err(unknown(&format!("the host `{host}` took the command and did not answer")));
            }
        };
        let reply: FleetReply = verify(&key, Use::Reply, &sealed)
            .map_err(|fault| unknown(&format!("the reply of the host `{host}` is not valid: {fault}")))?;
        let is_its_own = reply.from == host && reply.to == *self.own();
        if !is_its_own || reply.command != Digest::of(command.as_bytes()) {
            return Err(unknown(&format!("the reply of the host `{host}` belongs to another command")));
        }
        serde_json::to_vec(&reply.reply).map_err(|error| unknown(&error.to_string()))
    }

    /// Returns the public key of another host.
    fn key_of(&self, host: &HostName) -> Result<[u8; 32], String> {
        if host == self.own() {
            return Err(format!("`{host}` is this host; leave out --host"));
        }
        self.other(host).and_then(OtherHost::public_key).ok_or_else(|| unknown_host(host))
    }

    /// Waits for the reply, and withdraws a command that the host does not take.
    async fn reply(&self, (host, id): (&HostName, &str), taken_within: Duration) -> Result<Received, FleetError> {
        if let Some(sealed) = self.commands.reply(host, id, taken_within).await? {
            return Ok(Received::Reply(sealed));
        }
        if self.commands.withdraw(host, id).await? {
            return Ok(Received::Withdrawn);
        }
        let sealed = self.commands.reply(host, id, ANSWERED_WITHIN).await?;
        Ok(sealed.map_or(Received::Nothing, Received::Reply))
    }
}

/// The end of a command.
enum Received {
    /// A reply, which is not verified yet.
    Reply(String),
    /// The host has not taken the command and never will.
    Withdrawn,
    /// The host has taken it.
    Nothing,
}

/// Returns the refusal for a host that the configuration does not name.
pub(crate) fn unknown_host(host: &HostName) -> String {
    format!(
        "broker.toml has no table [store.hosts.{host}]; add it with `key`, which the command `fleet key` prints on that \
         host, then: host-broker reload"
    )
}
