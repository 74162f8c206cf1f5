//! The content inspection of results: `[inspection]`.

use model::Treatment;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The content inspection of results before an agent reads them.
///
/// ```toml
/// [inspection]
/// suspicious = "annotate"
/// hostile = "withhold"
///
/// [inspection.classifier]
/// command = ["/usr/local/bin/classifier"]
/// providers = ["github"]
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InspectionTable {
    /// The treatment of results with the verdict `suspicious`.
    pub suspicious: Treatment,
    /// The treatment of results with the verdict `hostile`.
    pub hostile: Treatment,
    /// The operator's own classifier; its verdict can only make the treatment stricter.
    pub classifier: Option<ClassifierTable>,
}

impl Default for InspectionTable {
    fn default() -> Self {
        Self { suspicious: Treatment::Annotate, hostile: Treatment::Withhold, classifier: None }
    }
}

/// The operator's own classifier: a program, or a chat endpoint that is compatible with `OpenAI`.
///
/// The broker redacts its own secrets and other credentials from each text before it sends the text. A failure, a
/// timeout or an invalid verdict counts as `suspicious`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassifierTable {
    /// The program and its arguments. It reads `{"provider", "action", "data"}` as one line and writes `{"verdict":
    /// "clean" | "suspicious" | "hostile"}`. Other members are ignored.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// The chat endpoint, such as `http://127.0.0.1:8080/v1/chat/completions`.
    #[serde(default)]
    pub url: Option<String>,
    /// The model that the endpoint uses; required with `url`.
    #[serde(default)]
    pub model: Option<String>,
    /// The secret that authenticates the broker at the endpoint.
    #[serde(default)]
    pub token: Option<SecretSource>,
    /// The timeout of one classification, in milliseconds: 100 to 30000.
    #[serde(default = "five_seconds")]
    pub timeout_ms: u64,
    /// The providers whose results are classified; absent means all providers.
    #[serde(default)]
    pub providers: Option<Vec<Provider>>,
}

fn five_seconds() -> u64 {
    5_000
}

/// The name of the classifier's token among the secrets.
pub const CLASSIFIER_TOKEN: &str = "inspection.classifier.token";

impl ClassifierTable {
    /// Returns the timeout of one classification.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Returns why its program cannot run, if that can be seen; `inspection.classifier.command: /x is not there`.
    pub fn fault(&self) -> Option<String> {
        let program = Path::new(self.command.as_ref()?.first()?);
        let place = format!("inspection.classifier.command: {}", program.display());
        // A plain name is looked up on the daemon's path, which is not this command's path.
        if !program.is_absolute() {
            return None;
        }
        match std::fs::metadata(program) {
            Err(error) => Some(format!("{place} cannot be run: {error}")),
            Ok(found) if !found.is_file() => Some(format!("{place} is not a file")),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Some(format!("{place} is not executable")),
            Ok(_) => None,
        }
    }
}

impl InspectionTable {
    /// Checks whether the values fit each other.
    ///
    /// # Errors
    /// The error, its place, and the remedy.
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(classifier) = &self.classifier else { return Ok(()) };
        match (&classifier.command, &classifier.url) {
            (Some(_), Some(_)) => {
                Err("inspection.classifier: command and url exclude each other; remove one".to_owned())
            }
            (None, None) => {
                Err("inspection.classifier: neither command nor url is set; add command = [\"…\"] or url = \"…\""
                    .to_owned())
            }
            (Some(command), None) if command.is_empty() => {
                Err("inspection.classifier.command is empty; add a program".to_owned())
            }
            (Some(_), None) if classifier.model.is_some() || classifier.token.is_some() => {
                Err("inspection.classifier: model and token need url; remove them".to_owned())
            }
            (None, Some(_)) if classifier.model.is_none() => {
                Err("inspection.classifier.model is missing; add the model that the endpoint uses".to_owned())
            }
            (None, Some(url)) if !is_address(url) => Err(
                "inspection.classifier.url: the value is not a URL or contains a password; use http://… or https://…"
                    .to_owned(),
            ),
            (Some(_), None) | (None, Some(_)) if !(100..=30_000).contains(&classifier.timeout_ms) => {
                Err("inspection.classifier.timeout_ms must be 100 to 30000".to_owned())
            }
            (Some(_), None) | (None, Some(_)) => Ok(()),
        }
    }
}

fn is_address(url: &str) -> bool {
    url.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    })
}
