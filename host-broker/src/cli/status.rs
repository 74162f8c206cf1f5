//! `status`: how the broker is, on one page.

mod checkpoints;
mod configured;
pub(super) mod mailbox;

use crate::assembly::secrets::SecretStatus;
use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::home_reader::{ServerState, standing};
use crate::cli::output::{CliError, Output};
use checkpoints::Checkpoints;
use clap::Args;
use config::Config;
use configured::{Configured, GroupState, groups};
use engine::catalogue::Listed;
use engine::flows::issuers::without_right;
use provider::definitions::described;
use secrets::SecretError;
use serde_json::{Value, json};
use shared::numbers::counted;
use shared::{Group, Provider, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use store::View;
use store::ledger::calls;
use store::ledger::calls::Unsettled;
use store::ledger::chain::Row;
use store::ledger::export;
use store::ledger::health::{CannotWrite, Verification};
use store::state::grants;
use store::state::grants::Grant;
use store::state::kill;
use store::state::notices as stored;
use store::state::notices::Notice;

/// Show daemon status, providers, unsettled calls and kill switches.
///
/// The command also shows the last checkpoint, notices and tokens that fail, and grants that expire soon.
#[derive(Debug, Args)]
#[command(
    after_help = "While broker.toml is invalid, the command shows the fault and the state of a running daemon. The exit code is \
    4 then.

--json prints {home, running, daemon: {version, pid, start, web, metrics, is_behind, policy: {host, number, digest, fault, is_superseded}|null, providers: [NAME], limits, evidence: {cannot_write: \
    {since, reason: disk_full|read_only|clock_behind|corrupt|locked|io_error|fleet_away|fleet_refuses|fenced|other, error}, verification: {state: \
    waiting|running|whole|broken|unfinished, row, of, error}}, servers: {NAME: {state: \
    idle|starting|up|down, starts, fault, withdrawn: {TOOL: WHY}}}, receiving: {CHANNEL: FAULT}, sinks: {SINK: {kind, accepted, behind, failing: {since, reason}}}}, configuration: {error}|null, web, metrics, head: {seq, event_hash, time}, \
    checkpoint: {row, size, time, uncovered, uncovered_since, warning: TEXT|null}|null, groups: [{group, main, grants, socket: {open, connections}, file_system, replies}], providers: [{provider, kind, works, reason, secrets: [{secret, \
    source, state: present|missing|refused|unasked}]}], open_intents: [{seq, caller, \
    request_id, provider, action, since}], unknown_outcomes: [the same], kill_switches: [SCOPE], \
    failing_channels: [{channel, event, state, attempts, fault, …}], failing_issuers: [{issuer, reason}], \
    ending_soon: [{group, provider, level, expires_at}], refused_accesses: [{issued_by, accesses, reason}], warnings: [TEXT]}"
)]
pub struct Status {}

/// Grants that end within this time are listed.
const SOON: Duration = Duration::from_hours(48);

/// The values from the ledger.
#[derive(Default)]
struct Recorded {
    head: Option<Row>,
    checkpoints: Checkpoints,
    grants: Vec<Grant>,
    open: Vec<Unsettled>,
    unknown: Vec<Unsettled>,
    killed: Vec<String>,
    silent: Vec<Notice>,
    // The issuer, how many living accesses it has given, and why they do not hold.
    refused_accesses: Vec<(String, i64, String)>,
}

impl Recorded {
    fn read(connection: &View, config: Option<&Config>, now: Timestamp) -> Result<Self, CliError> {
        let refused = config.map(|config| without_right(connection, &config.flows, now)).transpose()?;
        Ok(Self {
            refused_accesses: refused.unwrap_or_default(),
            head: export::last(connection)?,
            checkpoints: Checkpoints::read(connection),
            grants: grants::list(connection, None)?,
            open: calls::open_intents(connection)?,
            unknown: calls::unknown_outcomes(connection)?,
            killed: kill::list(connection)?,
            silent: stored::failing(connection)?,
        })
    }
}

/// Everything on the page.
struct Page {
    home: String,
    // The fault of one that listens and does not answer.
    daemon: Result<Option<Value>, CliError>,
    // The fault of broker.toml, although a daemon runs.
    configured: Result<Configured, CliError>,
    groups: BTreeMap<Group, GroupState>,
    recorded: Recorded,
    warnings: Vec<String>,
    now: Timestamp,
}

impl Status {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no home, or it cannot be read. If broker.toml is invalid and a daemon runs, the page comes
    /// first.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let daemon = running(context);
        let (config, ledger) = match (context.config_alone(), context.ledger_if_any()) {
            (Err(fault), ledger) if ledger.is_err() || matches!(daemon, Ok(None)) => return Err(fault),
            (config, ledger) => (config, ledger?),
        };
        let now = context.platform.clock.now();
        let read = |ledger: &View| Recorded::read(ledger, config.as_ref().ok(), now);
        let mut recorded = ledger.as_ref().map(read).transpose()?.unwrap_or_default();
        // A channel that is not configured any more is no fault.
        if let Ok(config) = &config {
            recorded.silent.retain(|notice| config.channels.iter().any(|table| table.name == notice.channel));
        }
        let warnings = config.as_ref().map_or_else(|_fault| Ok(Vec::new()), |config| context.warnings(config))?;
        let configured = config.map(|config| Configured::of(context, config));
        let known = daemon.as_ref().ok().and_then(Option::as_ref);
        let page = Page {
            home: context.home.path().display().to_string(),
            groups: groups(context, &configured, known),
            daemon,
            configured,
            recorded,
            warnings,
            now,
        };
        context.output.show(&page.document(), || context.at_home(&page.text()));
        // The page tells the fault.
        page.configured.map_or_else(|fault| Err(CliError::exited(fault.code)), |_valid| Ok(()))
    }
}

impl Page {
    /// Returns the data of the running daemon, if it answers.
    fn data(&self) -> Option<&Value> {
        self.daemon.as_ref().ok()?.as_ref()?.get("data")
    }

    /// Returns a value of the running daemon, if there is one: the inbox (`web`) or the address for returning browsers.
    fn said(&self, what: &str) -> Option<&str> {
        self.data()?.get(what)?.as_str()
    }

    fn ending_soon(&self) -> impl Iterator<Item = &Grant> {
        let soon = self.now.plus(SOON);
        let ends = move |grant: &&Grant| grant.is_live(self.now) && grant.expires_at.is_some_and(|at| at <= soon);
        self.recorded.grants.iter().filter(ends)
    }

    /// Returns the state of a group's socket, as the daemon tells it.
    fn socket(&self, group: &shared::Group) -> Option<&Value> {
        self.data()?.get("sockets")?.get(group.as_str())
    }

    fn live_grants<'a>(&'a self, group: &'a shared::Group) -> impl Iterator<Item = &'a Grant> {
        self.recorded.grants.iter().filter(move |grant| &grant.group == group && grant.is_live(self.now))
    }

    fn document(&self) -> Value {
        let groups = self.groups.iter().map(|(group, GroupState { is_main, mailbox })| {
            json!({
                "group": group, "main": is_main, "grants": self.live_grants(group).count(),
                "socket": self.socket(group), "file_system": mailbox.file_system, "replies": mailbox.replies,
            })
        });
        let ending = self.ending_soon().map(|grant| {
            json!({
                "group": grant.group, "provider": grant.provider, "level": grant.level, "expires_at": grant.expires_at,
            })
        });
        let head = self.recorded.head.as_ref();
        json!({
            "home": self.home,
            "running": !matches!(self.daemon, Ok(None)),
            "daemon": match &self.daemon {
                Ok(reply) => json!(reply.as_ref().and_then(|reply| reply.get("data"))),
                Err(fault) => json!({ "error": fault.text }),
            },
            "configuration": self.configured.as_ref().err().map(|fault| json!({ "error": fault.text })),
            "web": self.said("web"),
            "metrics": self.said("metrics"),
            "head": head.map(|row| json!({ "seq": row.seq, "event_hash": row.event_hash, "time": row.time() })),
            "checkpoint": self.recorded.checkpoints.document(self.now),
            "groups": groups.collect::<Vec<_>>(),
            "providers": self.provider_documents(),
            "open_intents": self.recorded.open,
            "unknown_outcomes": self.recorded.unknown,
            "kill_switches": self.recorded.killed,
            "failing_channels": self.recorded.silent,
            "failing_issuers": self.configured.iter().flat_map(Configured::unbelieved)
                .map(|(issuer, reason)| json!({ "issuer": issuer, "reason": reason })).collect::<Vec<_>>(),
            "ending_soon": ending.collect::<Vec<_>>(),
            "refused_accesses": self.recorded.refused_accesses.iter().map(|(issuer, count, reason)| {
                json!({ "issued_by": issuer, "accesses": count, "reason": reason })
            }).collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }

    fn provider_documents(&self) -> Vec<Value> {
        let document = |own: &Configured, name: &Provider, listed: &Listed| {
            let secret_statuses = own.secret_statuses(name);
            let reason = self.fault(name, listed, &secret_statuses);
            let secrets: Vec<Value> = secret_statuses.iter().map(secret_document).collect();
            json!({
                "provider": name, "kind": listed.kind, "works": reason.is_none(), "reason": reason, "secrets": secrets,
            })
        };
        match &self.configured {
            Ok(own) => own.catalogue.providers().map(|(name, listed)| document(own, name, listed)).collect(),
            Err(_) => self
                .unready()
                .map(|(name, reason)| {
                    json!({ "provider": name, "kind": null, "works": false, "reason": reason, "secrets": [] })
                })
                .collect(),
        }
    }

    /// The providers that take no calls, as the daemon knows them.
    fn unready(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.data().and_then(|data| data.get("unready")?.as_object());
        all.into_iter().flatten().map(|(name, why)| {
            let reason = why.get("reason").and_then(Value::as_str).unwrap_or_default();
            (name.as_str(), reason)
        })
    }

    /// The fault of broker.toml, if it is invalid.
    fn invalid(&self) -> String {
        let Err(fault) = &self.configured else { return String::new() };
        let keeps = match self.data() {
            Some(_) => "\n        The daemon keeps the configuration that it has read.",
            None => "",
        };
        format!("\nConfig  INVALID: {}{keeps}", fault.text)
    }

    fn text(&self) -> String {
        let running = match &self.daemon {
            Ok(Some(reply)) => reply.pointer("/data/pid").map_or_else(
                || format!("running, but: {}", reply.get("error").and_then(Value::as_str).unwrap_or("it says nothing")),
                |pid| format!("running (process {pid})"),
            ),
            Err(fault) => format!("listening, but not responding ({})", fault.text),
            Ok(None) => "not running; start it with: host-broker serve".to_owned(),
        };
        let head = match &self.recorded.head {
            Some(row) => format!("{}, the last at {}", counted(row.seq, "row", "rows"), row.time()),
            None => "no rows yet".to_owned(),
        };
        let line = |what: &str, name: &str| self.said(name).map(|said| format!("\n{what} {said}")).unwrap_or_default();
        let (inbox, back) = (line("Inbox  ", "web"), line("Back at", "callback"));
        let metrics = line("Metrics", "metrics");
        let (written, verified, invalid) = (self.cannot_write(), self.verified(), self.invalid());
        let (signed, limits) = (self.recorded.checkpoints.text(self.now), line("Limits ", "limits"));
        let policy = self.policy().unwrap_or_default();
        let mut parts = vec![format!(
            "Home    {}
Daemon  {running}{inbox}{back}{metrics}{invalid}
Ledger  {head}{written}{verified}{signed}{limits}{policy}",
            self.home
        )];
        parts.push(self.groups());
        parts.extend(self.providers());
        if !self.recorded.killed.is_empty() {
            parts.push(format!(
                "STOPPED by a kill switch: {} (to lift it: host-broker kill … --lift)",
                self.recorded.killed.join(", ")
            ));
        }
        if !self.recorded.silent.is_empty() {
            let row = |notice: &Notice| vec![notice.channel.clone(), super::notices::standing(notice)];
            let rows: Vec<_> = self.recorded.silent.iter().map(row).collect();
            parts.push(format!("Notices fail:\n{}", Output::table(&["CHANNEL", "LAST NOTICE"], &rows)));
        }
        let faults = self.receiver_faults();
        if !faults.is_empty() {
            parts.push(format!("Answers cannot be fetched:\n{}", Output::table(&["CHANNEL", "REASON"], &faults)));
        }
        let failing = self.failing_sinks();
        if !failing.is_empty() {
            let table = Output::table(&["SINK", "BEHIND", "SINCE", "REASON"], &failing);
            parts.push(format!("Sinks accept no rows, so the rows wait in the ledger:\n{table}"));
        }
        if !self.recorded.refused_accesses.is_empty() {
            let row =
                |(issuer, count, why): &(String, i64, String)| vec![issuer.clone(), count.to_string(), why.clone()];
            let rows: Vec<_> = self.recorded.refused_accesses.iter().map(row).collect();
            let table = Output::table(&["CREATED BY", "ACCESSES", "REASON"], &rows);
            parts.push(format!(
                "The accesses of external agents are refused. A person who administers must create them again:\n{table}"
            ));
        }
        let unbelieved = self.configured.iter().flat_map(Configured::unbelieved);
        let unbelieved: Vec<_> = unbelieved.map(|(issuer, reason)| vec![issuer.to_owned(), reason]).collect();
        if !unbelieved.is_empty() {
            parts.push(format!("Context tokens are refused:\n{}", Output::table(&["ISSUER", "REASON"], &unbelieved)));
        }
        parts.extend(unsettled("Running, without an outcome:", &self.recorded.open));
        parts.extend(unsettled(
            "Outcome unknown. Check the target, then record the result: host-broker calls settle REQUEST",
            &self.recorded.unknown,
        ));
        let ending: Vec<_> = self
            .ending_soon()
            .map(|grant| {
                let until = grant.expires_at.map(|at| at.to_string()).unwrap_or_default();
                vec![grant.group.to_string(), grant.provider.to_string(), grant.level.to_string(), until]
            })
            .collect();
        if !ending.is_empty() {
            parts.push(Output::table(&["EXPIRES SOON", "PROVIDER", "LEVEL", "EXPIRES"], &ending));
        }
        if !self.warnings.is_empty() {
            parts.push(format!("Warnings:\n  {}", self.warnings.join("\n  ")));
        }
        parts.join("\n\n")
    }

    /// The published policy that the daemon uses. A warning says why it is not in force.
    fn policy(&self) -> Option<String> {
        let policy = self.data()?.get("policy")?;
        let (host, number) = (policy.get("host")?.as_str()?, policy.get("number")?.as_i64()?);
        Some(format!("\nPolicy  publication {number} of the host {host}"))
    }

    /// The channels whose answers cannot be fetched, as the daemon knows them.
    fn receiver_faults(&self) -> Vec<Vec<String>> {
        let all = self.data().and_then(|data| data.get("receiving")?.as_object());
        let row = |(channel, fault): (&String, &Value)| Some(vec![channel.clone(), fault.as_str()?.to_owned()]);
        all.into_iter().flatten().filter_map(row).collect()
    }

    /// The sinks that accept no rows, as the daemon knows them.
    fn failing_sinks(&self) -> Vec<Vec<String>> {
        let all = self.data().and_then(|data| data.get("sinks")?.as_object());
        let row = |(sink, state): (&String, &Value)| {
            let text = |name: &str| Some(state.pointer(name)?.as_str()?.to_owned());
            Some(vec![sink.clone(), state["behind"].to_string(), text("/failing/since")?, text("/failing/reason")?])
        };
        all.into_iter().flatten().filter_map(row).collect()
    }

    /// The state of the ledger, as the daemon knows it.
    fn health<T: serde::de::DeserializeOwned>(&self, what: &str) -> Option<T> {
        let evidence = self.data()?.get("evidence")?;
        T::deserialize(evidence.get(what)?).ok()
    }

    fn cannot_write(&self) -> String {
        let Some(CannotWrite { since, reason, error }) = self.health("cannot_write") else { return String::new() };
        format!(
            "\n        CANNOT BE WRITTEN since {since}; no call is admitted: {}\n        {error}",
            reason.sentence()
        )
    }

    /// How far the rows are verified.
    fn verified(&self) -> String {
        let line = match self.health("verification") {
            Some(Verification::Running { row, of }) => format!("evidence: verified to row {row} of {of}"),
            Some(Verification::Whole { row }) => format!("evidence: verified to row {row}"),
            Some(Verification::Broken { row, error }) => {
                format!("EVIDENCE BROKEN at row {row}; no call is admitted: {error}")
            }
            Some(Verification::Unfinished { row, error }) => {
                format!("evidence: verification stopped at row {row}: {error}")
            }
            Some(Verification::Waiting) | None => return String::new(),
        };
        format!("\n        {line}")
    }

    fn state(&self, own: &Configured, provider: &Provider, listed: &Listed) -> String {
        let secret_statuses = own.secret_statuses(provider);
        if let Some(reason) = self.fault(provider, listed, &secret_statuses) {
            return reason;
        }
        if self.is_unknown_to_daemon(provider) {
            return "not known to the running daemon; to use it: host-broker reload".to_owned();
        }
        match secret_statuses.iter().find(|secret_status| secret_status.source.runs_a_program()) {
            Some(SecretStatus { secret, source, .. }) => {
                format!("ready if {source} supplies its secret `{secret}`; to check: host-broker provider check")
            }
            None => self.server(provider).unwrap_or_else(|| "ready".to_owned()),
        }
    }

    /// Returns whether the daemon runs on an earlier configuration without this provider.
    fn is_unknown_to_daemon(&self, provider: &Provider) -> bool {
        let known = self.data().and_then(|data| data.get("providers")?.as_array());
        known.is_some_and(|known| known.iter().all(|name| name != provider.as_str()))
    }

    /// Why a provider takes no calls: as the daemon knows it, or as far as that can be seen from here.
    fn fault(&self, provider: &Provider, listed: &Listed, secret_statuses: &[SecretStatus<'_>]) -> Option<String> {
        let hello = self.daemon.as_ref().ok().and_then(Option::as_ref);
        match hello.and_then(|hello| standing(hello, provider)) {
            Some(ServerState::Ready) => None,
            Some(ServerState::Unready { reason, .. }) => Some(reason),
            None => fault(listed, secret_statuses),
        }
    }

    /// How the MCP server behind a provider is, as the daemon knows it.
    fn server(&self, provider: &Provider) -> Option<String> {
        let health = self.data()?.get("servers")?.get(provider.as_str())?;
        let starts = health.get("starts").and_then(Value::as_u64).unwrap_or_default();
        let state = health.get("state").and_then(Value::as_str)?;
        let mut said = described(state, starts, health.get("fault").and_then(Value::as_str));
        for (tool, why) in health.get("withdrawn").and_then(Value::as_object).into_iter().flatten() {
            write!(said, "; {tool} is withdrawn: {}", why.as_str().unwrap_or_default()).ok();
        }
        Some(said)
    }

    fn groups(&self) -> String {
        let row = |(group, GroupState { is_main, mailbox }): (&Group, &GroupState)| {
            let grants: Vec<_> =
                self.live_grants(group).map(|grant| format!("{} L{}", grant.provider, grant.level.number())).collect();
            let access = if grants.is_empty() { "no access".to_owned() } else { grants.join(", ") };
            let on = mailbox.file_system.map(|name| format!(" on {name}")).unwrap_or_default();
            let transport = match self.socket(group).map(|socket| (&socket["open"], socket["connections"].as_u64())) {
                Some((Value::Bool(true), Some(0) | None)) => format!("no connection; files{on}"),
                Some((Value::Bool(true), Some(count))) => {
                    format!("socket ({})", counted(count, "connection", "connections"))
                }
                Some(_) => format!("files{on} (no socket)"),
                None => "-".to_owned(),
            };
            vec![if *is_main == Some(true) { format!("{group} (main)") } else { group.to_string() }, transport, access]
        };
        let rows: Vec<_> = self.groups.iter().map(row).collect();
        let none = match &self.configured {
            Ok(_) => "No groups; add one with: host-broker group add NAME",
            Err(_) => "The groups are unknown.",
        };
        let mut text = Output::table_or(none, &["GROUP", "TRANSPORT", "ACCESS"], &rows);
        for (group, GroupState { mailbox, .. }) in &self.groups {
            if let Some(advice) = mailbox.advice() {
                write!(text, "\n{group}: {advice}.").ok();
            }
        }
        text
    }

    /// The providers. While broker.toml is invalid, these are those of the daemon that take no calls.
    fn providers(&self) -> Option<String> {
        const NONE: &str = "No providers; add a [providers.NAME] table to broker.toml.";
        let Ok(own) = &self.configured else {
            let rows: Vec<_> = self.unready().map(|(name, why)| vec![name.to_owned(), why.to_owned()]).collect();
            return (!rows.is_empty()).then(|| Output::table(&["PROVIDER WITHOUT CALLS", "REASON"], &rows));
        };
        let row = |(name, listed): (&Provider, &Listed)| {
            vec![name.to_string(), listed.kind.to_owned(), self.state(own, name, listed)]
        };
        let rows: Vec<_> = own.catalogue.providers().map(row).collect();
        Some(Output::table_or(NONE, &["PROVIDER", "KIND", "STATE"], &rows))
    }
}

/// Why a provider takes no calls, as far as that can be seen.
fn fault(listed: &Listed, secret_statuses: &[SecretStatus<'_>]) -> Option<String> {
    let secret = || {
        secret_statuses.iter().find_map(|secret_status| {
            Some(format!("its secret `{}` is {}", secret_status.secret, secret_status.fault?))
        })
    };
    listed.state.as_ref().err().cloned().or_else(secret)
}

fn secret_document(secret_status: &SecretStatus<'_>) -> Value {
    json!({ "secret": secret_status.secret, "source": secret_status.source.to_string(), "state": word(secret_status) })
}

fn word(secret_status: &SecretStatus<'_>) -> &'static str {
    match secret_status.fault {
        Some(SecretError::Missing { .. }) => "missing",
        Some(SecretError::Refused { .. } | SecretError::TooShort) => "refused",
        None if secret_status.source.runs_a_program() => "unasked",
        None => "present",
    }
}

/// The calls as a table under this title; `None` if there are none.
pub(super) fn unsettled(title: &str, list: &[Unsettled]) -> Option<String> {
    let row = |one: &Unsettled| {
        let target = [one.provider.as_deref(), one.action.as_deref()].map(Option::unwrap_or_default).join(".");
        vec![one.request_id.clone(), one.caller.clone(), target, one.since.to_string()]
    };
    let rows: Vec<_> = list.iter().map(row).collect();
    let table = Output::table(&["REQUEST", "CALLER", "ACTION", "SINCE"], &rows);
    (!rows.is_empty()).then(|| format!("{title}\n{table}"))
}
