//! Flows: pieces of work, step by step, in the form that their authors, approvers and workers share.
//!
//! A [`Bundle`] is a flow with its steps in one document, for proposal, import and export. A parsed bundle fits its
//! types; [`Bundle::faults`] returns its other faults.
//!
//! ```
//! let bundle: shared::flow::Bundle = serde_json::from_str(r#"{
//!   "flow": { "schema": "knowtation.flow/v0", "flow_id": "flow_triage", "title": "Triage", "version": "1.0.0",
//!     "scope": "project", "summary": "Look at what is new.", "steps": ["flow_triage#1"],
//!     "updated": "2026-02-14T10:00:00Z", "truncated": false },
//!   "steps": [{ "schema": "knowtation.flow_step/v0", "step_id": "flow_triage#1", "flow_id": "flow_triage", "ordinal": 1,
//!     "owned_job": "Read", "instruction": "Read the new issues.", "trigger": "Every morning.",
//!     "when_not_to_run": "On holidays.", "boundaries": [], "output_shape": "A list.",
//!     "skill_refs": [{ "kind": "external_tool", "id": "list_issues" }],
//!     "verification": { "kind": "human_review", "evidence_required": true, "description": "Somebody has read it." },
//!     "automatable": "manual" }] }"#).unwrap();
//! assert!(bundle.faults().is_empty());
//! assert_eq!(bundle.external_tools().next().unwrap().as_str(), "list_issues");
//! ```
//!
//! Source: flow-external-agent-gate, "Objects", and the flow schema `knowtation.flow/v0` that it builds on.

pub mod operations;
pub mod request;

use crate::names::{Grammar, Name};
use crate::numbers::counted;
use crate::time::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use semver::Version as Semver;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How many steps a flow can have.
pub const STEPS_MAX: usize = 200;
/// How long a text of a step can be, in bytes.
pub const TEXT_MAX: usize = 16 * 1024;
/// How long a title can be, in bytes.
pub const TITLE_MAX: usize = 200;
/// How long a summary can be, in bytes.
pub const SUMMARY_MAX: usize = 4 * 1024;
/// How many entries a list of a flow or a step can have.
pub const LIST_MAX: usize = 64;
/// How long a bundle can be as JSON, in bytes: it fits into one reply.
pub const BUNDLE_MAX: usize = 192 * 1024;

/// A flow's name: `flow_weekly_review`.
pub type Id = Name<IdGrammar>;
/// A step's name: `flow_weekly_review#1`.
pub type StepId = Name<StepIdGrammar>;
/// A tool, a skill, a file or an artifact, by a name that says nothing here: `web_search`.
pub type Opaque = Name<OpaqueGrammar>;
/// An agent's external grant: `fgrnt_3f9a0c1d2e4b5a69`.
pub type GrantId = Name<GrantIdGrammar>;
/// Where flows are kept apart: `default`.
pub type Vault = Name<VaultGrammar>;

/// Grammar of [`Id`].
#[derive(Debug)]
pub struct IdGrammar;
/// Grammar of [`StepId`].
#[derive(Debug)]
pub struct StepIdGrammar;
/// Grammar of [`Opaque`].
#[derive(Debug)]
pub struct OpaqueGrammar;
/// Grammar of [`GrantId`].
#[derive(Debug)]
pub struct GrantIdGrammar;
/// Grammar of [`Vault`].
#[derive(Debug)]
pub struct VaultGrammar;

impl Grammar for IdGrammar {
    const WHAT: &'static str = "flow_id";
    const PATTERN: &'static str = "^flow_[a-z0-9_]{1,64}$";
    fn accepts(text: &str) -> bool {
        text.strip_prefix("flow_").is_some_and(|rest| {
            (1..=64).contains(&rest.len())
                && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
    }
}

impl Grammar for StepIdGrammar {
    const WHAT: &'static str = "step_id";
    const PATTERN: &'static str = "^flow_[a-z0-9_]{1,64}#[1-9][0-9]{0,2}$";
    fn accepts(text: &str) -> bool {
        text.split_once('#').is_some_and(|(flow, ordinal)| {
            IdGrammar::accepts(flow)
                && (1..=3).contains(&ordinal.len())
                && !ordinal.starts_with('0')
                && ordinal.bytes().all(|b| b.is_ascii_digit())
        })
    }
}

impl Grammar for OpaqueGrammar {
    const WHAT: &'static str = "id";
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 128
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/@-".contains(&b))
    }
}

impl Grammar for GrantIdGrammar {
    const WHAT: &'static str = "grant_id";
    const PATTERN: &'static str = "^fgrnt_[a-z0-9_]{8,48}$";
    fn accepts(text: &str) -> bool {
        text.strip_prefix("fgrnt_").is_some_and(|rest| {
            (8..=48).contains(&rest.len())
                && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
    }
}

impl Grammar for VaultGrammar {
    const WHAT: &'static str = "vault_id";
    const PATTERN: &'static str = "^[a-z0-9][a-z0-9_-]{0,63}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 64
            && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
    }
}

/// A version, by Semantic Versioning 2.0.0; build metadata says nothing about which is newer, and is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Semver);

/// How long a version can be.
const VERSION_MAX: usize = 64;
/// The pattern of a version, from Semantic Versioning 2.0.0; its numbers are bounded here.
const VERSION_PATTERN: &str = "^(0|[1-9][0-9]{0,17})\\.(0|[1-9][0-9]{0,17})\\.(0|[1-9][0-9]{0,17})\
    (-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?$";

impl FromStr for Version {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = Semver::parse(text).ok().filter(|version| text.len() <= VERSION_MAX && version.build.is_empty());
        parsed.map(Self).ok_or("not a version such as 1.2.0")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": VERSION_PATTERN, "maxLength": VERSION_MAX,
            "description": "a version such as 1.2.0",
        })
    }
}

/// The word that says what a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FlowSchema {
    /// A flow.
    #[serde(rename = "knowtation.flow/v0")]
    V0,
}

/// The word that says what a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepSchema {
    /// A step.
    #[serde(rename = "knowtation.flow_step/v0")]
    V0,
}

/// The owner of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One person's.
    Personal,
    /// A project's.
    Project,
    /// Everybody's.
    Org,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Personal, Self::Project, Self::Org];

    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Personal => "personal",
            Self::Project => "project",
            Self::Org => "org",
        }
    }
}

/// A flow, without its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The kind of this document.
    pub schema: FlowSchema,
    /// Its name.
    pub flow_id: Id,
    /// The name that people use.
    pub title: String,
    /// Which version of it this is.
    pub version: Version,
    /// The owner.
    pub scope: Scope,
    /// The purpose.
    pub summary: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its steps, in order.
    pub steps: Vec<StepId>,
    /// The inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// When it was last written.
    pub updated: Timestamp,
    /// Whether something of it was left out; such a flow is only to look at.
    pub truncated: bool,
}

/// An input of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// The type: `string`, `url`.
    pub r#type: String,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
}

/// One step of a flow. What it says is for its reader; nothing of it is ever run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The kind of this document.
    pub schema: StepSchema,
    /// Its name: the flow's, `#`, and where it stands.
    pub step_id: StepId,
    /// The owner.
    pub flow_id: Id,
    /// Where it stands, from 1.
    pub ordinal: usize,
    /// The job of this step alone.
    pub owned_job: String,
    /// The instruction.
    pub instruction: String,
    /// When it begins.
    pub trigger: String,
    /// When it must not.
    pub when_not_to_run: String,
    /// The requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// Prohibitions.
    #[serde(default)]
    pub boundaries: Vec<String>,
    /// The skills and tools of the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_refs: Vec<SkillRef>,
    /// The inputs and their sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<StepInput>,
    /// The outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// The form of the output.
    pub output_shape: String,
    /// How anybody can tell that it is done.
    pub verification: Verification,
    /// The possible executor. Nothing is run by itself, for any value.
    pub automatable: Automatable,
}

/// A requirement of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The kind of the requirement.
    pub kind: RequirementKind,
    /// Which.
    pub id: Opaque,
}

/// The kind of a requirement of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequirementKind {
    /// A scope of the vault.
    VaultScope,
    /// A tool.
    Tool,
    /// A file.
    File,
    /// An output of another step.
    Artifact,
}

/// A skill or tool of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillRef {
    /// The kind of the skill or tool.
    pub kind: SkillKind,
    /// Which.
    pub id: Opaque,
}

/// The kind of a skill or tool of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// A prompt of an MCP server.
    McpPrompt,
    /// A pack of skills.
    SkillPack,
    /// A command.
    Cli,
    /// A tool that an external agent can be given for a while.
    ExternalTool,
}

/// An input of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepInput {
    /// Its name.
    pub name: String,
    /// Whence: an input of the flow, or an output of a step.
    pub from: String,
}

/// An output of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// The type.
    pub r#type: String,
}

/// How anybody can tell that a step is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// In which way.
    pub kind: VerificationKind,
    /// Whether something must be shown.
    pub evidence_required: bool,
    /// In words.
    pub description: String,
}

/// In which way a step is seen to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerificationKind {
    /// Somebody looks.
    HumanReview,
    /// Something is there.
    ArtifactExists,
    /// A value is as it should be.
    ValueMatch,
    /// A test passes.
    TestPass,
    /// An agent looks.
    AgentCheck,
}

/// The possible executor of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Automatable {
    /// A person.
    Manual,
    /// A person with an agent.
    AgentAssisted,
    /// Anybody.
    Automatable,
}

/// A flow with its steps: what is proposed, imported and exported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The flow.
    pub flow: Flow,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// A fault in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where: a JSON pointer (RFC 6901) into the bundle.
    pub pointer: String,
    /// The fault, without a period.
    pub fault: String,
}

impl Bundle {
    /// The tools that its steps name for external agents, each once, in the order of their names.
    pub fn external_tools(&self) -> impl Iterator<Item = &Opaque> {
        let refs = self.steps.iter().flat_map(|step| &step.skill_refs);
        let tools = refs.filter(|skill| skill.kind == SkillKind::ExternalTool).map(|skill| &skill.id);
        tools.collect::<BTreeSet<_>>().into_iter()
    }

    /// Everything that cannot be so, though each member has its type.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults(Vec::new());
        let Self { flow, steps } = self;
        faults.text("/flow/title", &flow.title, TITLE_MAX, Lines::One);
        faults.text("/flow/summary", &flow.summary, SUMMARY_MAX, Lines::Many);
        faults.list("/flow/tags", flow.tags.len(), LIST_MAX);
        for (at, tag) in flow.tags.iter().enumerate() {
            faults.text(&format!("/flow/tags/{at}"), tag, TITLE_MAX, Lines::One);
        }
        faults.list("/flow/inputs", flow.inputs.len(), LIST_MAX);
        for (at, input) in flow.inputs.iter().enumerate() {
            faults.text(&format!("/flow/inputs/{at}/name"), &input.name, TITLE_MAX, Lines::One);
            faults.text(&format!("/flow/inputs/{at}/type"), &input.r#type, TITLE_MAX, Lines::One);
        }
        if flow.truncated {
            faults.add("/flow/truncated", "something of it was left out, so it is no whole flow");
        }
        if steps.is_empty() {
            faults.add("/steps", "a flow has at least one step");
        }
        faults.list("/steps", steps.len(), STEPS_MAX);
        if flow.steps.len() != steps.len() {
            let (named, found) = (counted(flow.steps.len(), "step", "steps"), steps.len());
            faults.add("/flow/steps", format!("it names {named}, and there are {found}"));
        }
        for (at, step) in steps.iter().enumerate() {
            faults.step(flow, at, step);
        }
        faults.0
    }
}

/// Whether a text may have several lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    One,
    Many,
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, pointer: &str, fault: impl Into<String>) {
        self.0.push(Fault { pointer: pointer.to_owned(), fault: fault.into() });
    }

    fn list(&mut self, pointer: &str, length: usize, most: usize) {
        if length > most {
            self.add(pointer, format!("it has more than {most} entries"));
        }
    }

    fn text(&mut self, pointer: &str, text: &str, most: usize, lines: Lines) {
        let is_control = |c: char| c.is_control() && !(lines == Lines::Many && matches!(c, '\n' | '\t'));
        if text.trim().is_empty() {
            self.add(pointer, "it is empty");
        } else if text.len() > most {
            self.add(pointer, format!("it is longer than {most} bytes"));
        } else if text.chars().any(is_control) {
            self.add(pointer, "it has control characters");
        }
    }

    fn step(&mut self, flow: &Flow, at: usize, step: &Step) {
        let place = |member: &str| format!("/steps/{at}/{member}");
        if step.flow_id != flow.flow_id {
            self.add(&place("flow_id"), "it is another flow's");
        }
        let ordinal = at + 1;
        if step.ordinal != ordinal {
            self.add(&place("ordinal"), format!("it stands at {ordinal}"));
        }
        let name = format!("{}#{ordinal}", flow.flow_id);
        if step.step_id.as_str() != name {
            self.add(&place("step_id"), format!("it must be {name}"));
        }
        if flow.steps.get(at).is_some_and(|listed| *listed != step.step_id) {
            self.add(&format!("/flow/steps/{at}"), "it is not the step that stands there");
        }
        for (member, text) in [
            ("owned_job", &step.owned_job),
            ("instruction", &step.instruction),
            ("trigger", &step.trigger),
            ("when_not_to_run", &step.when_not_to_run),
            ("output_shape", &step.output_shape),
            ("verification/description", &step.verification.description),
        ] {
            self.text(&place(member), text, TEXT_MAX, Lines::Many);
        }
        for (member, length) in [
            ("requires", step.requires.len()),
            ("boundaries", step.boundaries.len()),
            ("skill_refs", step.skill_refs.len()),
            ("inputs", step.inputs.len()),
            ("outputs", step.outputs.len()),
        ] {
            self.list(&place(member), length, LIST_MAX);
        }
        for (number, boundary) in step.boundaries.iter().enumerate() {
            self.text(&place(&format!("boundaries/{number}")), boundary, TEXT_MAX, Lines::Many);
        }
        for (number, input) in step.inputs.iter().enumerate() {
            self.text(&place(&format!("inputs/{number}/name")), &input.name, TITLE_MAX, Lines::One);
            self.text(&place(&format!("inputs/{number}/from")), &input.from, TITLE_MAX, Lines::One);
        }
        for (number, output) in step.outputs.iter().enumerate() {
            self.text(&place(&format!("outputs/{number}/name")), &output.name, TITLE_MAX, Lines::One);
            self.text(&place(&format!("outputs/{number}/type")), &output.r#type, TITLE_MAX, Lines::One);
        }
        let once = step.skill_refs.iter().collect::<BTreeSet<_>>().len() == step.skill_refs.len();
        if !once {
            self.add(&place("skill_refs"), "it names something twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A flow of so many steps.
    fn bundle(steps: usize) -> Value {
        let step = |ordinal: usize| {
            json!({
                "schema": "knowtation.flow_step/v0", "step_id": format!("flow_x#{ordinal}"), "flow_id": "flow_x",
                "ordinal": ordinal, "owned_job": "a", "instruction": "b\nc", "trigger": "d", "when_not_to_run": "e",
                "boundaries": ["f"], "output_shape": "g", "automatable": "manual",
                "verification": { "kind": "test_pass", "evidence_required": false, "description": "h" },
            })
        };
        let names: Vec<String> = (1..=steps).map(|ordinal| format!("flow_x#{ordinal}")).collect();
        json!({
            "flow": { "schema": "knowtation.flow/v0", "flow_id": "flow_x", "title": "X", "version": "1.0.0",
                      "scope": "org", "summary": "y", "steps": names, "updated": "2026-02-14T10:00:00.000Z",
                      "truncated": false },
            "steps": (1..=steps).map(step).collect::<Vec<_>>(),
        })
    }

    fn faults(value: Value) -> Vec<String> {
        let bundle: Bundle = serde_json::from_value(value).unwrap();
        bundle.faults().into_iter().map(|fault| format!("{} {}", fault.pointer, fault.fault)).collect()
    }

    #[test]
    fn a_parsed_and_rewritten_bundle_means_the_same() {
        let mut whole = bundle(2);
        whole["flow"]["tags"] = json!(["daily"]);
        whole["flow"]["inputs"] = json!([{ "name": "since", "type": "string", "required": true }]);
        whole["steps"][0]["requires"] = json!([{ "kind": "vault_scope", "id": "notes" }]);
        whole["steps"][0]["skill_refs"] = json!([{ "kind": "external_tool", "id": "web_search" }]);
        whole["steps"][0]["outputs"] = json!([{ "name": "found", "type": "list" }]);
        whole["steps"][1]["inputs"] = json!([{ "name": "found", "from": "flow_x#1.found" }]);
        let parsed: Bundle = serde_json::from_value(whole.clone()).unwrap();
        assert_eq!(parsed.faults(), []);
        assert_eq!(serde_json::to_value(&parsed).unwrap(), whole);
    }

    #[test]
    fn a_step_without_what_makes_it_one_is_none() {
        for member in ["trigger", "when_not_to_run", "output_shape", "verification", "instruction", "owned_job"] {
            let mut without = bundle(1);
            without["steps"][0].as_object_mut().unwrap().remove(member);
            let error = serde_json::from_value::<Bundle>(without).unwrap_err().to_string();
            assert!(error.contains(member), "{error}");
        }
        let mut more = bundle(1);
        more["steps"][0]["run"] = json!("rm -rf /");
        assert!(serde_json::from_value::<Bundle>(more).is_err(), "what nobody knows is refused");
    }

    #[test]
    fn everything_that_cannot_be_so_is_said_with_its_place() {
        assert_eq!(faults(bundle(0)), ["/steps a flow has at least one step"]);
        assert_eq!(faults(bundle(STEPS_MAX)), Vec::<String>::new());
        assert_eq!(faults(bundle(STEPS_MAX + 1)), [format!("/steps it has more than {STEPS_MAX} entries")]);
        let mut odd = bundle(3);
        odd["flow"]["truncated"] = json!(true);
        odd["flow"]["title"] = json!("two\nlines");
        odd["flow"]["steps"] = json!(["flow_x#2", "flow_x#1"]);
        odd["steps"][1]["trigger"] = json!(" ");
        odd["steps"][1]["instruction"] = json!("x".repeat(TEXT_MAX + 1));
        odd["steps"][2]["ordinal"] = json!(2);
        odd["steps"][2]["step_id"] = json!("flow_x#2");
        odd["steps"][2]["flow_id"] = json!("flow_y");
        let twice = json!({ "kind": "cli", "id": "git" });
        odd["steps"][2]["skill_refs"] = json!([twice, twice]);
        assert_eq!(
            faults(odd),
            [
                "/flow/title it has control characters".to_owned(),
                "/flow/truncated something of it was left out, so it is no whole flow".to_owned(),
                "/flow/steps it names 2 steps, and there are 3".to_owned(),
                "/flow/steps/0 it is not the step that stands there".to_owned(),
                "/flow/steps/1 it is not the step that stands there".to_owned(),
                format!("/steps/1/instruction it is longer than {TEXT_MAX} bytes"),
                "/steps/1/trigger it is empty".to_owned(),
                "/steps/2/flow_id it is another flow's".to_owned(),
                "/steps/2/ordinal it stands at 3".to_owned(),
                "/steps/2/step_id it must be flow_x#3".to_owned(),
                "/steps/2/skill_refs it names something twice".to_owned(),
            ]
        );
    }

    #[test]
    fn names_and_versions_have_their_grammar() {
        for good in ["flow_a", "flow_weekly_review_2"] {
            assert!(good.parse::<Id>().is_ok(), "{good}");
        }
        for bad in ["flow_", "flow_A", "weekly", "flow_a b", &format!("flow_{}", "a".repeat(65))] {
            assert!(bad.parse::<Id>().is_err(), "{bad}");
        }
        for bad in ["flow_a#0", "flow_a#01", "flow_a#", "flow_a#1000", "flow_a#+1", "flow_a"] {
            assert!(bad.parse::<StepId>().is_err(), "{bad}");
        }
        for bad in ["1", "1.2", "v1.2.3", "1.2.3+build", "01.2.3", &format!("1.2.3-{}", "a".repeat(64))] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("1.10.0") > version("1.9.0") && version("1.0.0-rc.1") < version("1.0.0"));
    }
}
