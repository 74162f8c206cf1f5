//! A provider by script: for people who develop against the shim, and for tests with an effect that can be counted.
//!
//! ```toml
//! [actions.echo]
//! level = 1
//! reply = "$params"
//!
//! [actions.charge]
//! level = 2
//! append_to = "charges.log"   # one line for each execution: the request id
//! lose_reply = true           # the effect happens, the answer is lost
//! probe = true                # whether it happened can be looked up in that file
//! ```

use jsonschema::Validator;
use model::{Declaration, EffectMarker, Exposes, Exposure, ParamError, Tier};
use provider::child;
use provider::contract::{
    Execution, Failure, Guard, Invocation, Operation, Probed, Running, Success, UsedAccount, unprepared,
};
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::native::faults;
use provider::table;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::numbers::counted;
use shared::{Action, Level, Provider, Timestamp};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The settings of the mock provider.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The path of the script, relative to the home.
    pub script: PathBuf,
}

/// The kind `mock`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("mock");

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::new()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        vec![&self.script]
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let operations = operations(name, &deps.home.path().join(&self.script)).map_err(|error| error.to_string())?;
        Ok(vec![BuiltProvider::new(name, operations)])
    }
}

/// The whole script.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The actions by name.
    #[serde(default)]
    pub actions: BTreeMap<Action, Scripted>,
}

/// One scripted action.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a script, each off unless it is written")]
pub struct Scripted {
    /// The level it demands.
    pub level: Level,
    /// The description of the action.
    pub description: Option<String>,
    /// The schema of its parameters; any object if absent.
    pub input_schema: Option<Value>,
    /// The schema of its result.
    pub output_schema: Option<Value>,
    /// The answer; `"$params"` stands for the parameters.
    pub reply: Option<Value>,
    /// How long it takes, in milliseconds.
    pub latency_ms: Option<u64>,
    /// The parameter that says how long it takes, in milliseconds.
    pub latency_param: Option<String>,
    /// It fails with this text, before any effect.
    pub fail: Option<String>,
    /// It cannot be reached, which is its own fault.
    #[serde(default)]
    pub down: bool,
    /// Each execution appends a line with the request id to this file.
    pub append_to: Option<PathBuf>,
    /// The effect happens, and its answer is lost.
    #[serde(default)]
    pub lose_reply: bool,
    /// Whether repeating it does no harm.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether `append_to` can be asked what became of a lost answer.
    #[serde(default)]
    pub probe: bool,
    /// It demands a person's agreement.
    #[serde(default)]
    pub human: bool,
    /// The exposure: of `untrusted`, `sensitive`, `egress`. Absent means all three.
    pub exposes: Option<Vec<Exposes>>,
    /// The parameters that may vary under a standing approval.
    #[serde(default)]
    pub may_vary: Vec<String>,
}

/// The script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("cannot read the script {path}")]
    Read {
        /// The script.
        path: PathBuf,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// It is not a script.
    #[error("the script {path} is wrong: {fault}")]
    Parse {
        /// The script.
        path: PathBuf,
        /// The fault, and its place.
        fault: String,
    },
    /// A schema in it is not one.
    #[error("action `{action}`: its input_schema is not a JSON Schema: {fault}")]
    Schema {
        /// The action.
        action: Action,
        /// The fault.
        fault: String,
    },
}

/// Reads a script and makes its actions.
///
/// # Errors
/// [`ScriptError`].
pub fn operations(provider: &Provider, path: &Path) -> Result<Vec<Arc<dyn Operation>>, ScriptError> {
    let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read { path: path.into(), source })?;
    let script: Script =
        toml::from_str(&text).map_err(|error| ScriptError::Parse { path: path.into(), fault: error.to_string() })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    script.actions.into_iter().map(|(action, scripted)| operation(provider, action, scripted, folder)).collect()
}

fn operation(
    provider: &Provider,
    action: Action,
    mut scripted: Scripted,
    folder: &Path,
) -> Result<Arc<dyn Operation>, ScriptError> {
    let input_schema = scripted.input_schema.take().unwrap_or_else(|| json!({ "type": "object" }));
    let validator = jsonschema::options()
        .build(&input_schema)
        .map_err(|error| ScriptError::Schema { action: action.clone(), fault: error.to_string() })?;
    scripted.append_to = scripted.append_to.map(|path| folder.join(path));
    let declaration = Declaration {
        provider: provider.clone(),
        action,
        level: scripted.level,
        tier: scripted.human.then_some(Tier::Human),
        description: scripted.description.clone().unwrap_or_else(|| "A scripted action.".to_owned()),
        input_schema,
        output_schema: scripted.output_schema.clone(),
        idempotent: scripted.idempotent,
        exposes: scripted.exposes.as_deref().map_or(Exposure::ALL, Exposes::all),
        destinations: None,
        deadline: None,
        proposes: false,
        verbatim: false,
        reveals: false,
        chat_types: Vec::new(),
        needs_account: false,
        may_vary: scripted.may_vary.clone(),
    };
    Ok(Arc::new(Mock { declaration, validator, scripted: Arc::new(scripted) }))
}

struct Mock {
    declaration: Declaration,
    validator: Validator,
    scripted: Arc<Scripted>,
}

struct MockCall {
    name: Action,
    params: Map<String, Value>,
    scripted: Arc<Scripted>,
}

impl Operation for Mock {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        let faults = faults(&self.validator, &Value::Object(params.clone()));
        if !faults.is_empty() {
            return Err(faults);
        }
        let name = self.declaration.action.clone();
        Ok(Box::new(MockCall { name, params: params.clone(), scripted: Arc::clone(&self.scripted) }))
    }

    fn probe(
        &self,
        handle: Value,
        _account: Option<UsedAccount>,
        _execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        let scripted = Arc::clone(&self.scripted);
        Box::pin(async move { look_up(&scripted, &handle) })
    }
}

/// Checks whether the request's line is in the file.
fn look_up(scripted: &Scripted, handle: &Value) -> Result<Probed, Failure> {
    let (Some(path), Some(id)) = (&scripted.append_to, handle.as_str()) else {
        return Ok(Probed::State { message: "the script names no file to look into".into() });
    };
    let mut text = String::new();
    match std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) if text.lines().any(|line| line == id) => {
            Ok(Probed::Happened(Success::new(json!({ "found": true }), "The effect happened.".into())))
        }
        Ok(_) => Ok(Probed::Absent { message: "no line with the request id".into() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Probed::Absent { message: "no such file yet".into() })
        }
        Err(error) => Err(Failure::Refused { message: error.to_string() }),
    }
}

impl Invocation for MockCall {
    fn level(&self) -> Level {
        self.scripted.level
    }

    fn summary(&self) -> String {
        format!("{} with {}", self.name, counted(self.params.len(), "parameter", "parameters"))
    }

    fn guard(&self, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn prepare(self: Box<Self>, _execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        unprepared(self)
    }

    fn probe_handle(&self, planted: &EffectMarker) -> Option<Value> {
        self.scripted.probe.then(|| planted.request_id.as_str().into())
    }

    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>> {
        Box::pin(async move {
            if let Some(latency) = self.latency() {
                tokio::time::sleep(latency).await;
            }
            if self.scripted.down {
                return Err(Failure::Unavailable { message: "nobody answers".into() });
            }
            if let Some(text) = &self.scripted.fail {
                return Err(Failure::Refused { message: text.clone() });
            }
            if let Some(path) = &self.scripted.append_to {
                append(path.clone(), execution.request_id().as_str().to_owned()).await?;
            }
            if self.scripted.lose_reply {
                return Err(Failure::Unknown { message: "the answer was lost".into() });
            }
            let summary = format!("{} answered", self.name);
            let data = match &self.scripted.reply {
                Some(Value::String(text)) if text == "$params" => Value::Object(self.params),
                Some(reply) => reply.clone(),
                None => json!({ "ok": true }),
            };
            Ok(Success::new(data, summary))
        })
    }
}

impl MockCall {
    fn latency(&self) -> Option<Duration> {
        let said = self.scripted.latency_param.as_ref().and_then(|name| self.params.get(name)).and_then(Value::as_u64);
        said.or(self.scripted.latency_ms).map(Duration::from_millis)
    }
}

/// Appends one line, in one write: two executions at once do not mix.
///
/// It does not run on the caller's thread: a path may be a pipe without a reader.
async fn append(path: PathBuf, id: String) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::Refused { message: format!("the effect could not be counted: {error}") };
    let append = move || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{id}\n").as_bytes())
    };
    match tokio::task::spawn_blocking(append).await {
        Ok(done) => done.map_err(failed),
        Err(_gone) => Err(Failure::Unknown { message: "the provider failed inside".into() }),
    }
}
