//! `token`: context tokens, which name the person for whom a group's agent acts.

use crate::assembly::secrets::secrets_of_issuers;
use crate::cli::Context;
use crate::cli::home_reader::{chat_type, known_group, seconds};
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use config::Config;
use model::{ChatType, Nonce, Person};
use secrets::identity::issuers::{Issuers, OWN, OwnKey, audience};
use secrets::identity::token;
use secrets::identity::token::{ExpectedClaims, LIFE_MAX, Scope};
use secrets::keys;
use serde_json::{Value, json};
use shared::Group;
use std::io::Read as _;
use std::time::Duration;

/// More than any token has.
const STDIN_MAX: u64 = 64 * 1024;

/// Create and verify context tokens, which name the person an agent acts for.
///
/// The broker knows a group from its directory. It knows the person in the chat only from a signed token. The program that
/// starts a sandbox for a person creates a token and passes it in `EXT_CONTEXT_TOKEN`, or in the file that
/// `EXT_CONTEXT_TOKEN_FILE` names. It replaces that file before the token expires.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  EXT_CONTEXT_TOKEN=$(host-broker token mint ann --group family --chat-type private)
  host-broker token mint ann --group family --for 1h --chat-id c7 > token.new && mv token.new token
  host-broker token verify --group family < token
  host-broker token key

--json prints, for mint, {token, audience, expires_at}; for verify, {valid, person: {issuer, sub, …}, group, expires_at} or \
    {valid: false, code, reason}; for key, {public_key, audience}")]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token for a person.
    ///
    /// The holder of the token acts for the person until the token expires.
    Mint(Mint),
    /// Verify the token on standard input and print its claims.
    Verify {
        /// The group that sends the token.
        #[arg(long)]
        group: Group,
    },
    /// Print the public key of the broker's tokens and their audience.
    Key,
}

#[derive(Debug, Args)]
struct Mint {
    /// The id of the person, the same in all tokens of the person.
    person: String,
    /// The only group that can use the token.
    #[arg(long, required_unless_present = "any_group")]
    group: Option<Group>,
    /// Let any group use the token.
    #[arg(long, conflicts_with = "group")]
    any_group: bool,
    /// The lifetime: 90s, 15m; at most 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "15m")]
    life: u64,
    /// The chat of the person.
    #[arg(long)]
    chat_id: Option<String>,
    /// The kind of the chat: private, group or channel.
    #[arg(long, value_parser = chat_type)]
    chat_type: Option<ChatType>,
    /// The thread in the chat.
    #[arg(long)]
    thread_id: Option<String>,
    /// The messenger of the chat.
    #[arg(long)]
    provider: Option<String>,
    /// The conversation of the agent.
    #[arg(long)]
    session_key: Option<String>,
    /// The user name of the person in the chat.
    #[arg(long)]
    username: Option<String>,
    /// The display name of the person in the chat.
    #[arg(long)]
    display_name: Option<String>,
}

impl Token {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; no token was made.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let own = || keys::identity(&context.home, context.platform.ids.as_ref());
        match self.command {
            Command::Mint(mint) => mint.run(context, &context.config()?, &own()?),
            Command::Verify { group } => verify(context, &context.config()?, &own()?, &group),
            Command::Key => {
                let own = own()?;
                let audience = audience(&own, context.config()?.identity.audience.as_deref());
                let document = json!({ "public_key": own.public_text(), "audience": audience });
                context.output.show(&document, || format!("public key  {}\naudience    {audience}", own.public_text()));
                Ok(())
            }
        }
    }
}

impl Mint {
    fn run(self, context: &Context, config: &Config, own: &OwnKey) -> Result<(), CliError> {
        if let Some(group) = &self.group {
            known_group(config, group)?;
        }
        let life = Duration::from_secs(self.life);
        if life.is_zero() {
            return Err(CliError::usage("a token lasts at least one second; choose a duration such as 15m"));
        }
        if life > LIFE_MAX {
            return Err(CliError::usage("a token lasts at most one hour; create another one before it expires"));
        }
        let prefix = format!("{OWN}:");
        if let Some(name) = self.person.strip_prefix(&prefix) {
            return Err(CliError::usage(format!(
                "a token names the person without the issuer: host-broker token mint {name}"
            )));
        }
        let issuers = issuers(context, config, own);
        let wanted = ExpectedClaims {
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
        let jti = Nonce::fresh(context.platform.ids.as_ref()).map_err(|error| CliError::internal(&error))?;
        let now = context.platform.clock.now();
        let claims = token::claims(&wanted, &issuers.audience, jti.as_str().to_owned(), now, life);
        let token = token::signed(&claims, |bytes| own.sign(bytes));
        // No token is printed that the broker would not accept. One that names no group is read alike by all.
        let group = wanted.group.map_or_else(|| "any".parse(), Ok).map_err(|error| CliError::internal(&error))?;
        if let Err(why) = token::read(&token, &group, &issuers, now) {
            return Err(CliError::usage(format!("such a token would be refused: {why}")));
        }
        let document = json!({ "token": token, "audience": issuers.audience, "expires_at": now.plus(life) });
        context.output.show(&document, || token.clone());
        Ok(())
    }
}

fn verify(context: &Context, config: &Config, own: &OwnKey, group: &Group) -> Result<(), CliError> {
    known_group(config, group)?;
    let mut token = String::new();
    std::io::stdin()
        .take(STDIN_MAX)
        .read_to_string(&mut token)
        .map_err(|error| CliError::usage(format!("standard input has no token: {error}")))?;
    let token = token.trim_end_matches(['\r', '\n']);
    match token::read(token, group, &issuers(context, config, own), context.platform.clock.now()) {
        Ok(person) => {
            let Scope { group, expires_at } = token::scope(token);
            let scope = [
                ("group".to_owned(), group.unwrap_or_else(|| "any".to_owned())),
                ("expires_at".to_owned(), expires_at.map_or_else(String::new, |at| at.to_string())),
            ];
            let mut document = json!({ "valid": true, "person": person });
            if let Some(members) = document.as_object_mut() {
                members.extend(scope.clone().map(|(name, value)| (name, value.into())));
            }
            context.output.show(&document, || text(&person, &scope));
            Ok(())
        }
        Err(why) => Err(CliError::refused(format!("{why}"))
            .with("valid", false)
            .with("code", why.code().word())
            .with("reason", why.to_string())),
    }
}

fn text(person: &Person, scope: &[(String, String)]) -> String {
    let Value::Object(members) = json!(person) else { return String::new() };
    let row = |(name, value): (&String, &Value)| vec![name.clone(), value.as_str().unwrap_or_default().to_owned()];
    let scope = scope.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    Output::table(&["CLAIM", "VALUE"], &members.iter().map(row).chain(scope).collect::<Vec<_>>())
}

fn issuers(context: &Context, config: &Config, own: &OwnKey) -> Issuers {
    let secrets = secrets_of_issuers(config, &context.platform);
    Issuers::new(own, config.identity.audience.as_deref(), &config.identity.issuers, &secrets)
}
