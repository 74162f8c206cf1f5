//! An operator's settings for an OAuth server.

use crate::linking::address::Hosts;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use url::Url;

/// The OAuth client with which people link their accounts at a remote server.
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
    /// The broker's client id at the server.
    pub client_id: String,
    /// The broker's client secret; absent means a public client.
    #[serde(default)]
    pub client_secret: Option<SecretSource>,
    /// The URL of the page on which people sign in.
    pub authorize_url: String,
    /// The URL that issues and renews tokens.
    pub token_url: String,
    /// The URL that issues device codes. With it, people enter a code on another page and copy nothing back.
    #[serde(default)]
    pub device_url: Option<String>,
    /// Additional hosts of sign-in pages; the host of `authorize_url` is always included. The page for device codes can
    /// be on another host.
    #[serde(default)]
    pub auth_hosts: Vec<String>,
    /// The OAuth scopes that the broker requests.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The redirect URL that is registered at the server; it must be unique to each provider. Absent means the callback
    /// of `[identity]` or `http://localhost`, followed by `/` and the provider's name:
    /// `http://127.0.0.1:7421/callback/team.tasks`.
    #[serde(default)]
    pub redirect_url: Option<String>,
}

impl Settings {
    /// Checks the settings against each other.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn check(&self) -> Result<(), String> {
        if self.client_id.is_empty() {
            return Err("oauth.client_id must not be empty".to_owned());
        }
        self.hosts()?.admit(&self.authorize_url).map_err(|why| format!("oauth.authorize_url: {why}"))?;
        let asked = [("token_url", Some(&self.token_url)), ("device_url", self.device_url.as_ref())];
        for (key, url) in asked.into_iter().filter_map(|(key, url)| Some((key, url?))) {
            let own = host(url).and_then(|host| Hosts::new(&[host]).ok());
            let own = own.ok_or_else(|| format!("oauth.{key}: the value is not a URL"))?;
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
        let host = host(&self.authorize_url).ok_or("oauth.authorize_url: the value is not a URL")?;
        let all: Vec<String> = self.auth_hosts.iter().cloned().chain([host]).collect();
        Hosts::new(&all).map_err(|why| format!("oauth.{why}"))
    }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}
