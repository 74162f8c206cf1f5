//! The settings of Google Cloud Logging in the configuration.

use super::account::Account;
use super::pace::Pace;
use super::{REQUESTS_MAX, Server};
use crate::format::Format;
use crate::{CloudLogsError, Parts};
use provider::remote;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use url::Url;

const API_URL: &str = "https://logging.googleapis.com/";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// The settings of the logs of projects of Google Cloud.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoogleSettings {
    /// The name of the projects in the configuration: `gcp`. No other server has the same.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9-]+$"))]
    pub name: String,
    /// The ids of the projects, 1 to 20: `["acme-prod"]`.
    pub projects: Vec<String>,
    /// The address of the service account: `broker@acme-prod.iam.gserviceaccount.com`.
    pub client_email: String,
    /// The source of the private key of the service account, in PEM.
    pub private_key: SecretSource,
    /// The address that issues tokens, if it is not `https://oauth2.googleapis.com/token`. Plain `http` is valid for loopback
    /// addresses only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// The address of the API, if it is not `https://logging.googleapis.com`. Plain `http` is valid for loopback addresses
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The requests for entries within a minute, of the quota of Google: 1 to 6000.
    #[serde(default = "requests_per_minute")]
    #[schemars(range(min = 1, max = 6000))]
    pub requests_per_minute: u32,
    /// The format of texts.
    #[serde(default)]
    pub format: Format,
}

fn requests_per_minute() -> u32 {
    60
}

/// The settings, checked.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) url: Url,
    pub(super) token_url: Url,
}

impl GoogleSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`CloudLogsError::Server`].
    pub(crate) fn check(&self) -> Result<(), CloudLogsError> {
        self.addresses().map(|_| ())
    }

    pub(super) fn addresses(&self) -> Result<Addresses, CloudLogsError> {
        let fault = |fault: &'static str| CloudLogsError::Server { kind: "google", name: self.name.clone(), fault };
        crate::check_name(&self.name).map_err(fault)?;
        if !(1..=REQUESTS_MAX).contains(&self.projects.len()) || !self.projects.iter().all(|id| is_project(id)) {
            return Err(fault("projects: must name 1 to 20 projects by their ids, such as acme-prod"));
        }
        if !(1..=6000).contains(&self.requests_per_minute) {
            return Err(fault("requests_per_minute: must be between 1 and 6000"));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let is_address = self.client_email.split('@').filter(|part| !part.is_empty()).count() == 2
            && self.client_email.len() <= 254
            && self.client_email.chars().all(is_part);
        if !is_address {
            return Err(fault("client_email: is no address; write NAME@PROJECT.iam.gserviceaccount.com"));
        }
        let url = remote::address(self.url.as_deref().unwrap_or(API_URL)).map_err(fault)?;
        if url.path() != "/" {
            return Err(fault("url: must have no path"));
        }
        let unfit = |_| fault("token_url: must be https, without a query; http is for loopback addresses only");
        let token_url = remote::address(self.token_url.as_deref().unwrap_or(TOKEN_URL)).map_err(unfit)?;
        Ok(Addresses { url, token_url })
    }

    /// Returns the service account.
    ///
    /// # Errors
    /// [`CloudLogsError::Server`].
    pub(crate) fn account(&self) -> Result<Account, CloudLogsError> {
        let Addresses { token_url, .. } = self.addresses()?;
        Ok(Account::new(self.client_email.clone(), token_url))
    }

    pub(crate) fn open(self, parts: &Parts<'_>) -> Result<Server, CloudLogsError> {
        let Addresses { url, .. } = self.addresses()?;
        let Self { name, mut projects, requests_per_minute, format, .. } = self;
        projects.sort();
        projects.dedup();
        let (http, clock) = (Arc::clone(parts.http), Arc::clone(parts.clock));
        let pace = Pace::new(usize::try_from(requests_per_minute).unwrap_or(usize::MAX));
        Ok(Server { name, url, projects, format, http, clock, pace })
    }
}

/// Checks the id of a project. Old ones have a domain: `example.com:acme-prod`.
fn is_project(id: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
    (4..=128).contains(&id.len()) && id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(is_part)
}
