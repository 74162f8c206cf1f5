//! The control socket: the way of a person's command to a running daemon.
//!
//! One JSON line in, one reply document out. The kernel names the peer of the socket, which is the person. A command
//! goes through the same transaction as everything else. Without a daemon, [`administer`] does the same in place.

pub mod approvals;
mod checks;
mod client;
mod in_place;
mod listening;
mod process;

pub use checks::Wanted;
pub use client::send;
pub use in_place::{administer, check, look};
pub(crate) use listening::command;
pub use listening::listen;
pub use process::ProcessRequest;

use crate::assembly::ruleset::RulesetBuilder;
use crate::daemon::RulesetReload;
use crate::daemon::{EventSender, Message};
use crate::fleet_commands::{AllHostsRequest, FleetRequest, OtherHosts, unknown_host};
use crate::fleet_policy::UsedPolicy;
use crate::host::StartError;
use crate::host::reload::Reload;
use crate::http::web::sign_in::WebSignIn;
use crate::mailboxes::Mailboxes;
use crate::receivers::ReceiverFaults;
use crate::sinks::SinkStates;
use config::{Config, ROOT, unlisted};
use engine::approval_requests::AnswerChannel;
use engine::catalogue::Catalogue;
use engine::event::Event;
use engine::inspection::Inspector;
use engine::request::{Command, CommandRequest, FlowCommand, InvalidDocument, Parsed};
use filter::holds_own;
use filter::scrub::Scrubber;
use kernel::Probe;
use kernel::call::{Header, Origin};
use kernel::contract::Operation;
use model::{Caller, EffectMarker, HostName, LedgerKey, NoRandomness, Nonce, Random, Subject};
use provider::definitions::Listing;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use shared::{Code, Provider, RequestId, limits};
use std::path::PathBuf;
use std::sync::Arc;
use store::StoreError;
use store::ledger::health::Health;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// A line on the control socket: a command, or a request to the process itself.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum SocketRequest {
    /// A command, which the ledger fulfils.
    Command(Command),
    /// A request to the daemon's process. It has no row.
    Process(ProcessRequest),
    /// A request for the daemon of another host.
    Fleet(FleetRequest),
    /// A command for the daemons of all other hosts.
    AllHosts(AllHostsRequest),
}

impl SocketRequest {
    /// Returns the same request to this host; `None` is the host of the daemon that gets it.
    #[must_use]
    pub fn to_host(self, host: Option<HostName>) -> Self {
        match host {
            Some(host) => Self::Fleet(FleetRequest { host, request: Box::new(self) }),
            None => self,
        }
    }

    /// Returns whether the request changes nothing.
    pub(crate) fn is_a_read(&self) -> bool {
        matches!(self, Self::Process(ProcessRequest::Approvals(_)))
    }

    /// Returns whether another host may send the request.
    fn may_be_sent(&self) -> bool {
        match self {
            Self::Command(command) => command.may_be_sent(),
            Self::Process(request) => matches!(request, ProcessRequest::Approvals(_)),
            Self::Fleet(_) | Self::AllHosts(_) => false,
        }
    }
}

impl From<Command> for SocketRequest {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<FlowCommand> for SocketRequest {
    fn from(command: FlowCommand) -> Self {
        Self::Command(Command::Flow(command))
    }
}

impl From<AllHostsRequest> for SocketRequest {
    fn from(request: AllHostsRequest) -> Self {
        Self::AllHosts(request)
    }
}

impl From<ProcessRequest> for SocketRequest {
    fn from(request: ProcessRequest) -> Self {
        Self::Process(request)
    }
}

impl<'de> Deserialize<'de> for SocketRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Value::deserialize(deserializer)?;
        let word = document.get("type").and_then(Value::as_str).unwrap_or_default();
        let request = if ProcessRequest::WORDS.contains(&word) {
            ProcessRequest::deserialize(document).map(Self::Process)
        } else if word == "fleet_command" {
            FleetRequest::deserialize(document).map(Self::Fleet)
        } else if word == "all_hosts_command" {
            AllHostsRequest::deserialize(document).map(Self::AllHosts)
        } else {
            Command::deserialize(document).map(Self::Command)
        };
        request.map_err(D::Error::custom)
    }
}

/// A command that did not reach the ledger.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket cannot be used.
    #[error("cannot use the control socket {path}")]
    Socket {
        /// The socket.
        path: std::path::PathBuf,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The socket is not for this user.
    #[error(
        "user {uid} may not connect to the control socket {path}; run this as the daemon's user, or name a group of users \
         as `socket_group` under [broker] of broker.toml"
    )]
    Closed {
        /// The socket.
        path: std::path::PathBuf,
        /// The user of this process.
        uid: u32,
    },
    /// The daemon did not answer.
    #[error("the daemon did not answer: {fault}")]
    NoAnswer {
        /// The fault in the answer.
        fault: String,
    },
    /// The ledger could not be written.
    #[error("the ledger could not be written; nothing was changed")]
    Ledger(#[source] Arc<StoreError>),
    /// No name could be made for the request.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// The state that turns a person's words into an event.
#[derive(Clone)]
pub struct CommandDispatcher {
    /// The people and their rights.
    pub config: Arc<Config>,
    /// The current catalogue.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// The key of digests.
    pub key: Arc<LedgerKey>,
    /// Finds the broker's own secrets.
    pub scrubber: Arc<Scrubber>,
    /// Where names come from.
    pub ids: Arc<dyn Random>,
    /// The daemon's own user.
    pub uid: u32,
    /// The sign-in of the inbox, if it is served.
    pub inbox: Option<Arc<WebSignIn>>,
    /// Where browsers bring persons back to, if they do.
    pub callback: Option<String>,
    /// Where the metrics are served, if they are.
    pub metrics: Option<String>,
    /// The state of the receivers of answers from chats.
    pub receiving: ReceiverFaults,
    /// The state of the sinks.
    pub sinks: SinkStates,
    /// The inspector of results in the running daemon.
    pub inspector: Option<Arc<Inspector>>,
    /// The configuration of the running daemon; `None` in a command that works in place.
    pub ruleset_builder: Option<Arc<RulesetBuilder>>,
    /// How the running daemon reads its configuration again, if it does.
    pub reload: Option<Reload>,
    /// The name of this start of the daemon: no other start has it.
    pub start: String,
    /// The state of the running daemon's ledger.
    pub health: watch::Receiver<Health>,
    /// The limits that children have, for the operator.
    pub limits: String,
    /// The home, for reads of the ledger.
    pub home: PathBuf,
    /// The other hosts of the fleet, if there are any.
    pub other_hosts: Option<Arc<OtherHosts>>,
    /// The published policy that the running daemon uses, if it uses one.
    pub policy: Option<watch::Receiver<UsedPolicy>>,
    /// The mailboxes of the running daemon.
    pub mailboxes: Option<Mailboxes>,
}

impl CommandDispatcher {
    /// Opens everything that a start reads, on a thread that may block.
    async fn check_configuration(&self) -> Result<(), String> {
        let reload = self.reload.clone().ok_or("this daemon cannot reload; restart it")?;
        let checked = tokio::task::spawn_blocking(move || reload.ask()).await;
        let because = |error: StartError| {
            format!(
                "{}; the daemon keeps its current configuration",
                model::errors::chain(&error).trim_end_matches('.')
            )
        };
        checked.map_err(|error| error.to_string())?.map_err(because)
    }

    /// Returns the event that lists the tools of a server, and the receiver of the list.
    fn look(&self, person: String, provider: &Provider) -> Result<(Event, oneshot::Receiver<Listing>), String> {
        let catalogue = Arc::clone(&self.catalogue.borrow());
        let source = catalogue.provider(provider).and_then(|listed| listed.definitions.as_ref());
        let source = source.ok_or_else(|| {
            format!("the daemon knows no MCP server {provider}; after a change of broker.toml: host-broker reload")
        })?;
        if self.config.table_of(provider).is_none_or(|(_, table)| !table.enabled) {
            return Err(format!("{provider} is switched off by the configuration"));
        }
        let (operation, seen) = Arc::clone(source).list();
        Ok((Event::Probe(Box::new(self.probe(person, ("look", operation))?)), seen))
    }

    /// Returns the probe of this operation that a person wants. Its request id begins with the word.
    fn probe(&self, person: String, (word, operation): (&str, Arc<dyn Operation>)) -> Result<Probe, String> {
        let nonce = Nonce::fresh(self.ids.as_ref()).map_err(|none| none.to_string())?;
        #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
        let request_id = format!("{word}-{}", nonce.as_str()).parse().expect("a request id");
        let planted = EffectMarker { request_id, nonce };
        let asked_by = Caller::Person(person).to_string();
        Ok(Probe {
            operation,
            handle: Value::Null,
            account: None,
            used: None,
            planted,
            asked_by,
            of: None,
            report: None,
        })
    }

    /// Returns the person with this user id. The daemon's own user and root may have a number instead of a name.
    pub fn person(&self, uid: u32) -> Option<String> {
        match self.config.person(uid) {
            Some(name) => Some(name.to_owned()),
            None => (uid == self.uid || uid == ROOT).then(|| unlisted(uid)),
        }
    }

    /// Returns whether this user may hand in the chat answers of others: the daemon's own user, root, or a relay.
    fn may_relay(&self, uid: u32) -> bool {
        let person = self.config.person(uid).and_then(|name| self.config.people.get(name));
        uid == self.uid || uid == ROOT || person.is_some_and(|table| table.can_relay_answers)
    }

    /// Passes a person's command to the broker, and waits for its reply.
    ///
    /// # Errors
    /// The reason why there is no reply. Only if randomness failed is it known that nothing was executed.
    pub async fn ask(&self, reports: &EventSender, asked: Asked) -> Result<Vec<u8>, String> {
        let request_id = self.request_id(asked.channel).map_err(|none| none.to_string())?;
        self.ask_as(reports, (asked.person, request_id), asked.command).await
    }

    /// Does the same with a request id that the caller has chosen. A second command with the same id and text is not
    /// executed.
    async fn ask_as(
        &self,
        reports: &EventSender,
        asked_by: (String, RequestId),
        command: Command,
    ) -> Result<Vec<u8>, String> {
        let (sender, receiver) = oneshot::channel();
        reports.happened(self.command_request(asked_by, command, Origin::Socket(sender)));
        receiver.await.map_err(|_gone| "the daemon stops".to_owned())
    }

    /// Returns a new request id, which begins with the channel.
    fn request_id(&self, channel: &str) -> Result<RequestId, NoRandomness> {
        let nonce = Nonce::fresh(self.ids.as_ref())?;
        #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
        let request_id = format!("{channel}-{}", nonce.as_str()).parse().expect("a request id");
        Ok(request_id)
    }

    fn command_request(&self, (person, request_id): (String, RequestId), command: Command, origin: Origin) -> Event {
        let caller = Caller::Person(person);
        let caller_key = caller.to_string().into();
        // The row has the digest of the command as it is on the socket.
        let document = serde_json::to_value(&command);
        let document = document.ok().filter(|document| !holds_own(document.clone(), &self.scrubber));
        let Some(document) = document else {
            let (code, reason) = (Code::OwnSecret, "it holds a secret of the broker's own; leave the secret out");
            return Event::Arrived(Parsed::InvalidDocument(Box::new(InvalidDocument {
                caller,
                caller_key,
                request_id: Some(request_id),
                origin,
                code,
                reason: reason.to_owned(),
            })));
        };
        let header = Header {
            caller_key,
            caller,
            behalf: Subject::NOBODY,
            request_id,
            conversation: None,
            request_digest: self.key.digest(&shared::json::canonical(&document)),
            origin,
            arrived: Instant::now(),
            timeout: limits::TIMEOUT_DEFAULT,
            weight: None,
        };
        Event::Arrived(Parsed::CommandRequest(Box::new(CommandRequest {
            header,
            command,
            asked: false,
            calls: Vec::new(),
            failed_read: None,
        })))
    }
}

/// A person's command, and how it came in.
pub struct Asked {
    /// The person.
    pub person: String,
    /// The command for the broker.
    pub command: Command,
    /// `cli`, `web` or `http`.
    pub channel: &'static str,
}

async fn answer(
    person: String,
    may_relay: bool,
    line: &[u8],
    dispatcher: &CommandDispatcher,
    reports: &EventSender,
) -> Vec<u8> {
    // SECURITY: a member that comes twice could be read differently by a relay before the socket.
    let parsed = shared::json::parse(line).map_err(|fault| fault.to_string());
    let parsed = parsed.and_then(|document| SocketRequest::deserialize(document).map_err(|error| error.to_string()));
    match parsed {
        Ok(SocketRequest::Command(command)) => {
            let command = match checked(command, may_relay) {
                Ok(command) => command,
                Err(why) => return wrong(&why).to_string().into_bytes(),
            };
            // The right to a command is checked where its row is written.
            let asked = Asked { person, command, channel: "cli" };
            dispatcher.ask(reports, asked).await.unwrap_or_else(|why| fault(&why))
        }
        Ok(SocketRequest::Process(request)) => answer_process(person, request, dispatcher, reports).await,
        Ok(SocketRequest::Fleet(request)) => match &dispatcher.other_hosts {
            _ if !request.request.may_be_sent() => fault(ONLY_HERE),
            Some(others) => others.ask(&person, request).await.to_string().into_bytes(),
            None => fault(&unknown_host(&request.host)),
        },
        Ok(SocketRequest::AllHosts(request)) => match &dispatcher.other_hosts {
            _ if !request.command.may_be_sent() => fault(ONLY_HERE),
            Some(others) => others.ask_all(&person, request.command).await.to_string().into_bytes(),
            None => fault("broker.toml names no other host; add [store.hosts.NAME], then: host-broker reload"),
        },
        Err(error) => fault(&format!("not a command: {error}")),
    }
}

/// The refusal of a command that is executed only where it is given.
const ONLY_HERE: &str = "this command cannot be sent to another host; run it there";

/// Answers a request of a person on another host. A request id makes a command safe to repeat. Returns `None` if it is
/// unknown whether the command is executed, because the daemon stops.
pub(crate) async fn answer_fleet_command(
    (person, id): (String, RequestId),
    request: SocketRequest,
    dispatcher: &CommandDispatcher,
    reports: &EventSender,
) -> Option<Vec<u8>> {
    if !request.may_be_sent() {
        return Some(fault(ONLY_HERE));
    }
    match request {
        SocketRequest::Command(command) => {
            let mut command = match checked(command, false) {
                Ok(command) => command,
                Err(why) => return Some(wrong(&why).to_string().into_bytes()),
            };
            if let Command::Answer(answer) = &mut command {
                answer.channel = AnswerChannel::Fleet;
            }
            dispatcher.ask_as(reports, (person, id), command).await.ok()
        }
        SocketRequest::Process(request) => Some(answer_process(person, request, dispatcher, reports).await),
        SocketRequest::Fleet(_) | SocketRequest::AllHosts(_) => Some(fault(ONLY_HERE)),
    }
}

async fn answer_process(
    person: String,
    request: ProcessRequest,
    dispatcher: &CommandDispatcher,
    reports: &EventSender,
) -> Vec<u8> {
    if let Err(lacks) = request.right().check(&dispatcher.config, &person) {
        tracing::warn!(person, "a command was refused: the person lacks the right");
        return fault(&lacks);
    }
    match request {
        ProcessRequest::Look { provider } => match dispatcher.look(person, &provider) {
            Ok((event, seen)) => {
                reports.happened(event);
                seen_as_reply(seen.await).to_string().into_bytes()
            }
            Err(why) => fault(&why),
        },
        ProcessRequest::Check { providers } => {
            let wanted = providers.into_iter().map(Wanted::own).collect();
            checks::through(dispatcher, reports, &person, wanted).await
        }
        ProcessRequest::CheckAccount { person: owner, capability, account_ref } => {
            let wanted = vec![Wanted::of_account(capability, &owner, &account_ref)];
            checks::through(dispatcher, reports, &person, wanted).await
        }
        ProcessRequest::Exchange { provider, digest } => {
            let (answer, exchanged) = oneshot::channel();
            reports.send(Message::Accepted(RulesetReload::of_home(provider, digest, answer)));
            exchanged.await.unwrap_or_else(|_gone| fault("the daemon stops"))
        }
        ProcessRequest::Stop => {
            if let Some(reload) = &dispatcher.reload {
                reload.has_stopped();
            }
            reports.happened(Event::Stopping);
            executed("The daemon stops.")
        }
        ProcessRequest::Reload => match dispatcher.check_configuration().await {
            Ok(()) => {
                reports.happened(Event::Stopping);
                executed("The daemon restarts.")
            }
            Err(why) => fault(&why),
        },
        ProcessRequest::Approvals(wanted) => approvals::answer(dispatcher, person, wanted).await,
        ProcessRequest::WebLink => process::web_link(dispatcher, &person).to_string().into_bytes(),
        ProcessRequest::Hello => process::hello(dispatcher).to_string().into_bytes(),
    }
}

/// Returns the command with the rights of its relay, once its text is one.
///
/// # Errors
/// The text to write instead.
fn checked(mut command: Command, may_relay: bool) -> Result<Command, String> {
    command.check()?;
    if let Command::RelayedAnswer(relayed) = &mut command {
        relayed.may_relay = may_relay;
    }
    Ok(command)
}

fn executed(summary: &str) -> Vec<u8> {
    json!({ "status": "executed", "summary": summary }).to_string().into_bytes()
}

pub(crate) fn fault(text: &str) -> Vec<u8> {
    serde_json::to_vec(&refusal(text)).unwrap_or_default()
}

pub(crate) fn refusal(text: &str) -> Value {
    json!({ "status": "denied", "error": text })
}

/// Returns the refusal of an invalid command.
fn wrong(why: &str) -> Value {
    json!({ "status": "denied", "code": Code::InvalidParams.word(), "error": why })
}

fn seen_as_reply(seen: Result<Listing, oneshot::error::RecvError>) -> Value {
    match seen {
        Ok(Ok(accepted)) => json!({ "status": "executed", "data": accepted.said() }),
        Ok(Err(why)) => json!({ "status": "failed", "error": why }),
        Err(_gone) => {
            json!({ "status": "failed", "error": "nothing was seen: a kill switch stops it, or an error does; for the reason: host-broker logs" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::filters::scrubber;
    use filter::values::Formats;
    use platform::Environment;
    use platform::random::SystemRandom;
    use secrets::Secrets;
    use std::path::Path;

    /// Makes a dispatcher of the user 1 with these people.
    fn dispatcher(text: &str) -> CommandDispatcher {
        let config =
            Config::parse(text, Path::new("/x/broker.toml"), &Environment::new(), crate::providers::KINDS).unwrap();
        let key = Arc::new(LedgerKey::new(vec![0; 32]));
        let (_sender, catalogue) = watch::channel(Arc::default());
        CommandDispatcher {
            config: Arc::new(config),
            catalogue,
            scrubber: scrubber(&Secrets::default(), &key, Formats::with([]).unwrap()).unwrap(),
            key,
            ids: Arc::new(SystemRandom),
            uid: 1,
            inbox: None,
            callback: None,
            metrics: None,
            inspector: None,
            receiving: ReceiverFaults::default(),
            sinks: SinkStates::default(),
            ruleset_builder: None,
            reload: None,
            start: String::new(),
            health: watch::channel(Health::default()).1,
            mailboxes: None,
            limits: String::new(),
            home: PathBuf::new(),
            other_hosts: None,
            policy: None,
        }
    }

    #[test]
    fn only_the_daemons_user_root_and_named_relays_pass_answers_of_others() {
        let dispatcher =
            dispatcher("[people.bridge]\nuid = 5\ncan_relay_answers = true\n[people.alice]\nuid = 6\napproves = {}\n");
        let may: Vec<bool> = [0, 1, 5, 6, 7].into_iter().map(|uid| dispatcher.may_relay(uid)).collect();
        assert_eq!(may, [true, true, true, false, false]);
        let known: Vec<_> = [0, 1, 5, 7].into_iter().map(|uid| dispatcher.person(uid)).collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(known, [named("uid-0"), named("uid-1"), named("bridge"), None]);
    }

    /// Attack: see
    /// `every_command_is_given_by_those_who_have_the_right_and_refused_to_all_others_with_a_row`.
    #[test]
    fn commands_about_the_process_take_a_right_too() {
        let config = dispatcher(
            "[people.adam]\nuid = 5\nadmin = true\n[people.anna]\nuid = 6\napproves = {}\n[people.rita]\nuid = 7\n\
             can_relay_answers = true\n",
        )
        .config;
        let digest = format!("sha256:{}", "0".repeat(64));
        for (document, expected) in [
            //                                                      root adam anna rita
            (json!({ "type": "stop" }), [true, true, false, false]),
            (json!({ "type": "reload" }), [true, true, false, false]),
            (json!({ "type": "look", "provider": "mock" }), [true, true, false, false]),
            (json!({ "type": "check", "providers": ["mock"] }), [true, true, false, false]),
            (
                json!({ "type": "check_account", "person": "broker:ann", "capability": "a.b", "account_ref": "ann" }),
                [true, true, false, false],
            ),
            (json!({ "type": "exchange", "provider": "mock", "digest": digest }), [true, true, false, false]),
            (json!({ "type": "web_link" }), [true, true, true, false]),
            (json!({ "type": "approvals", "all": false }), [true, true, true, false]),
            (json!({ "type": "hello" }), [true; 4]),
        ] {
            let SocketRequest::Process(request) = serde_json::from_value(document.clone()).unwrap() else {
                panic!("{document} is a command")
            };
            let may = ["uid-0", "adam", "anna", "rita"].map(|person| request.right().check(&config, person).is_ok());
            assert_eq!(may, expected, "{document}");
        }
    }
}
