//! `provider accept`: the definitions of another's program, for review and acceptance.

mod capabilities;
pub(super) mod permits;
mod proposals;
mod tools;

use super::Name;
use crate::assembly::catalogue::{replaced, with_deps};
use crate::cli::Context;
use crate::cli::ask::answer;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Progress, refusal};
use crate::cli::terminal::{confirm, is_readable, shows_output};
use crate::control::{self, ProcessRequest};
use ::{provider_bridge, provider_mcp};
use clap::Args;
use config::Config;
use config::provider::ProviderTable;
use engine::request;
use model::card::Change;
use model::card::visible;
use provider::kind::Replacement;
use provider::pinned_definitions::{PinnedDefinitions, difference};
use provider_bridge::definitions;
use provider_mcp::Transport;
use secrets::keys;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::Action;
use shared::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::state::grants;

/// Review and accept the definitions of a bridge or an MCP server.
///
/// The broker pins the accepted names, schemas and descriptions. A later change by the server has no
/// effect until it is accepted. A running daemon uses newly accepted definitions immediately.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --digest, the command starts the program without any secret. It shows the definitions and their \
    changes. On a terminal, it then asks whether to accept exactly these; elsewhere it accepts nothing. With --digest, it \
    accepts exactly the definitions with that digest, and asks nothing. If a remote server requires a token, the running \
    daemon sends it and lists the definitions; without a daemon, this command does. The ledger records that access. The same \
    applies to --with-secrets.

If a definition looks like an attack on an agent, the command flags it and shows the reason. To accept it, name it in \
    --accept-flagged; before that, the command does not ask. For each tool of a server, the command proposes a level and \
    exposures. A proposal has no effect until it is in broker.toml: paste the lines, or add --accept-proposed.

--json prints {provider, digest, accepted, counts_from (now, next_start), changes: [{at, before, after}], warnings} and, of a bridge, capabilities:
[{id, description, chat_types, operations: [{name, description, level, tier, requires_auth, input_schema, \
    output_schema}]}], of a server tools: [{name, description, level, tier, only_reads, fault, flagged, proposed: {level, tier, \
    exposes, idempotent, why}, input_schema, output_schema}]; flagged: [NAME] lists the names that require --accept-flagged"
)]
pub(super) struct Accept {
    /// The name of the provider in the configuration.
    provider: Name,
    /// Accept the definitions with this digest.
    #[arg(long)]
    digest: Option<Digest>,
    /// Accept this flagged name; repeatable.
    #[arg(long = "accept-flagged", value_name = "NAME")]
    flagged: Vec<String>,
    /// Write the proposed lines to broker.toml.
    ///
    /// A tool without a line gets a level and exposures. A tool without exposures gets exposures.
    #[arg(long = "accept-proposed")]
    proposed: bool,
    /// Start the program with its secrets, for a server that signs in before it lists its tools.
    #[arg(long)]
    with_secrets: bool,
    // Whether `provider add` runs it, which knows its preset.
    #[arg(skip)]
    is_added: bool,
}

/// The progress of the program that lists its definitions.
const LISTING: &str = "waiting for the definitions";

/// The result of a review or of an acceptance.
pub(super) struct Review {
    /// The digest that identifies the definitions.
    pub(super) digest: Digest,
    /// The names that need `--accept-flagged`.
    pub(super) flagged: Vec<String>,
    /// The result as a document.
    pub(super) document: Value,
    /// The result for a person, without the next step.
    pub(super) text: String,
    /// The tools, with warnings, without the schemas of definitions that were never accepted.
    pub(super) brief: String,
    /// The next step.
    pub(super) next_step: String,
    /// Whether exactly these definitions are accepted.
    is_accepted: bool,
    /// Whether there are proposed lines that are not in `broker.toml`.
    has_proposals: bool,
}

impl Review {
    fn in_full(&self) -> String {
        if self.next_step.is_empty() { self.text.clone() } else { format!("{}\n\n{}", self.text, self.next_step) }
    }
}

impl Accept {
    /// Creates the command that reviews the definitions of this provider, or accepts those with this digest.
    pub(super) fn of(provider: Name, digest: Option<Digest>, with_secrets: bool) -> Self {
        Self { provider, digest, flagged: Vec::new(), proposed: false, with_secrets, is_added: true }
    }

    pub(super) fn run(self, context: &Context, config: &Config) -> Result<(), CliError> {
        let output = context.output;
        // A review that goes into a file or a pipe has no reader yet.
        let asks = self.digest.is_none() && shows_output(output);
        if self.digest.is_none() && !asks && (self.proposed || !self.flagged.is_empty()) {
            return Err(CliError::usage("--accept-flagged and --accept-proposed need --digest, except on a terminal"));
        }
        let reviewed = self.review(context, config)?;
        let is_open = !reviewed.is_accepted || (self.proposed && reviewed.has_proposals);
        let is_flagged = reviewed.flagged.iter().any(|name| !self.flagged.contains(name));
        let is_readable = is_readable(&reviewed.text);
        if !asks || !is_open || is_flagged || !is_readable {
            output.show(&reviewed.document, || reviewed.in_full());
            if asks && is_open && is_flagged {
                output.say("If you name each flagged definition in --accept-flagged, the command asks.");
            } else if asks && is_open {
                let digest = reviewed.digest;
                output.say(&format!("This is too long for a question. Read it in a file, then add: --digest {digest}"));
            }
            return Ok(());
        }
        output.show(&reviewed.document, || reviewed.text.clone());
        output.is_whole("nothing was accepted")?;
        if !confirm(output, "Accept exactly these definitions?", None)? {
            output.line("Nothing was accepted.");
            return Ok(());
        }
        let question =
            "Write the proposed lines to broker.toml, too? Without a line, a tool without a level stays off.";
        let proposed = self.proposed || (reviewed.has_proposals && confirm(output, question, None)?);
        let accepted = Self { digest: Some(reviewed.digest), proposed, ..self }.review(context, config)?;
        output.show(&accepted.document, || accepted.text.clone());
        Ok(())
    }

    /// Reviews or accepts the definitions.
    ///
    /// # Errors
    /// [`CliError`]; nothing was accepted unless the text says so.
    pub(super) fn review(&self, context: &Context, config: &Config) -> Result<Review, CliError> {
        let name = config.table_of(&self.provider).map(|(name, _)| name);
        let name = name.ok_or_else(|| unknown("provider", &self.provider, config.providers.keys()))?;
        let table = config.providers.get(name).ok_or_else(|| unknown("provider", name, config.providers.keys()))?;
        let bridge: Option<&provider_bridge::Table> = table.of_kind();
        let server: Option<&provider_mcp::Table> = table.of_kind();
        let (now, mut parts) = match (bridge, server) {
            (Some(_), _) if self.proposed || self.with_secrets => {
                return Err(CliError::usage(format!(
                    "{name} is a bridge: --accept-proposed and --with-secrets are for servers"
                )));
            }
            (Some(bridge), _) => of_bridge(context, config, (name, table), bridge)?,
            (None, Some(server)) => self.of_server(context, config, (name, table), server)?,
            (None, None) => {
                return Err(CliError::usage(format!(
                    "{name} has no definitions to accept; only bridges and MCP servers have"
                )));
            }
        };
        let before = match PinnedDefinitions::load(&context.home.accepted(name)) {
            Ok(before) => before,
            Err(error) => {
                // The definitions have to be accepted again.
                parts.warnings.insert(0, format!("The earlier definitions cannot be compared: {error}."));
                None
            }
        };
        let look = Look { config, name, now: &now, before: before.as_ref(), parts };
        let changes = look.changes()?;
        match &self.digest {
            None => self.shown(context, &look, &changes),
            Some(digest) if *digest == now.digest() => self.accepted(context, &look, &changes),
            Some(_) => Err(CliError::refused(format!(
                "the definitions of {name} have changed; review them with: {} provider accept {name}",
                context.program()
            ))),
        }
    }

    /// Returns the definitions for a person who decides.
    fn shown(&self, context: &Context, look: &Look<'_>, changes: &[Change]) -> Result<Review, CliError> {
        if !self.flagged.is_empty() {
            look.parts.agreed(look.name, &self.flagged.iter().cloned().collect())?;
        }
        let permits = permits::text(context, look.config, look.name, &look.parts.permitted);
        let body = |changes: &[Change]| look.text(changes, permits.as_ref());
        Ok(Review {
            digest: look.now.digest(),
            flagged: look.parts.flagged.keys().cloned().collect(),
            document: look.document(changes, None),
            text: body(changes),
            brief: body(look.before.map_or(&[][..], |_| changes)),
            next_step: look.next_step(&context.program(), self.with_secrets),
            is_accepted: look.is_accepted(),
            has_proposals: !look.parts.proposed.is_empty(),
        })
    }

    /// Accepts the definitions.
    fn accepted(&self, context: &Context, look: &Look<'_>, changes: &[Change]) -> Result<Review, CliError> {
        let (name, digest) = (look.name, look.now.digest());
        let flagged: BTreeSet<String> = self.flagged.iter().cloned().collect();
        look.parts.agreed(name, &flagged)?;
        let now = look.now.clone().with_flagged(flagged.clone());
        let edited = self.proposed.then(|| proposals::edited(context, name, &look.parts.proposed));
        let edited = edited.transpose()?;
        could_start(context, edited.as_ref().map_or(look.config, |edited| &edited.config), name, &now)?;
        let command = request::Command::AcceptDefinitions { provider: name.clone(), digest, flagged };
        let reply = answer(context, command)?;
        refusal(&reply).map_or(Ok(()), Err)?;
        now.store(&context.home.accepted(name)).map_err(|error| CliError::internal(&error))?;
        // A flagged tool that was not accepted is left out, and a rule about it would be wrong.
        let is_offered = |tool: &Action| {
            let name = tool.as_str();
            !look.parts.flagged.contains_key(name) || self.flagged.iter().any(|flagged| flagged == name)
        };
        let permitted: Vec<Action> = look.parts.permitted.iter().filter(|tool| is_offered(tool)).cloned().collect();
        let permits = permits::write(context, look.config, name, &permitted)?;
        let written = edited.map(|edited| edited.write(context)).transpose()?.flatten();
        let (counts, said) = exchanged(context, name, digest, written)?;
        let again = if changes.is_empty() { String::new() } else { earlier_grants(context, name) };
        let permits = permits.unwrap_or_default();
        Ok(Review {
            digest: now.digest(),
            flagged: look.parts.flagged.keys().cloned().collect(),
            document: look.document(changes, Some(counts)),
            text: format!("The definitions of {name} are accepted. {said}{permits}{again}"),
            brief: String::new(),
            next_step: String::new(),
            is_accepted: true,
            has_proposals: false,
        })
    }
}

/// Has a running daemon use accepted definitions. Returns from when on they count, and the sentence for a person. `written`
/// says which lines are new in `broker.toml`.
fn exchanged(
    context: &Context,
    name: &Name,
    digest: Digest,
    written: Option<String>,
) -> Result<(Counts, String), CliError> {
    let exchange = ProcessRequest::Exchange { provider: name.clone(), digest };
    let reply = control::send(&context.home.socket(), &exchange.into())?;
    let text = |member: &str| reply.as_ref().and_then(|reply| reply.get(member)?.as_str());
    let counts = if reply.is_some() && text("error").is_none() { Counts::Now } else { Counts::NextStart };
    let said = match (text("error"), written) {
        // Without the written lines, a daemon offers no tool, or it does not know the table yet.
        (_, Some(written)) if reply.is_some() => {
            format!("{written} Next: {}", context.at_home("host-broker reload"))
        }
        (Some(why), _) => {
            return Err(CliError::provider(format!(
                "the definitions of {name} are accepted, but the running daemon cannot load them: {why}"
            )));
        }
        (None, written) => {
            let said = text("summary").unwrap_or("The daemon uses them from its next start.");
            format!("{said}{}", written.map(|lines| format!(" {lines}")).unwrap_or_default())
        }
    };
    Ok((counts, said))
}

/// Returns the sentence about grants that were made before: they do not cover new tools. It has no command to paste, because
/// a repeated grant replaces each restriction of the one before.
fn earlier_grants(context: &Context, name: &Name) -> String {
    let now = context.platform.clock.now();
    let ledger = context.ledger_if_any().ok().flatten();
    let all = ledger.and_then(|ledger| grants::list(&ledger, None).ok()).unwrap_or_default();
    let own = all.iter().filter(|grant| grant.provider == *name && !grant.is_temporary && grant.is_live(now));
    let groups: Vec<&str> = own.map(|grant| grant.group.as_str()).collect();
    if groups.is_empty() {
        return String::new();
    }
    format!(
        "\nThe earlier grants of {} do not cover new or changed tools. To see them: {}; then repeat each with its options.",
        groups.join(", "),
        context.at_home(&format!("host-broker capabilities {}", groups.first().copied().unwrap_or_default()))
    )
}

/// From when on it counts.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Counts {
    Now,
    NextStart,
}

/// Checks that a daemon could start with the definitions: a profile or a rule may name an action that is gone.
fn could_start(context: &Context, config: &Config, name: &Name, now: &PinnedDefinitions) -> Result<(), CliError> {
    let replacement = (name, Replacement { accepted: now, source: None });
    let fresh = replaced(config, &context.home, &context.platform, None, replacement);
    let is_its = |listed: &Name| config.table_of(listed).is_some_and(|(own, _)| own == name);
    context.policy(config, &context.catalogue(config).with_replaced(is_its, fresh)).map(drop)
}

fn of_bridge(
    context: &Context,
    config: &Config,
    (name, own): (&Name, &ProviderTable),
    table: &provider_bridge::Table,
) -> Result<(PinnedDefinitions, Parts), CliError> {
    table.child.fetches_in_vain().map_or(Ok(()), |why| Err(CliError::home(format!("{name}: {why}"))))?;
    let key = Arc::new(keys::identity(&context.home, context.platform.ids.as_ref())?);
    let bridge =
        with_deps(config, &context.home, &context.platform, (name, own), |deps| table.without_secrets(name, deps, key));
    let bridge = bridge.map_err(CliError::provider)?;
    let said = Progress::during(context.output, LISTING, || context.platform.runtime.block_on(bridge.definitions()));
    let said = said.map_err(|fault| CliError::provider(format!("{name}: {}", fault.in_full())))?;
    let read = definitions::read(said.clone()).map_err(CliError::provider)?;
    let attacks = definitions::flagged(&read);
    let flagged: BTreeSet<String> = attacks.keys().cloned().collect();
    // A flagged definition is shown, and the operator can accept it by name.
    let registered = definitions::register(name, &read, &flagged);
    let registered = registered.map_err(|mut faults| {
        let all = definitions::register(name, &read, &BTreeSet::new()).err().unwrap_or_default();
        faults.extend(all.into_iter().filter(|fault| fault.contains("looks like an attack")));
        CliError::provider(faults.join("\n"))
    })?;
    let mut parts = capabilities::parts(&registered, &attacks);
    let unknown = table.settings.unknown(&registered);
    parts.warnings.extend(unknown.map(|fault| format!("[providers.{name}] does not fit these definitions: {fault}.")));
    Ok((PinnedDefinitions::new(said), parts))
}

impl Accept {
    fn of_server(
        &self,
        context: &Context,
        config: &Config,
        (name, own): (&Name, &ProviderTable),
        table: &provider_mcp::Table,
    ) -> Result<(PinnedDefinitions, Parts), CliError> {
        let upstream =
            with_deps(config, &context.home, &context.platform, (name, own), |deps| table.upstream(name, deps));
        let (wants_secrets, has_network) = match &table.transport {
            Transport::Http(address) => (address.token.is_some(), true),
            Transport::Stdio(child) => {
                child.fetches_in_vain().map_or(Ok(()), |why| Err(CliError::home(format!("{name}: {why}"))))?;
                (self.with_secrets, child.has_network())
            }
        };
        let now = if wants_secrets {
            let look = || answer(context, ProcessRequest::Look { provider: name.clone() });
            let reply = Progress::during(context.output, LISTING, look)?;
            match reply.get("data").and_then(Value::as_object) {
                Some(said) => Ok(PinnedDefinitions::new(said.clone())),
                None => Err(reply.get("error").and_then(Value::as_str).unwrap_or("it sent no answer").to_owned()),
            }
        } else {
            Progress::during(context.output, LISTING, || context.platform.runtime.block_on(upstream.tools()))
        };
        let now = now.map_err(|fault| {
            let has_secrets =
                matches!(&table.transport, Transport::Stdio(child) if !child.secrets.is_empty()) && !wants_secrets;
            let hint =
                if has_secrets && !self.is_added { "; if it signs in at its start, add --with-secrets" } else { "" };
            CliError::provider(format!("{name}: {fault}{hint}"))
        })?;
        let said = provider_mcp::tools::read(now.said()).map_err(CliError::provider)?;
        let parts = tools::parts(name, &said, &table.settings, has_network);
        Ok((now, parts))
    }
}

/// The definitions of a program, in the parts for a person.
struct Parts {
    // Under which name the list stands in a document.
    key: &'static str,
    list: Vec<Value>,
    tables: Vec<String>,
    // The warnings for a person before the acceptance.
    warnings: Vec<String>,
    // The names of the flagged items, with the reason.
    flagged: BTreeMap<String, String>,
    // The proposed lines for tools.
    proposed: Vec<proposals::Line>,
    // The writes whose tier is `rules`: no rule of a new home permits them.
    permitted: Vec<Action>,
}

impl Parts {
    /// SECURITY: a flagged item is accepted only by name.
    fn agreed(&self, provider: &Name, accepted: &BTreeSet<String>) -> Result<(), CliError> {
        if let Some(unknown) = accepted.iter().find(|name| !self.flagged.contains_key(*name)) {
            return Err(CliError::usage(format!(
                "--accept-flagged {unknown}: {provider} has nothing of that name that is flagged"
            )));
        }
        let left: Vec<String> =
            self.flagged.iter().filter(|(name, _)| !accepted.contains(*name)).map(|(_, why)| why.clone()).collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(CliError::refused(format!("{}\nNothing was accepted.", left.join("\n"))))
    }
}

/// The longest difference, in bytes, that a person could read.
const TOLD_MAX: usize = 64 * 1024 * 1024;

/// The subject of a review.
struct Look<'a> {
    config: &'a Config,
    name: &'a Name,
    now: &'a PinnedDefinitions,
    before: Option<&'a PinnedDefinitions>,
    parts: Parts,
}

impl Look<'_> {
    /// All of it, where nothing was accepted before.
    fn changes(&self) -> Result<Vec<Change>, CliError> {
        let nothing = Map::new();
        let changes = difference(self.before.map_or(&nothing, PinnedDefinitions::said), self.now.said(), TOLD_MAX);
        let too_long = || CliError::provider(format!("the definitions of {} are too long to review", self.name));
        changes.ok_or_else(too_long)
    }

    fn is_accepted(&self) -> bool {
        are_accepted(self.before, self.now, &self.parts.flagged)
    }

    fn document(&self, changes: &[Change], accepted: Option<Counts>) -> Value {
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| match change {
                Change::Added(at, after) => json!({ "at": at, "after": after }),
                Change::Removed(at, before) => json!({ "at": at, "before": before }),
            })
            .collect();
        json!({
            "provider": self.name,
            "digest": self.now.digest(),
            "accepted": accepted.is_some() || self.is_accepted(),
            "counts_from": accepted,
            self.parts.key: self.parts.list,
            "changes": changes,
            "warnings": self.parts.warnings,
            "flagged": self.parts.flagged.keys().collect::<Vec<_>>(),
        })
    }

    fn text(&self, changes: &[Change], permits: Option<&String>) -> String {
        let mut parts = self.parts.tables.clone();
        let changes: Vec<String> = changes
            .iter()
            .map(|change| match change {
                Change::Added(at, after) => format!("+ {} {}", visible(at), visible(after)),
                Change::Removed(at, before) => format!("- {} {}", visible(at), visible(before)),
            })
            .collect();
        if !changes.is_empty() {
            let head = match self.before {
                Some(_) => "Changes since the definitions were accepted:",
                None => "Definitions:",
            };
            parts.push(format!("{head}\n{}", changes.join("\n")));
        }
        parts.extend(proposals::text(self.name, &self.parts.proposed));
        parts.extend(permits.cloned());
        parts.extend(self.parts.warnings.iter().map(|warning| format!("WARNING: {}", visible(warning))));
        parts.extend(self.parts.flagged.values().map(|why| format!("FLAGGED: {}", visible(why))));
        parts.join("\n\n")
    }

    /// Returns the next step of a person who has read this.
    fn next_step(&self, program: &str, with_secrets: bool) -> String {
        if self.is_accepted() {
            return "These definitions are accepted.".to_owned();
        }
        let secrets = if with_secrets { " --with-secrets" } else { "" };
        let command = format!("{program} provider accept {} --digest {}{secrets}", self.name, self.now.digest());
        if self.parts.proposed.is_empty() {
            return format!("Nothing was accepted. To accept exactly this:\n  {command}");
        }
        format!(
            "Nothing was accepted. To accept exactly this, with the proposed lines:\n  {command} --accept-proposed\nWithout \
             --accept-proposed, no line is written; a tool without a level stays off."
        )
    }
}

/// Returns whether exactly these definitions are accepted, and each of the flagged ones by its name.
fn are_accepted(
    before: Option<&PinnedDefinitions>,
    now: &PinnedDefinitions,
    flagged: &BTreeMap<String, String>,
) -> bool {
    before.is_some_and(|before| before == now && flagged.keys().all(|name| before.flagged().contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_with_a_flagged_name_that_is_not_accepted_are_not_accepted() {
        let said = |tool: &str| PinnedDefinitions::new(Map::from_iter([("tools".to_owned(), json!([tool]))]));
        let flagged = |names: &[&str]| -> BTreeMap<String, String> {
            names.iter().map(|name| ((*name).to_owned(), "why".to_owned())).collect()
        };
        let pinned = |names: &[&str]| said("a").with_flagged(names.iter().map(|name| (*name).to_owned()).collect());
        let cases: [(Option<PinnedDefinitions>, &[&str], bool); 6] = [
            (None, &[], false),
            (Some(pinned(&[])), &[], true),
            (Some(pinned(&["a"])), &[], true),
            (Some(pinned(&[])), &["a"], false),
            (Some(pinned(&["a"])), &["a"], true),
            (Some(pinned(&["a"])), &["a", "b"], false),
        ];
        for (before, names, is_accepted) in cases {
            assert_eq!(are_accepted(before.as_ref(), &said("a"), &flagged(names)), is_accepted, "{before:?} {names:?}");
        }
        assert!(!are_accepted(Some(&pinned(&["a"])), &said("b"), &flagged(&["a"])));
    }
}
