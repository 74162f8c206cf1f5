//! `[identity]`: the issuers of context tokens.

use crate::web::Loopback;
use schemars::JsonSchema;
use secrets::identity::issuers::IssuerTable;
use secrets::identity::issuers::{OWN, public_key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The issuers of context tokens, which name the person for whom an agent acts. The broker itself is one: `host-broker
/// token mint`.
///
/// ```toml
/// [identity.issuers.chat]
/// public_keys = ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"]
///
/// [identity.issuers.ash]           # tokens as Ash signs them
/// secret = { env = "ASH_CONTEXT_TOKEN_SECRET" }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityTable {
    /// The address to which browsers return after sign-in for account linking: `http://ADDRESS:PORT/callback`. Absent
    /// means that people copy the final address of the sign-in page.
    pub callback: Option<Loopback>,
    /// The value of `aud` that tokens for this broker have. Absent means a name derived from the broker's key;
    /// `host-broker token key` prints it.
    pub audience: Option<String>,
    /// The other issuers of context tokens, by a local name: lower-case letters, digits, `-` and `_`.
    pub issuers: BTreeMap<String, IssuerTable>,
}

impl IdentityTable {
    /// Checks the table; an error has the place and the remedy.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::from([(OWN, OWN)]);
        for (name, table) in &self.issuers {
            let place = format!("identity.issuers.{name}");
            if name.parse::<shared::Group>().is_err() {
                return Err(format!(
                    "{place}: the name contains other characters than lower-case letters, digits, - and _; use iss for them"
                ));
            }
            let iss = table.iss.as_deref().unwrap_or(name);
            if name == OWN || iss.trim().is_empty() {
                return Err(format!(
                    "{place}: the name is the broker's own (`{OWN}`) or iss is empty; choose another value"
                ));
            }
            if let Some(other) = taken.insert(iss, name) {
                return Err(format!("{place}: the issuer {other} has the same iss; set a different iss"));
            }
            match (&table.secret, table.public_keys.is_empty()) {
                (None, true) => {
                    return Err(format!(
                        "{place}: the keys are missing; add public_keys, or a secret for tokens of Ash"
                    ));
                }
                (Some(_), false) => {
                    return Err(format!("{place}: public_keys and secret exclude each other; remove one"));
                }
                (Some(_), true) | (None, false) => {}
            }
            if table.public_keys.iter().any(|key| public_key(key).is_none()) {
                return Err(format!(
                    "{place}.public_keys: each key must be 32 bytes in base64url without padding, 43 characters"
                ));
            }
        }
        if self.audience.as_deref().is_some_and(|audience| audience.trim().is_empty()) {
            return Err("identity.audience must not be empty; remove the line for the default".to_owned());
        }
        Ok(())
    }
}
