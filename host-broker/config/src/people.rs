//! `[people]`: who may use the command line and the inbox, and for what.

use crate::Config;
use crate::web::TokenDigest;
use schemars::JsonSchema;
use secrets::identity::issuers::OWN;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::BTreeMap;

/// One person who uses the command line or the web inbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent rights, each off unless it is written")]
pub struct PersonTable {
    /// The user id of the person's processes; absent means that the person has none on this machine.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The SHA-256 of the person's token for the web inbox. `host-broker web token NAME` prints the line.
    #[serde(default)]
    pub web_token_sha256: Option<TokenDigest>,
    /// The calls that the person can approve; absent means none.
    #[serde(default)]
    pub approves: Option<ApprovesTable>,
    /// The person's chat identities, such as `telegram:12345`, `slack:U0123456789` or
    /// `matrix:@alice:example.org`.
    #[serde(default)]
    pub chat: Vec<String>,
    /// Whether the person can answer in a chat a call that joins private data, untrusted content and an egress channel.
    /// Such content may have been written to obtain the answer.
    #[serde(default)]
    pub chat_trifecta: bool,
    /// The highest level of the calls that the person can answer in a chat: 1, 2 or 3.
    #[serde(default = "write")]
    pub chat_max_level: Level,
    /// Whether the person can administer: grant, stop, mint tokens, accept definitions. The daemon's own user and root
    /// always can. To make a grant, the person also needs `approves` up to its level.
    #[serde(default)]
    pub admin: bool,
    /// Whether the person can read the pages of the inbox about all groups: activity, access, providers, flows and
    /// evidence. The person changes nothing there. A person who administers can read them without this.
    #[serde(default)]
    pub audits: bool,
    /// Whether the person's processes can relay answers that other people gave in a chat.
    #[serde(default)]
    pub can_relay_answers: bool,
}

fn write() -> Level {
    Level::Write
}

/// The calls that a person can approve; an empty table means all calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovesTable {
    /// The groups whose calls the person can approve; absent means all groups.
    pub groups: Option<Vec<Group>>,
    /// The providers whose calls the person can approve; absent means all providers.
    pub providers: Option<Vec<Provider>>,
    /// The highest level of calls that the person can approve; absent means any level.
    pub max_level: Option<Level>,
}

impl ApprovesTable {
    /// Returns whether it covers a call of this group.
    pub fn covers(&self, group: Option<&Group>, provider: &Provider, level: Level) -> bool {
        self.groups.as_ref().is_none_or(|groups| group.is_some_and(|group| groups.contains(group)))
            && self.providers.as_ref().is_none_or(|providers| providers.iter().any(|named| named.covers(provider)))
            && self.max_level.is_none_or(|most| level <= most)
    }
}

/// The superuser, who can replace the broker.
pub const ROOT: u32 = 0;

/// Returns the name of a user who has no table in `[people]`: `uid-1000`.
pub fn unlisted(uid: u32) -> String {
    format!("uid-{uid}")
}

pub(crate) fn unlisted_uid(person: &str) -> Option<u32> {
    person.strip_prefix("uid-")?.parse().ok()
}

impl Config {
    /// Checks that each user id names one person, and that each person with `admin` has a user id.
    pub(crate) fn check_people(&self) -> Result<(), String> {
        let mut known: BTreeMap<u32, &String> = BTreeMap::new();
        for (person, table) in &self.people {
            if table.admin && table.uid.is_none() {
                return Err(format!(
                    "people.{person}.admin: the control socket identifies people by their user id; add uid = N"
                ));
            }
            let Some(uid) = table.uid else { continue };
            if let Some(other) = known.insert(uid, person) {
                return Err(format!(
                    "people.{other} and people.{person} have the same uid {uid}; remove it from one of them"
                ));
            }
        }
        Ok(())
    }

    /// Checks that each web token belongs to one person.
    pub(crate) fn check_tokens(&self) -> Result<(), String> {
        let mut known: Vec<(&String, TokenDigest)> = Vec::new();
        for (person, table) in &self.people {
            let Some(digest) = table.web_token_sha256 else { continue };
            if let Some((other, _)) = known.iter().find(|(_, known)| *known == digest) {
                return Err(format!(
                    "people.{other} and people.{person} have the same web_token_sha256; make a separate token for each with: \
                     host-broker web token NAME"
                ));
            }
            known.push((person, digest));
        }
        Ok(())
    }

    /// Returns whether this person may approve a call of this group.
    pub fn may_approve(&self, person: &str, group: Option<&Group>, provider: &Provider, level: Level) -> bool {
        let approves = self.people.get(person).and_then(|table| table.approves.as_ref());
        approves.is_some_and(|approves| approves.covers(group, provider, level))
    }

    /// Returns whether this is the name of a person in the ledger's form: a known issuer, and its id of the person.
    pub fn knows_person(&self, person: &str) -> bool {
        person.split_once(':').is_some_and(|(issuer, sub)| {
            let known = issuer == OWN || self.identity.issuers.contains_key(issuer);
            known && !sub.is_empty() && sub.len() <= 256 && !sub.chars().any(char::is_control)
        })
    }

    /// Returns the person with this user id.
    pub fn person(&self, uid: u32) -> Option<&str> {
        self.people.iter().find(|(_, table)| table.uid == Some(uid)).map(|(name, _)| name.as_str())
    }

    /// Returns whether this person may administer. The daemon's own user, root and people with `admin = true` may.
    pub fn administers(&self, person: &str) -> bool {
        self.flows.administrators.holds(person)
    }

    /// Returns whether this person may read what all groups have done and may do.
    pub fn audits(&self, person: &str) -> bool {
        self.administers(person) || self.people.get(person).is_some_and(|table| table.audits)
    }
}
