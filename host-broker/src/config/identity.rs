//! Who may say on whose behalf a group asks: `[identity]`.

use crate::config::web::Loopback;
use crate::identity::issuers::{OWN, public_key};
use crate::secrets::source::SecretSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who may say on whose behalf a group asks. The broker itself may: `host-broker token mint`.
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
    /// Where browsers bring persons back to from the pages on which they sign in to link an account:
    /// `http://ADDRESS:PORT/callback`. Absent means that persons copy what the page leads to.
    pub callback: Option<Loopback>,
    /// What tokens call this broker in `aud`; absent means a name made of its key, which `host-broker token key` prints.
    pub audience: Option<String>,
    /// Who else signs context tokens, by a name of your choice: lower-case letters, digits, `-` and `_`.
    pub issuers: BTreeMap<String, IssuerTable>,
}

/// Somebody who signs context tokens.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerTable {
    /// What it calls itself in `iss`; absent means its name here.
    pub iss: Option<String>,
    /// Its Ed25519 public keys, each 32 bytes in base64url. More than one while a key is being replaced.
    pub public_keys: Vec<String>,
    /// The secret that it shares with the broker, for HMAC-SHA256 tokens as Ash makes them. Whoever has it can sign.
    pub secret: Option<SecretSource>,
}

impl IdentityTable {
    /// What is wrong with it, with the remedy: where, and what.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::from([(OWN, OWN)]);
        for (name, table) in &self.issuers {
            let place = format!("identity.issuers.{name}");
            if name.parse::<shared::Group>().is_err() {
                return Err(format!("{place}: a name has lower-case letters, digits, - and _; put the rest into iss"));
            }
            let iss = table.iss.as_deref().unwrap_or(name);
            if name == OWN || iss.trim().is_empty() {
                return Err(format!("{place}: `{OWN}` is the broker's own name, and iss cannot be empty"));
            }
            if let Some(other) = taken.insert(iss, name) {
                return Err(format!(
                    "{place}: its tokens could not be told from those of {other}; give it another iss"
                ));
            }
            match (&table.secret, table.public_keys.is_empty()) {
                (None, true) => return Err(format!("{place}: it needs public_keys, or a secret for tokens of Ash")),
                (Some(_), false) => {
                    return Err(format!("{place}: public_keys or a secret, not both: an issuer signs in one way"));
                }
                (Some(_), true) | (None, false) => {}
            }
            if table.public_keys.iter().any(|key| public_key(key).is_none()) {
                return Err(format!(
                    "{place}.public_keys: a key is 32 bytes in base64url without padding, 43 characters"
                ));
            }
        }
        if self.audience.as_deref().is_some_and(|audience| audience.trim().is_empty()) {
            return Err("identity.audience: it cannot be empty; leave it out for the broker's own".to_owned());
        }
        Ok(())
    }
}
