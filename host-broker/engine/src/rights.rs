//! The rights of people, which commands take.
//!
//! ```text
//! Known        a person of the configuration, or the daemon's own user, or root
//! Member       a person who approves something, audits, or administers
//! Administer   `admin = true` in [people.NAME]; the daemon's own user and root without it
//! Grant        Administer, and `approves` that covers the group, the provider and the level
//! OwnCheck     what the command itself checks: who may answer, relay, open a gate or release
//! ```
//!
//! A person who gives an external agent a grant with tools also needs `approves` for each of them: [`check_tool`].
//! [`Command::rules`](crate::request::Command::rules) gives each command its right. A relay holds none of the first four beyond `Known`, so it relays and nothing else.

use config::Config;
use model::external;
use shared::request::GrantRequest;
use shared::{Group, Level, Provider};

/// The right that a command takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Right<'a> {
    /// The person is known.
    Known,
    /// The person approves something, audits, or administers.
    Member,
    /// The person administers.
    Administer,
    /// The person administers, and approves up to the level that is granted.
    Grant(&'a GrantRequest),
    /// Another condition, which the command itself checks and records.
    OwnCheck,
}

impl Right<'_> {
    /// Checks whether this person has the right.
    ///
    /// # Errors
    /// The right that the person lacks, with the line of the configuration that gives it.
    pub fn check(self, config: &Config, person: &str) -> Result<(), String> {
        let administers = config.administers(person);
        let approves = config.people.get(person).is_some_and(|table| table.approves.is_some());
        match self {
            Right::Member if !config.audits(person) && !approves => Err(format!(
                "{person} may not do this; [people.{person}] in broker.toml needs `approves`, `audits = true` or \
                 `admin = true`."
            )),
            Right::Administer | Right::Grant(_) if !administers => {
                Err(format!("{person} may not administer; [people.{person}] in broker.toml needs `admin = true`."))
            }
            Right::Grant(GrantRequest { group_folder, provider, access_level, .. }) if *access_level != Level::None => {
                covers(config, person, group_folder, (provider, *access_level))
            }
            Right::Known | Right::OwnCheck | Right::Member | Right::Administer | Right::Grant(_) => Ok(()),
        }
    }
}

/// Checks whether the person approves the given grant. A person who administers without a table has no limit.
fn covers(config: &Config, person: &str, group: &Group, (provider, level): (&Provider, Level)) -> Result<(), String> {
    let is_unlimited = !config.people.contains_key(person) && config.administers(person);
    if is_unlimited || config.may_approve(person, Some(group), provider, level) {
        return Ok(());
    }
    Err(format!(
        "{person} may not grant {level} at {provider} to {group}; `approves` of [people.{person}] in broker.toml needs \
         this group, provider and level."
    ))
}

/// Checks whether this person may give external agents a tool of this provider and level.
///
/// # Errors
/// The right that the person lacks, with the line of the configuration that gives it.
pub fn check_tool(config: &Config, person: &str, provider: &Provider, level: Level) -> Result<(), String> {
    covers(config, person, external(), (provider, level))
}
