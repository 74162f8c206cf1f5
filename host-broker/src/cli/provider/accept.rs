//! `provider accept`: what a bridge says it can do, looked at and accepted.

use super::Name;
use crate::approvals::card::visible;
use crate::cli::Context;
use crate::cli::ask::answer;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::unknown;
use crate::config::Config;
use crate::config::provider::Kind;
use crate::control::Control;
use crate::filter::inspect::{self, Reason};
use crate::keys;
use crate::providers::accepted::{Accepted, Change, difference};
use crate::providers::bridge::definitions::{self, Registered};
use crate::providers::contract::Tier;
use crate::providers::setup;
use clap::Args;
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use std::sync::Arc;

/// Look at what a bridge says it can do, and accept it.
///
/// What was accepted is what the bridge can do from then on, whatever it says later: names, levels, schemas, descriptions.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --digest it starts the bridge, without any secret, and shows what it says and what is different
from what was accepted before; nothing is accepted. With --digest it accepts exactly that.

--json prints {provider, digest, accepted, capabilities: [{id, description, chat_types, operations: [{name, description,
level, tier, requires_auth, input_schema, output_schema}]}], changes: [{at, before, after}], warnings}"
)]
pub(super) struct Accept {
    /// The provider, as the configuration names it.
    provider: Name,
    /// Accept what has this digest.
    #[arg(long)]
    digest: Option<Digest>,
}

impl Accept {
    pub(super) fn run(self, context: &Context, config: &Config) -> Result<(), Fault> {
        let name = config.table_of(&self.provider).map(|(name, _)| name);
        let name = name.ok_or_else(|| unknown("provider", &self.provider, config.providers.keys()))?;
        let own = Arc::new(keys::identity(&context.home, context.effects.ids.as_ref())?);
        let bridge = setup::bare_bridge(config, &context.home, &context.effects, name, own);
        let bridge = bridge.map_err(Fault::provider)?.ok_or_else(|| {
            Fault::usage(format!("{name} is no bridge: what it can do is the broker's own, and needs no yes"))
        })?;
        let said = context.effects.runtime.block_on(bridge.definitions());
        let said = said.map_err(|fault| Fault::provider(format!("{name}: {}", fault.in_full())))?;
        let read = definitions::read(said.clone()).map_err(|fault| vec![fault]);
        let registered = read.and_then(|read| definitions::register(name, &read));
        let registered = registered.map_err(|faults| Fault::provider(faults.join("\n")))?;
        let path = context.home.accepted(name);
        let now = Accepted::new(said);
        let (before, damaged) = match Accepted::load(&path) {
            Ok(before) => (before, None),
            // It is to be accepted anew.
            Err(error) => (None, Some(format!("What was accepted before cannot be compared: {error}."))),
        };
        let unknown = match config.providers.get(name).map(|table| &table.kind) {
            Some(Kind::Bridge(settings, _)) => settings.unknown(&registered),
            Some(_) | None => None,
        };
        let unknown = unknown.map(|fault| format!("With what it says now [providers.{name}] is wrong: {fault}."));
        let noted = damaged.into_iter().chain(unknown).collect();
        let look = Look { name, now: &now, before: before.as_ref(), registered: &registered, noted };
        match &self.digest {
            None => {
                context.output.show(&look.document(false), || look.text(&context.program()));
                Ok(())
            }
            Some(digest) if *digest == now.digest() => {
                let control = Control::AcceptDefinitions { provider: name.clone(), digest: *digest };
                let reply = answer(context, &control)?;
                if reply.get("status").and_then(Value::as_str) != Some("executed") {
                    return context.output.reply(&reply);
                }
                now.store(&path).map_err(|error| Fault::internal(&error))?;
                context.output.show(&look.document(true), || {
                    format!("What {name} says it can do is accepted. It counts from the next start of the daemon on.")
                });
                Ok(())
            }
            Some(_) => Err(Fault::refused(format!(
                "{name} says something else now; look at it again with: {} provider accept {name}",
                context.program()
            ))),
        }
    }
}

/// What is looked at.
struct Look<'a> {
    name: &'a Name,
    now: &'a Accepted,
    before: Option<&'a Accepted>,
    registered: &'a [Registered],
    // What else a person should know.
    noted: Vec<String>,
}

impl Look<'_> {
    /// All of it, where nothing was accepted before.
    fn changes(&self) -> Vec<Change> {
        let nothing = Map::new();
        difference(self.before.map_or(&nothing, Accepted::said), self.now.said())
    }

    /// What an agent would read and perhaps obey.
    fn warnings(&self) -> Vec<String> {
        let of_operations = |capability: &Registered| {
            let own = (capability.provider.to_string(), capability.description.clone());
            let operations = capability.operations.iter().map(|operation| {
                let schemas = (&operation.input_schema, &operation.output_schema);
                let text = format!("{}\n{}", operation.description, json!(schemas));
                (format!("{}.{}", capability.provider, operation.action), text)
            });
            std::iter::once(own).chain(operations).collect::<Vec<_>>()
        };
        let texts = self.registered.iter().flat_map(of_operations);
        let looked = texts.map(|(of, text)| (of, inspect::inspect_text(&text)));
        let warned = looked.filter(|(_, verdict)| !verdict.is_clean()).map(|(of, verdict)| {
            let why: Vec<&str> = verdict.reasons().iter().map(Reason::sentence).collect();
            format!("{of} looks {}: {}", verdict.word(), why.join(" "))
        });
        self.noted.iter().cloned().chain(warned).collect()
    }

    fn document(&self, accepted: bool) -> Value {
        let capabilities: Vec<Value> = self
            .registered
            .iter()
            .map(|capability| {
                let operation = |operation: &definitions::Operation| {
                    json!({
                        "name": operation.action,
                        "description": operation.description,
                        "level": operation.level,
                        "tier": operation.tier.map(Tier::word),
                        "requires_auth": operation.requires_auth,
                        "input_schema": operation.input_schema,
                        "output_schema": operation.output_schema,
                    })
                };
                json!({
                    "id": capability.provider,
                    "description": capability.description,
                    "chat_types": capability.chat_types,
                    "operations": capability.operations.iter().map(operation).collect::<Vec<_>>(),
                })
            })
            .collect();
        let changes: Vec<Value> = self
            .changes()
            .into_iter()
            .map(|change| match change {
                Change::Added(at, after) => json!({ "at": at, "after": after }),
                Change::Removed(at, before) => json!({ "at": at, "before": before }),
            })
            .collect();
        json!({
            "provider": self.name,
            "digest": self.now.digest(),
            "accepted": accepted || self.before == Some(self.now),
            "capabilities": capabilities,
            "changes": changes,
            "warnings": self.warnings(),
        })
    }

    fn text(&self, program: &str) -> String {
        let mut parts = Vec::new();
        for capability in self.registered {
            let chats: Vec<&str> = capability.chat_types.iter().map(|kind| kind.word()).collect();
            let chats = if chats.is_empty() { "all chats".to_owned() } else { format!("{} chats", chats.join(", ")) };
            parts.push(format!("{} ({chats}): {}", capability.provider, visible(&capability.description)));
            let rows: Vec<_> = capability
                .operations
                .iter()
                .map(|operation| {
                    let tier = operation.tier.map_or_else(String::new, |tier| tier.word().to_owned());
                    let account = if operation.requires_auth { "account" } else { "" };
                    let (level, name) = (operation.level.to_string(), operation.action.to_string());
                    vec![name, level, tier, account.to_owned(), visible(&operation.description)]
                })
                .collect();
            parts.push(Output::table(&["OPERATION", "DEMANDS", "TIER", "NEEDS", "WHAT IT SAYS OF ITSELF"], &rows));
        }
        let changes: Vec<String> = self
            .changes()
            .into_iter()
            .map(|change| match change {
                Change::Added(at, after) => format!("+ {} {}", visible(&at), visible(&after)),
                Change::Removed(at, before) => format!("- {} {}", visible(&at), visible(&before)),
            })
            .collect();
        if !changes.is_empty() {
            let head = match self.before {
                Some(_) => "Since it was accepted, it says something else:",
                None => "All that it says:",
            };
            parts.push(format!("{head}\n{}", changes.join("\n")));
        }
        parts.extend(self.warnings().iter().map(|warning| format!("WARNING: {}", visible(warning))));
        parts.push(if self.before == Some(self.now) {
            "This is what was accepted.".to_owned()
        } else {
            format!(
                "Nothing was accepted. To accept exactly this:\n  {program} provider accept {} --digest {}",
                self.name,
                self.now.digest()
            )
        });
        parts.join("\n\n")
    }
}
