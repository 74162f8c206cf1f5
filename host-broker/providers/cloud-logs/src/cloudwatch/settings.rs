//! The settings of CloudWatch Logs in the configuration.

use super::Region;
use crate::format::Format;
use crate::{CloudLogsError, Parts};
use provider::remote;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use url::Url;

/// The name of the service in signatures.
pub(crate) const SERVICE: &str = "logs";
/// The longest name of a log group.
const GROUP_MAX: usize = 512;

/// The settings of the log groups of one AWS region.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloudWatchSettings {
    /// The name of the region in the configuration: `aws`. No other server has the same.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9-]+$"))]
    pub name: String,
    /// The region: `eu-central-1`.
    pub region: String,
    /// The log groups: `/ecs/web`, or with `*` at the end all that begin so: `/aws/lambda/*`.
    pub groups: Vec<String>,
    /// The id of the access key.
    pub access_key_id: String,
    /// The source of the secret access key.
    pub secret_access_key: SecretSource,
    /// The address, if it is not that of the region: `https://vpce-0a1b.logs.eu-central-1.vpce.amazonaws.com`. Plain `http`
    /// is valid for loopback addresses only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The format of the lines.
    #[serde(default)]
    pub format: Format,
}

/// Log groups in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupPattern {
    /// One.
    Name(String),
    /// All whose names begin so.
    Prefix(String),
}

impl GroupPattern {
    /// Reads a pattern; `None` if it is neither a name nor the beginning of one.
    fn read(text: &str) -> Option<Self> {
        // Source: CloudWatch Logs API Reference, CreateLogGroup.
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/#".contains(c);
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        let fits = name.len() <= GROUP_MAX && name.chars().all(is_part) && (is_prefix || !name.is_empty());
        fits.then(|| if is_prefix { Self::Prefix(name.to_owned()) } else { Self::Name(name.to_owned()) })
    }
}

impl CloudWatchSettings {
    /// Checks the settings. Returns the address and the log groups.
    ///
    /// # Errors
    /// [`CloudLogsError::Server`].
    pub(crate) fn check(&self) -> Result<(Url, Vec<GroupPattern>), CloudLogsError> {
        let fault = |fault: &'static str| CloudLogsError::Server { kind: "cloudwatch", name: self.name.clone(), fault };
        crate::check_name(&self.name).map_err(fault)?;
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !(1..=32).contains(&self.region.len()) || !self.region.chars().all(is_part) {
            return Err(fault("region: is no region; write eu-central-1"));
        }
        let is_id = (16..=128).contains(&self.access_key_id.len());
        if !is_id || !self.access_key_id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) {
            return Err(fault(
                "access_key_id: must have 16 to 128 capital letters and digits, such as AKIAIOSFODNN7EXAMPLE",
            ));
        }
        if self.access_key_id.starts_with("ASIA") {
            return Err(fault("access_key_id: is temporary; use the access key of a user"));
        }
        let groups: Option<Vec<GroupPattern>> = self.groups.iter().map(|text| GroupPattern::read(text)).collect();
        let groups = groups.filter(|groups| !groups.is_empty());
        let groups = groups.ok_or_else(|| fault("groups: must name log groups; `*` is allowed only at the end"))?;
        let of_region = || Some(format!("https://logs.{}.{}/", self.region, domain(&self.region)?));
        let url = self.url.clone().or_else(of_region).ok_or_else(|| fault("url: is required in this region"))?;
        let url = remote::address(&url).map_err(fault)?;
        if url.path() != "/" {
            return Err(fault("url: must have no path"));
        }
        Ok((url, groups))
    }

    pub(crate) fn open(self, parts: &Parts<'_>) -> Result<Region, CloudLogsError> {
        let (url, groups) = self.check()?;
        Ok(Region { name: self.name, url, groups, format: self.format, http: Arc::clone(parts.http) })
    }
}

/// Returns the domain of a region; `None` for isolated and sovereign regions.
fn domain(region: &str) -> Option<&'static str> {
    match region {
        _ if region.starts_with("cn-") => Some("amazonaws.com.cn"),
        _ if region.contains("-iso") || region.starts_with("eusc-") => None,
        _ => Some("amazonaws.com"),
    }
}
