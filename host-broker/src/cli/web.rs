//! `web`: how people get into the inbox.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::control::{self, ProcessRequest};
use crate::http::web::sign_in::fresh_secret;
use clap::{Args, Subcommand};
use config::web::TokenDigest;
use serde_json::json;
use std::fmt::Write as _;

/// Create a sign-in link or a token for the inbox in the browser.
///
/// If broker.toml has a `[web]` table, the daemon serves the inbox. `host-broker status` prints its address.
#[derive(Debug, Args)]
pub struct Web {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a link that signs you in once, within ten minutes.
    Link(Link),
    /// Create a token for a person and print it once.
    ///
    /// With the token, the person signs in from another machine.
    Token(Token),
}

#[derive(Debug, Args)]
#[command(
    after_help = "The daemon must be running. The link signs you in as your system user, as for approvals approve.

--json prints {status, summary, data: {url, person, expires_at}}"
)]
struct Link {}

#[derive(Debug, Args)]
#[command(
    after_help = "The broker stores nothing. Put the printed line into the table of the person in broker.toml, then: \
    `host-broker reload`. A new line replaces the old token.

--json prints {person, token, line}"
)]
struct Token {
    /// The name of the person, as in `[people.NAME]`.
    name: String,
}

impl Web {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; a link that was not printed cannot be used.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Link(Link {}) => link(context),
            Command::Token(Token { name }) => token(context, &name),
        }
    }
}

fn link(context: &Context) -> Result<(), CliError> {
    match control::send(&context.home.socket(), &ProcessRequest::WebLink.into())? {
        Some(reply) => context.output.reply(&reply),
        None => Err(CliError::refused("no daemon is running, so there is no inbox; start it with: host-broker serve")),
    }
}

fn token(context: &Context, name: &str) -> Result<(), CliError> {
    let config = context.config();
    let token = fresh_secret(context.platform.ids.as_ref()).map_err(|none| CliError::internal(&none))?;
    let line = format!("web_token_sha256 = \"{}\"", String::from(TokenDigest::of(&token)));
    let mut notes = String::new();
    match config {
        Ok(config) => {
            if config.people.get(name).is_none_or(|table| table.approves.is_none()) {
                notes.push_str("\nThe person needs `approves` in the same table to answer approval requests.");
            }
            if config.web.is_none() {
                notes.push_str("\nThe daemon serves no inbox yet: add a [web] table with listen = \"127.0.0.1:7420\".");
            }
        }
        // A placeholder in the place of this very line is a fault, too.
        Err(fault) => {
            write!(notes, "\nThe configuration is not valid yet: {}", fault.text).ok();
        }
    }
    context.output.show(&json!({ "person": name, "token": token, "line": line }), || {
        format!(
            "The token of {name}, shown only now:\n  {token}\n\nPut this line into [people.{name}] of {}, then make \
             the daemon read it: {reload}\n  {line}{notes}",
            context.home.config().display(),
            reload = context.at_home("host-broker reload"),
        )
    });
    Ok(())
}
