//! The settings of a Loki server in the configuration.

use super::Server;
use crate::format::Format;
use crate::{CloudLogsError, Parts};
use http::HeaderValue;
use provider::remote;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// The settings of a Loki server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LokiSettings {
    /// The name of the server in the configuration: `prod`. No other has the same.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9-]+$"))]
    pub name: String,
    /// The address: `https://logs.example.com`. Plain `http` is valid for loopback addresses only.
    pub url: String,
    /// The label whose values are the services; `service_name`, unless set.
    #[serde(default = "service_label")]
    pub service_label: String,
    /// The labels that a stream must have: `{ env = "prod" }`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The tenant, for a server with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The user name. Without one, the password is a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The source of the password or token; without one, the broker does not sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// The format of the lines.
    #[serde(default)]
    pub format: Format,
}

fn service_label() -> String {
    "service_name".to_owned()
}

impl LokiSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`CloudLogsError::Server`].
    pub(crate) fn check(&self) -> Result<Url, CloudLogsError> {
        let fault = |fault: &'static str| self.fault(fault);
        crate::check_name(&self.name).map_err(fault)?;
        let is_label = |label: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !label.is_empty() && label.chars().all(is_part) && !label.starts_with(|c: char| c.is_ascii_digit())
        };
        if !self.labels.keys().chain([&self.service_label]).all(|label| is_label(label)) {
            return Err(fault("service_label, labels: a label has letters, digits and underscores"));
        }
        if self.username.as_ref().is_some_and(|name| !remote::is_username(name)) {
            return Err(fault("username: must be one line of text without a colon"));
        }
        remote::address(&self.url).map_err(fault)
    }

    pub(crate) fn open(self, parts: &Parts<'_>) -> Result<Server, CloudLogsError> {
        let url = self.check()?;
        let unfit = self.fault("tenant: must be one line of text");
        let Self { name, service_label, labels, tenant, password, format, .. } = self;
        let tenant = tenant.map(|tenant| HeaderValue::from_str(&tenant)).transpose();
        let tenant = tenant.map_err(|_bad| unfit)?;
        let (http, clock) = (Arc::clone(parts.http), Arc::clone(parts.clock));
        let needs_credential = password.is_some();
        Ok(Server { name, url, service_label, labels, tenant, needs_credential, format, http, clock })
    }

    fn fault(&self, fault: &'static str) -> CloudLogsError {
        CloudLogsError::Server { kind: "loki", name: self.name.clone(), fault }
    }
}
