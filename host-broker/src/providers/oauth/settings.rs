//! What an operator says of an OAuth server.

use crate::providers::linking::address::Hosts;
use crate::secrets::source::SecretSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// How persons link their accounts at a server elsewhere.
///
/// ```toml
/// [providers."team.tasks".oauth]
/// client_id = "broker"
/// client_secret = { env = "TASKS_CLIENT_SECRET" }
/// authorize_url = "https://tasks.example.com/authorize"
/// token_url = "https://tasks.example.com/token"
/// scopes = ["read", "write"]
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// As whom the broker is registered there.
    pub client_id: String,
    /// What it proves that with; absent for a client that has none.
    #[serde(default)]
    pub client_secret: Option<SecretSource>,
    /// The page on which persons sign in.
    pub authorize_url: String,
    /// Where tokens are given and renewed.
    pub token_url: String,
    /// Where a code to be typed elsewhere is given. Then persons type one, and bring nothing back.
    #[serde(default)]
    pub device_url: Option<String>,
    /// The hosts of pages on which persons sign in beside that of `authorize_url`: where a code is typed may be elsewhere.
    #[serde(default)]
    pub auth_hosts: Vec<String>,
    /// What is asked for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Where the page leads to, as it is registered there; no two providers' pages lead to one place. Absent means the callback
    /// of `[identity]` or `http://localhost`, with `/` and the provider's name: `http://127.0.0.1:7421/callback/team.tasks`.
    #[serde(default)]
    pub redirect_url: Option<String>,
}

impl Settings {
    /// What cannot be so.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn check(&self) -> Result<(), String> {
        if self.client_id.is_empty() {
            return Err("oauth.client_id: it is empty".to_owned());
        }
        self.hosts()?.admit(&self.authorize_url).map_err(|why| format!("oauth.authorize_url: {why}"))?;
        let asked = [("token_url", Some(&self.token_url)), ("device_url", self.device_url.as_ref())];
        for (key, url) in asked.into_iter().filter_map(|(key, url)| Some((key, url?))) {
            let own = host(url).and_then(|host| Hosts::new(&[host]).ok());
            let own = own.ok_or_else(|| format!("oauth.{key}: it is no address"))?;
            own.admit(url).map_err(|why| format!("oauth.{key}: {why}"))?;
        }
        let redirect = self.redirect_url.as_deref().map_or(Ok(()), |url| Url::parse(url).map(drop));
        redirect.map_err(|error| format!("oauth.redirect_url: {error}"))
    }

    /// Where persons are sent to.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn hosts(&self) -> Result<Hosts, String> {
        let host = host(&self.authorize_url).ok_or("oauth.authorize_url: it is no address")?;
        let all: Vec<String> = self.auth_hosts.iter().cloned().chain([host]).collect();
        Hosts::new(&all).map_err(|why| format!("oauth.{why}"))
    }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}
