//! Presets: for a common server, the levels of its tools and the settings of its program.
//!
//! One file in `presets/` describes one server. A preset has no secrets and no paths. [`Preset::table`] takes them as
//! the answers to its questions.

use super::settings::safe_address;
use super::tools::ToolTable;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrets::source::SecretSource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use shared::{Action, Provider};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The names of the presets, and their files.
const FILES: [(&str, &str); 16] = [
    ("bank", include_str!("presets/bank.toml")),
    ("bitwarden", include_str!("presets/bitwarden.toml")),
    ("caldav", include_str!("presets/caldav.toml")),
    ("filesystem", include_str!("presets/filesystem.toml")),
    ("git", include_str!("presets/git.toml")),
    ("google-calendar", include_str!("presets/google-calendar.toml")),
    ("linear", include_str!("presets/linear.toml")),
    ("memory", include_str!("presets/memory.toml")),
    ("notion", include_str!("presets/notion.toml")),
    ("payments", include_str!("presets/payments.toml")),
    ("playwright", include_str!("presets/playwright.toml")),
    ("postgres", include_str!("presets/postgres.toml")),
    ("search", include_str!("presets/search.toml")),
    ("slack", include_str!("presets/slack.toml")),
    ("tasks", include_str!("presets/tasks.toml")),
    ("time", include_str!("presets/time.toml")),
];

/// The name of a preset, such as `notion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub struct Preset {
    name: &'static str,
    text: &'static str,
}

/// The description of a server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The server, in a few words.
    pub title: String,
    /// The package that contains the server; `None` if there are several servers with these tools.
    #[serde(default)]
    pub package: Option<Package>,
    /// Whether the server lists its tools only after it has signed in.
    #[serde(default)]
    pub lists_with_secrets: bool,
    /// The lines of the provider's table beside the program, the secrets and the tools.
    #[serde(default)]
    settings: toml::Table,
    /// The questions to the operator, by the name of the answer.
    #[serde(default)]
    pub questions: BTreeMap<String, Question>,
    /// The tools, with their levels.
    #[serde(default)]
    pub tools: BTreeMap<Action, ToolTable>,
}

/// A package in a public registry. The tests run this version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The registry.
    pub registry: Registry,
    /// The name of the package there.
    pub name: String,
    /// The version.
    pub version: String,
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
}

/// A registry of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// <https://www.npmjs.com>.
    Npm,
    /// <https://pypi.org>.
    Pypi,
}

/// A question to the operator.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question, without its mark.
    pub text: String,
    /// Whether the answer is the source of a secret. The program gets it as the variable with the name of the question.
    #[serde(default)]
    pub secret: bool,
    /// The answer if the operator gives none.
    #[serde(default)]
    pub default: Option<String>,
}

/// The answers of the operator, by the name of the question.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// The texts.
    pub texts: BTreeMap<String, String>,
    /// The sources of secrets.
    pub secrets: BTreeMap<String, SecretSource>,
}

impl Preset {
    /// Returns all presets, in the order of their names.
    pub fn all() -> impl Iterator<Item = Self> {
        FILES.into_iter().map(|(name, text)| Self { name, text })
    }

    /// Returns the preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|preset| preset.name == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the description of its server.
    pub fn description(self) -> Description {
        // A test reads each of them. One that could not be read would have no tools.
        toml::from_str(self.text).unwrap_or_default()
    }

    /// Returns the tools, with their levels.
    pub fn tools(self) -> BTreeMap<Action, ToolTable> {
        self.description().tools
    }

    /// Returns the provider's table of `broker.toml` with this preset, for a package in this directory.
    ///
    /// ```toml
    /// command = ["/opt/mcp/notion/node_modules/.bin/notion-mcp-server"]
    /// hosts = ["api.notion.com"]
    /// kind = "mcp"
    /// preset = "notion"
    /// readable = ["/opt/mcp/notion"]
    /// secrets = { NOTION_TOKEN = { file = "/etc/notion/token" } }
    /// ```
    ///
    /// # Errors
    /// One sentence without a period: there is no package, or an answer is missing or wrong.
    pub fn table(self, directory: &Path, answers: &Answers) -> Result<toml::Table, String> {
        let Description { package, settings, questions, .. } = self.description();
        let package = package.ok_or_else(|| format!("the preset {} names no package", self.name))?;
        let program = package.program_in(directory).display().to_string();
        let mut command = vec![toml::Value::String(program)];
        for argument in package.arguments {
            command.push(toml::Value::String(filled(&argument, &answers.texts)?));
        }
        let mut table = toml::Table::new();
        table.insert("kind".to_owned(), "mcp".into());
        table.insert("preset".to_owned(), self.name.into());
        table.insert("command".to_owned(), command.into());
        let mut readable: Vec<toml::Value> = vec![directory.display().to_string().into()];
        for (key, value) in settings {
            match (key.as_str(), filled_in(value, &answers.texts)?) {
                ("readable", toml::Value::Array(more)) => readable.extend(more),
                (_, value) => drop(table.insert(key, value)),
            }
        }
        table.insert("readable".to_owned(), readable.into());
        let mut secrets = toml::Table::new();
        for name in questions.iter().filter(|(_, question)| question.secret).map(|(name, _)| name) {
            let source = answers.secrets.get(name).ok_or_else(|| format!("{name}: the answer is missing"))?;
            secrets.insert(name.clone(), toml::Value::try_from(source).map_err(|error| format!("{name}: {error}"))?);
        }
        if !secrets.is_empty() {
            table.insert("secrets".to_owned(), secrets.into());
        }
        Ok(table)
    }
}

impl Package {
    /// Returns the path of the server's program if the package is installed in this directory.
    pub fn program_in(&self, directory: &Path) -> PathBuf {
        match self.registry {
            Registry::Npm => directory.join("node_modules/.bin"),
            Registry::Pypi => directory.join("bin"),
        }
        .join(&self.program)
    }

    /// Returns the version that is installed in this directory, if it can be found.
    pub fn installed_version(&self, directory: &Path) -> Option<String> {
        match self.registry {
            Registry::Npm => {
                let file = directory.join("node_modules").join(&self.name).join("package.json");
                let package: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
                package.get("version")?.as_str().map(str::to_owned)
            }
            Registry::Pypi => {
                let prefix = format!("{}-", self.name.replace('-', "_"));
                let names = |directory: &Path| -> Vec<PathBuf> {
                    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
                    entries.map(|entry| entry.path()).collect()
                };
                let packages = names(&directory.join("lib")).into_iter().map(|python| python.join("site-packages"));
                packages.flat_map(|packages| names(&packages)).find_map(|path| {
                    let name = path.file_name()?.to_str()?;
                    Some(name.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.to_owned())
                })
            }
        }
    }

    /// Returns the commands that install the package there, each with its arguments. Scripts of npm packages do not run.
    pub fn install(&self, directory: &Path) -> Vec<Vec<String>> {
        let (Self { name, version, .. }, directory) = (self, directory.display().to_string());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self.registry {
            Registry::Npm => {
                vec![words(&[
                    "npm",
                    "install",
                    "--ignore-scripts",
                    "--prefix",
                    &directory,
                    &format!("{name}@{version}"),
                ])]
            }
            Registry::Pypi => vec![
                words(&["python3", "-m", "venv", &directory]),
                words(&[&format!("{directory}/bin/pip"), "install", &format!("{name}=={version}")]),
            ],
        }
    }
}

/// Puts the answers into the strings of a value.
fn filled_in(value: toml::Value, answers: &BTreeMap<String, String>) -> Result<toml::Value, String> {
    Ok(match value {
        toml::Value::String(text) => filled(&text, answers)?.into(),
        toml::Value::Array(values) => {
            let mut all = Vec::new();
            for value in values {
                match value.as_str().and_then(|text| text.strip_prefix('{')?.strip_suffix(":list}")) {
                    Some(name) => {
                        let parts = answered(name, answers)?.split(',').map(str::trim);
                        all.extend(parts.filter(|part| !part.is_empty()).map(|part| part.to_owned().into()));
                    }
                    None => all.push(filled_in(value, answers)?),
                }
            }
            all.into()
        }
        toml::Value::Table(table) => {
            let mut filled = toml::Table::new();
            for (key, value) in table {
                filled.insert(key, filled_in(value, answers)?);
            }
            filled.into()
        }
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) | toml::Value::Datetime(_) => value,
    })
}

/// Puts the answers in the place of `{name}`. Text of an answer is not filled again.
///
/// | form | text |
/// | --- | --- |
/// | `{name:host}` | the host of an address |
/// | `{name:parent}` | the directory of a file |
/// | `{name:word}` | an answer that can stand in an address |
/// | `{name:server}` | a host with a port |
fn filled(text: &str, answers: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("`{text}` has an open brace"))?;
        filled.push_str(before);
        match name.split_once(':') {
            Some((name, "host")) => filled.push_str(&host(name, answered(name, answers)?)?),
            Some((name, "parent")) => {
                let parent = Path::new(answered(name, answers)?).parent().unwrap_or(Path::new("/"));
                filled.push_str(&parent.display().to_string());
            }
            Some((name, "word")) => {
                let word = answered(name, answers)?;
                if !word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) {
                    return Err(format!("{name}: `{word}` must have only letters, digits, `_`, `-` and `.`"));
                }
                filled.push_str(word);
            }
            Some((name, "server")) => {
                let server = answered(name, answers)?;
                let port = server.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
                port.ok_or_else(|| format!("{name}: `{server}` needs a port, such as {server}:5432"))?;
                filled.push_str(server);
            }
            Some((_, unknown)) => return Err(format!("`{text}` has an unknown form `{unknown}`")),
            None => filled.push_str(answered(name, answers)?),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn answered<'a>(name: &str, answers: &'a BTreeMap<String, String>) -> Result<&'a str, String> {
    let answer = answers.get(name).map(|answer| answer.trim()).filter(|answer| !answer.is_empty());
    answer.ok_or_else(|| format!("{name}: the answer is missing"))
}

/// Returns the host of an address, with its port unless it is that of HTTPS.
fn host(name: &str, address: &str) -> Result<String, String> {
    let uri = safe_address(name, address)?;
    let host = uri.host().unwrap_or_default();
    Ok(match (uri.scheme_str(), uri.port_u16()) {
        (Some("http"), None) => format!("{host}:80"),
        (_, None) => host.to_owned(),
        (_, Some(port)) => format!("{host}:{port}"),
    })
}

impl TryFrom<String> for Preset {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            format!("there is no preset `{name}`; the presets are {}", names.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl From<Preset> for &'static str {
    fn from(preset: Preset) -> Self {
        preset.name
    }
}

impl JsonSchema for Preset {
    fn schema_name() -> Cow<'static, str> {
        "Preset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::all().map(Self::name).collect();
        json_schema!({ "type": "string", "enum": names, "description": "A predefined set of tools for a common server." })
    }
}

/// Returns the lines of a provider's table, for the end of `broker.toml`.
pub fn lines(name: &Provider, table: &toml::Table) -> String {
    let ordered = ["kind", "preset", "command", "readable"];
    let first = ordered.into_iter().filter_map(|key| Some((key, table.get(key)?)));
    let rest = table.iter().filter(|(key, _)| !ordered.contains(&key.as_str()));
    let lines = first.chain(rest.map(|(key, value)| (key.as_str(), value)));
    let lines: Vec<String> = lines.map(|(key, value)| format!("{key} = {value}\n")).collect();
    // A name with a period is one key.
    let name = if name.is_namespaced() { format!("\"{name}\"") } else { name.to_string() };
    format!("[providers.{name}]\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Tier;
    use shared::Level;

    fn answers(of: &[(&str, &str)]) -> Answers {
        let texts = of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Answers { texts, secrets: BTreeMap::new() }
    }

    #[test]
    fn every_preset_can_be_read_and_answers_fill_its_table() {
        for preset in Preset::all() {
            let Description { package, questions, tools, .. } = preset.description();
            assert!(!tools.is_empty(), "{}", preset.name());
            let Some(package) = package else {
                assert!(preset.table(Path::new("/opt"), &Answers::default()).is_err(), "{}", preset.name());
                continue;
            };
            let mut given = Answers::default();
            for (name, question) in &questions {
                let fault = preset.table(Path::new("/opt"), &given).unwrap_err();
                assert!(fault.contains("the answer is missing"), "{fault}");
                if question.secret {
                    given.secrets.insert(name.clone(), SecretSource::Env { env: "X".to_owned() });
                } else {
                    let text = match name.as_str() {
                        "url" => "https://x.example:8/",
                        "server" => "x.example:8",
                        _ => "word",
                    };
                    given.texts.insert(name.clone(), text.to_owned());
                }
            }
            let table = preset.table(Path::new("/opt"), &given).unwrap();
            // Braces stand around tables, and in no string.
            let strings = serde_json::to_string(&table).unwrap();
            assert!(strings.split('"').skip(1).step_by(2).all(|text| !text.contains('{')), "{strings}");
            let program = table["command"][0].as_str().unwrap();
            assert_eq!(program, package.program_in(Path::new("/opt")).to_str().unwrap());
        }
    }

    #[test]
    fn a_write_that_replaces_or_removes_something_takes_a_person() {
        // They keep what was there, or one can take them back at once.
        let harmless = [
            ("linear", "linear_createProjectUpdate"),
            ("linear", "linear_removeIssueLabel"),
            ("linear", "linear_removeIssueFromProject"),
            ("linear", "linear_removeIssueFromCycle"),
            ("tasks", "update_task"),
        ];
        let words = ["update", "delete", "remove", "archive", "move", "edit", "reset", "transfer", "patch", "charge"];
        for preset in Preset::all() {
            for (tool, table) in preset.tools().iter().filter(|(_, table)| table.level > Level::Read) {
                let name = tool.as_str().to_ascii_lowercase();
                let is_harmless = harmless.contains(&(preset.name(), tool.as_str()))
                    // It appends.
                    || name == "api-patch-block-children";
                let replaces = words.iter().any(|word| name.contains(word)) && !is_harmless;
                assert!(!replaces || table.tier == Some(Tier::Human), "{}.{tool}", preset.name());
            }
        }
        for (preset, tool) in [("bank", "bank_transfer"), ("payments", "create_charge")] {
            let tools = Preset::named(preset).unwrap().tools();
            assert_eq!(tools[&tool.parse::<Action>().unwrap()].level, Level::Production, "{tool}");
        }
    }

    #[test]
    fn an_answer_is_put_in_once_and_an_address_gives_its_host() {
        let given = answers(&[
            ("a", "{b}"),
            ("b", "x"),
            ("url", "https://cal.example.com/dav/"),
            ("list", "a.example, b.example:8,"),
        ]);
        assert_eq!(filled("<{a}>-{b}", &given.texts).unwrap(), "<{b}>-x");
        assert_eq!(filled("{url:host}", &given.texts).unwrap(), "cal.example.com");
        let value = filled_in(vec!["{list:list}", "{b}"].into(), &given.texts).unwrap();
        assert_eq!(value, vec!["a.example", "b.example:8", "x"].into());
        for (address, expected) in [
            ("http://localhost:5232/", Ok("localhost:5232")),
            ("http://localhost/", Ok("localhost:80")),
            ("http://cal.example/", Err(())),
            ("https://ada:pass@cal.example/", Err(())),
            ("https://cal.example:444/", Ok("cal.example:444")),
            ("cal.example", Err(())),
            ("ftp://cal.example/", Err(())),
            ("", Err(())),
        ] {
            let found = filled("{url:host}", &answers(&[("url", address)]).texts);
            assert_eq!(found.as_deref().map_err(|_fault| ()), expected, "{address}");
        }
        assert!(filled("{unknown}", &given.texts).is_err());
        let named = |user| filled("x://{user:word}@y", &answers(&[("user", user)]).texts);
        assert_eq!(named("agent_1").as_deref(), Ok("x://agent_1@y"));
        let at = |server| filled("{server:server}", &answers(&[("server", server)]).texts);
        assert_eq!(at("localhost:5432").as_deref(), Ok("localhost:5432"));
        assert!(["localhost", "localhost:", "localhost:99999"].into_iter().all(|server| at(server).is_err()));
        assert!(["a@b", "a?b", "a/b", "a#b", "a b"].into_iter().all(|user| named(user).is_err()));
    }

    #[test]
    fn the_lines_say_what_the_table_says() {
        let mut given = answers(&[]);
        let file = SecretSource::File { file: "/etc/notion \"token\"".into() };
        given.secrets.insert("NOTION_TOKEN".to_owned(), file);
        let table = Preset::named("notion").unwrap().table(Path::new("/opt/mcp"), &given).unwrap();
        for name in ["notion", "team.notion"] {
            let name: Provider = name.parse().unwrap();
            let read: toml::Table = toml::from_str(&lines(&name, &table)).unwrap();
            assert_eq!(read["providers"][name.as_str()].as_table(), Some(&table));
        }
    }

    #[test]
    fn an_unknown_preset_is_refused_with_those_that_there_are() {
        let refused = Preset::try_from("notoin".to_owned()).unwrap_err();
        assert!(refused.contains("no preset `notoin`") && refused.contains("notion, payments"), "{refused}");
    }
}
