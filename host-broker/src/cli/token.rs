//! `token`: on whose behalf a group asks, and who works with flows from elsewhere.

mod operator;

use crate::cli::Context;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::{chat_type, known_group, seconds};
use crate::config::Config;
use crate::identity::issuers::{Issuers, OwnKey, audience};
use crate::identity::token::{self, LIFE_MAX, Wanted};
use crate::keys;
use crate::providers::setup;
use clap::{Args, Subcommand};
use model::Nonce;
use model::{ChatType, Person};
use serde_json::{Value, json};
use shared::Group;
use std::io::Read as _;
use std::time::Duration;

/// More than any token has.
const STDIN_MAX: u64 = 64 * 1024;

/// Tokens: on whose behalf a group asks, and who works with flows from elsewhere.
///
/// A group is known from its directory; the person at the other end of its chat only from a signed token. Whatever
/// starts a group's sandbox for a person mints one and hands it over: in `EXT_CONTEXT_TOKEN`, or in a file that
/// `EXT_CONTEXT_TOKEN_FILE` names and that is written anew before the token is over.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  EXT_CONTEXT_TOKEN=$(host-broker token mint ann --group family --chat-type private)
  host-broker token mint ann --group family --for 1h --chat-id c7 > token.new && mv token.new token
  host-broker token verify --group family < token
  host-broker token key
  host-broker token mint-operator --scopes flows:read,flows:write --label ci --for 8h

--json prints, of mint, {token, audience, expires_at}; of verify, {valid, person: {issuer, sub, …}} or
{valid: false, code, reason}; of key, {public_key, audience}; of mint-operator and revoke-operator, {token_id, label,
scopes, tiers, vault_id, issued_by, issued_at, expires_at, revoked_at}, the first one with bearer; of list-operators,
{tokens: […]}")]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token. Whoever has it speaks for the person until it is over.
    Mint(Mint),
    /// Say what the token on standard input proves.
    Verify {
        /// As if this group sent it.
        #[arg(long)]
        group: Group,
    },
    /// Print the key that verifies the broker's tokens, and what tokens must call this broker.
    Key,
    /// Make a token for an operator elsewhere, who works with flows over HTTP.
    MintOperator(operator::Mint),
    /// End such a token, at once and for good.
    RevokeOperator(operator::Named),
    /// List such tokens.
    ListOperators,
}

#[derive(Debug, Args)]
struct Mint {
    /// The person, by the name that is used in every token of theirs.
    person: String,
    /// The one group that may use it.
    #[arg(long, required_unless_present = "any_group")]
    group: Option<Group>,
    /// Any group that gets hold of it may use it.
    #[arg(long, conflicts_with = "group")]
    any_group: bool,
    /// How long it lives: 90s, 15m; at most 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "15m")]
    life: u64,
    /// The chat in which the person asks.
    #[arg(long)]
    chat_id: Option<String>,
    /// The kind of that chat: private, group or channel.
    #[arg(long, value_parser = chat_type)]
    chat_type: Option<ChatType>,
    /// The thread within it.
    #[arg(long)]
    thread_id: Option<String>,
    /// The messenger that the chat belongs to.
    #[arg(long)]
    provider: Option<String>,
    /// The conversation that the agent is in.
    #[arg(long)]
    session_key: Option<String>,
    /// What the person is called there.
    #[arg(long)]
    username: Option<String>,
    /// What the person chose to be shown as.
    #[arg(long)]
    display_name: Option<String>,
}

impl Token {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; no token was made.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        let own = || keys::identity(&context.home, context.effects.ids.as_ref());
        match self.command {
            Command::Mint(mint) => mint.run(context, &context.config()?, &own()?),
            Command::Verify { group } => verify(context, &context.config()?, &own()?, &group),
            Command::Key => {
                let own = own()?;
                let audience = audience(&own, &context.config()?.identity);
                let document = json!({ "public_key": own.public_text(), "audience": audience });
                context.output.show(&document, || format!("public key  {}\naudience    {audience}", own.public_text()));
                Ok(())
            }
            Command::MintOperator(mint) => mint.run(context),
            Command::RevokeOperator(named) => named.run(context),
            Command::ListOperators => operator::list(context),
        }
    }
}

impl Mint {
    fn run(self, context: &Context, config: &Config, own: &OwnKey) -> Result<(), Fault> {
        if let Some(group) = &self.group {
            known_group(config, group)?;
        }
        let life = Duration::from_secs(self.life);
        if life > LIFE_MAX || life.is_zero() {
            return Err(Fault::usage("a token lives for an hour at most; mint another one before it is over"));
        }
        let issuers = issuers(context, config, own);
        let wanted = Wanted {
            sub: self.person,
            group: self.group,
            chat_id: self.chat_id,
            chat_type: self.chat_type,
            thread_id: self.thread_id,
            provider: self.provider,
            session_key: self.session_key,
            source_username: self.username,
            source_display_name: self.display_name,
        };
        let jti = Nonce::fresh(context.effects.ids.as_ref()).map_err(|error| Fault::internal(&error))?;
        let now = context.effects.clock.now();
        let claims = token::claims(&wanted, &issuers.audience, jti.as_str().to_owned(), now, life);
        let token = token::signed(&claims, |bytes| own.sign(bytes));
        // Nobody is handed a token that will not be believed. One that names no group is read alike by all.
        let group = wanted.group.map_or_else(|| "any".parse(), Ok).map_err(|error| Fault::internal(&error))?;
        if let Err(why) = token::read(&token, &group, &issuers, now) {
            return Err(Fault::usage(format!("such a token would be refused: {why}")));
        }
        let document = json!({ "token": token, "audience": issuers.audience, "expires_at": now.plus(life) });
        context.output.show(&document, || token.clone());
        Ok(())
    }
}

fn verify(context: &Context, config: &Config, own: &OwnKey, group: &Group) -> Result<(), Fault> {
    known_group(config, group)?;
    let mut token = String::new();
    std::io::stdin()
        .take(STDIN_MAX)
        .read_to_string(&mut token)
        .map_err(|error| Fault::usage(format!("standard input has no token: {error}")))?;
    let token = token.trim_end_matches(['\r', '\n']);
    match token::read(token, group, &issuers(context, config, own), context.effects.clock.now()) {
        Ok(person) => {
            context.output.show(&json!({ "valid": true, "person": person }), || text(&person));
            Ok(())
        }
        Err(why) => Err(Fault::refused(format!("{why}"))
            .with("valid", false)
            .with("code", why.code().word())
            .with("reason", why.to_string())),
    }
}

fn text(person: &Person) -> String {
    let Value::Object(members) = json!(person) else { return String::new() };
    let row = |(name, value): (&String, &Value)| vec![name.clone(), value.as_str().unwrap_or_default().to_owned()];
    Output::table(&["CLAIM", "VALUE"], &members.iter().map(row).collect::<Vec<_>>())
}

fn issuers(context: &Context, config: &Config, own: &OwnKey) -> Issuers {
    Issuers::new(own, &config.identity, &setup::secrets_of_issuers(config, &context.effects))
}
