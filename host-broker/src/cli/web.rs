//! `web`: how people get into the inbox.

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::config::web::TokenDigest;
use crate::control::{self, Control};
use crate::http::web::entrance::fresh_secret;
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Write as _;

/// The inbox in a browser: make a link to sign in with, or a person's token.
///
/// The daemon serves it where broker.toml has a `[web]` table; host-broker status prints its address.
#[derive(Debug, Args)]
pub struct Web {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a link that signs you in: good once, for ten minutes.
    Link(Link),
    /// Make a token for a person who signs in from elsewhere, and print it once.
    Token(Token),
}

#[derive(Debug, Args)]
#[command(after_help = "The daemon must be running. You are who the system says you are, as with approvals approve.

--json prints {status, summary, data: {url, person, expires_at}}")]
struct Link {}

#[derive(Debug, Args)]
#[command(after_help = "Nothing is stored: put the printed line into the person's table of broker.toml, then: \
    host-broker reload. A new line there ends the old token.

--json prints {person, token, line}")]
struct Token {
    /// The person, as in `[people.NAME]`.
    name: String,
}

impl Web {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; nobody can sign in with what was not printed.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::Link(Link {}) => link(context),
            Command::Token(Token { name }) => token(context, &name),
        }
    }
}

fn link(context: &Context) -> Result<(), Fault> {
    match control::send(&context.home.socket(), &Control::WebLink)? {
        Some(reply) => context.output.reply(&reply),
        None => Err(Fault::refused("no daemon is running, so there is no inbox; start it with: host-broker serve")),
    }
}

fn token(context: &Context, name: &str) -> Result<(), Fault> {
    let config = context.config();
    let token = fresh_secret(context.effects.ids.as_ref()).map_err(|none| Fault::internal(&none))?;
    let line = format!("web_token_sha256 = \"{}\"", String::from(TokenDigest::of(&token)));
    let mut notes = String::new();
    match config {
        Ok(config) => {
            if config.people.get(name).is_none_or(|table| table.approves.is_none()) {
                notes.push_str("\nWithout `approves` in the same table the person may answer nothing.");
            }
            if config.web.is_none() {
                notes.push_str("\nNo inbox is served yet: add a [web] table with listen = \"127.0.0.1:7420\".");
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
