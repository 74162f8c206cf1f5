//! `[[sinks]]`: the places that receive every row of the evidence.
//!
//! ```toml
//! [[sinks]]
//! name = "siem"
//! kind = "http"
//! url = "https://siem.example.com/rows"
//! bearer = { file = "/etc/host-broker/siem-token" }
//! ```

use crate::Config;
use crate::channels::{check_name, is_safe};
use platform::delivery::connection::Server;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One sink, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct SinkTable {
    /// Its name.
    pub name: String,
    /// Where the rows go.
    pub target: Target,
    /// Whether the rows are sent with their bodies.
    pub has_bodies: bool,
}

/// Where the rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program with the rows on its standard input.
    Command(Vec<String>),
    /// Requests with the rows as their bodies.
    Http {
        /// The URL.
        url: String,
        /// The bearer token.
        bearer: Option<SecretSource>,
    },
    /// A syslog server.
    Syslog(Server),
    /// A receiver of OpenTelemetry traces.
    Otlp {
        /// The URL.
        url: String,
        /// The bearer token.
        bearer: Option<SecretSource>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Command,
    Http,
    Syslog,
    Otlp,
}

impl Kind {
    /// Returns the word of the file.
    fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Http => "http",
            Self::Syslog => "syslog",
            Self::Otlp => "otlp",
        }
    }
}

/// A place that receives every row of the evidence.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The sink's name: 1 to 64 lower-case letters, digits, `-` and `_`. The broker remembers under this name which rows
    /// were accepted.
    name: String,
    /// The type of the sink: `command`, `http`, `syslog` or `otlp`. A sink of the type `otlp` gets traces that are made
    /// from the rows.
    kind: Kind,
    /// command: the program and its arguments. The program reads one row a line from standard input. It accepts the rows
    /// when it ends with status 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// http, otlp: the URL; https, or http on this machine. The server accepts the rows with a status from 200 to 299. For
    /// otlp it ends with `/v1/traces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// http, otlp: the secret that is sent as a bearer token; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bearer: Option<SecretSource>,
    /// syslog: the host and the port of the server, such as `logs.example.com:6514`. The connection uses TLS, except to
    /// this machine. The server accepts the rows when it closes the connection that the broker has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// command, http, syslog: whether the rows are sent with their bodies. Only rows with bodies can be verified without
    /// the ledger. Absent means yes, and for syslog no, because many servers cut long messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bodies: Option<bool>,
}

impl SinkTable {
    fn kind(&self) -> Kind {
        match self.target {
            Target::Command(_) => Kind::Command,
            Target::Http { .. } => Kind::Http,
            Target::Syslog(_) => Kind::Syslog,
            Target::Otlp { .. } => Kind::Otlp,
        }
    }

    /// Returns its kind, in the file's word.
    pub fn word(&self) -> &'static str {
        self.kind().word()
    }

    /// Returns the source of its secret, if it has one.
    pub fn secret(&self) -> Option<&SecretSource> {
        match &self.target {
            Target::Http { bearer, .. } | Target::Otlp { bearer, .. } => bearer.as_ref(),
            Target::Command(_) | Target::Syslog(_) => None,
        }
    }

    /// Returns the name under which its secret is loaded.
    pub fn secret_name(&self) -> String {
        format!("sinks.{}.bearer", self.name)
    }
}

impl JsonSchema for SinkTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SinkTable".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl From<SinkTable> for Written {
    fn from(table: SinkTable) -> Self {
        let kind = table.kind();
        let bodies = (kind != Kind::Otlp).then_some(table.has_bodies);
        let none = Self { name: table.name, kind, command: None, url: None, bearer: None, server: None, bodies };
        match table.target {
            Target::Command(command) => Self { command: Some(command), ..none },
            Target::Http { url, bearer } | Target::Otlp { url, bearer } => Self { url: Some(url), bearer, ..none },
            Target::Syslog(server) => Self { server: Some(server.to_string()), ..none },
        }
    }
}

impl TryFrom<Written> for SinkTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, kind, command, url, bearer, server, bodies } = written;
        check_name(&name)?;
        let lacks = |key: &str| format!("the sink `{name}` needs `{key}`");
        let keys: [(_, _, &[Kind]); 5] = [
            ("command", command.is_some(), &[Kind::Command]),
            ("url", url.is_some(), &[Kind::Http, Kind::Otlp]),
            ("bearer", bearer.is_some(), &[Kind::Http, Kind::Otlp]),
            ("server", server.is_some(), &[Kind::Syslog]),
            ("bodies", bodies.is_some(), &[Kind::Command, Kind::Http, Kind::Syslog]),
        ];
        if let Some((key, ..)) = keys.into_iter().find(|(_, is_set, of)| *is_set && !of.contains(&kind)) {
            return Err(format!("the sink `{name}` is of kind `{}`, which has no `{key}`; remove it", kind.word()));
        }
        let checked = |url: Option<String>| {
            let url = url.ok_or_else(|| lacks("url"))?;
            is_safe(&url).map_err(|fault| format!("the sink `{name}`: {fault}"))?;
            Ok::<_, String>(url)
        };
        let target = match kind {
            Kind::Command => {
                let command = command.filter(|command| command.first().is_some_and(|program| !program.is_empty()));
                Target::Command(command.ok_or_else(|| lacks("command = [\"program\", \"argument\"]"))?)
            }
            Kind::Http => Target::Http { url: checked(url)?, bearer },
            Kind::Otlp => Target::Otlp { url: checked(url)?, bearer },
            Kind::Syslog => {
                let server = server.ok_or_else(|| lacks("server = \"host:port\""))?;
                Target::Syslog(server.parse().map_err(|fault| format!("the sink `{name}`: {fault}"))?)
            }
        };
        let has_bodies = bodies.unwrap_or(matches!(kind, Kind::Command | Kind::Http));
        Ok(Self { name, target, has_bodies })
    }
}

impl Config {
    /// Checks that no two sinks share a name.
    pub(crate) fn check_sinks(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        match self.sinks.iter().find(|table| !names.insert(&table.name)) {
            Some(table) => Err(format!("sinks `{}`: two sinks have this name; rename one", table.name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Environment;
    use std::path::Path;

    fn parsed(text: &str) -> Result<Vec<SinkTable>, String> {
        let text = format!("[[sinks]]\n{text}");
        let parsed = Config::parse(&text, Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS);
        parsed.map(|config| config.sinks).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sink_is_what_its_lines_say_and_its_written_form_is_valid() {
        for (text, kind, has_bodies) in [
            ("name = \"a\"\nkind = \"command\"\ncommand = [\"tee\", \"x\"]", "command", true),
            ("name = \"a\"\nkind = \"http\"\nurl = \"https://x/y\"\nbearer = { env = \"T\" }", "http", true),
            ("name = \"a\"\nkind = \"http\"\nurl = \"http://127.0.0.1:9/\"\nbodies = false", "http", false),
            ("name = \"a\"\nkind = \"syslog\"\nserver = \"logs.example.com:6514\"", "syslog", false),
            ("name = \"a\"\nkind = \"syslog\"\nserver = \"[::1]:514\"\nbodies = true", "syslog", true),
            ("name = \"a\"\nkind = \"otlp\"\nurl = \"http://localhost:4318/v1/traces\"", "otlp", false),
        ] {
            let table = parsed(text).unwrap().remove(0);
            assert_eq!((table.word(), table.has_bodies), (kind, has_bodies), "{text}");
            assert_eq!(toml::from_str::<SinkTable>(&toml::to_string(&table).unwrap()).unwrap(), table);
        }
    }

    #[test]
    fn sink_errors_name_the_fault_and_its_remedy() {
        let command = "name = \"a\"\nkind = \"command\"\ncommand = [\"x\"]\n";
        for (text, words) in [
            ("name = \"A b\"\nkind = \"command\"\ncommand = [\"x\"]", "lower-case letters"),
            ("name = \"../a\"\nkind = \"command\"\ncommand = [\"x\"]", "lower-case letters"),
            ("name = \"a\"\nkind = \"sysloog\"", "did you mean `syslog`?"),
            ("name = \"a\"\nkind = \"command\"", "needs `command"),
            ("name = \"a\"\nkind = \"command\"\ncommand = [\"\"]", "needs `command"),
            ("name = \"a\"\nkind = \"http\"", "needs `url`"),
            ("name = \"a\"\nkind = \"http\"\nurl = \"http://example.com/\"", "must be https"),
            ("name = \"a\"\nkind = \"syslog\"", "needs `server"),
            ("name = \"a\"\nkind = \"syslog\"\nserver = \"logs\"", "host and a port"),
            ("name = \"a\"\nkind = \"syslog\"\nserver = \"logs:0\"", "host and a port"),
            ("name = \"a\"\nkind = \"syslog\"\nserver = \"https://logs:1\"", "host and a port"),
            (&format!("{command}url = \"https://x/\""), "is of kind `command`, which has no `url`; remove it"),
            ("name = \"a\"\nkind = \"otlp\"\nurl = \"https://x/\"\nbodies = true", "`otlp`, which has no `bodies`"),
            ("name = \"a\"\nkind = \"otlp\"\nurl = \"http://example.com:4318/v1/traces\"", "must be https"),
            ("name = \"a\"\nkind = \"otlp\"", "needs `url`"),
            (&format!("{command}[[sinks]]\n{command}"), "two sinks have this name"),
            (&format!("{command}bodys = true"), "did you mean `bodies`?"),
        ] {
            let fault = parsed(text).unwrap_err();
            assert!(fault.contains(words), "no `{words}` in {fault}");
        }
    }
}
