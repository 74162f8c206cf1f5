//! A provider that is a program on this machine: how the broker starts it, and its confinement.

pub mod interpreter;

use kernel::execution::Execution;
use platform::commands::{Command, Ending, Finished, installed};
use platform::egress::{HOSTS_MAX, Host};
use platform::resources::{PRLIMIT, ResourceLimits};
use platform::sandbox::{BWRAP, Network, Sandbox};
use platform::service_unit::ServiceUnit;
use schemars::JsonSchema;
use secrets::Secret;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// The settings of a provider's program.
///
/// ```toml
/// command = ["/opt/gog/bridge", "--quiet"]
/// hosts = ["gmail.googleapis.com", "imap.example.com:993"]
/// readable = ["/opt/gog"]
/// secrets = { GOG_CLIENT_SECRET = { file = "/etc/gog/secret" } }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its arguments. The program is an absolute path, or the name of an installed program.
    pub command: Vec<String>,
    /// The sandbox that separates the program from the broker's home.
    #[serde(default)]
    pub isolation: Isolation,
    /// The public hosts, or `localhost`, that the program can reach. A host without a port means the port of HTTPS.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// Additional hosts that the program can reach and that can be in a private network.
    #[serde(default)]
    pub private_hosts: Vec<Host>,
    /// Whether the program can reach the whole network; excludes `hosts` and `private_hosts`.
    #[serde(default)]
    pub network: bool,
    /// The absolute paths that the program can read, in addition to the system's programs.
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    /// The absolute paths that the program can read and write.
    #[serde(default)]
    pub writable: Vec<PathBuf>,
    /// The names of the broker's environment variables that are passed to the program.
    #[serde(default)]
    pub env: Vec<String>,
    /// Additional environment variables with fixed values that are not secret.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Secrets that are passed to the program as environment variables, by variable name.
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretSource>,
    /// The resources that the program can use.
    #[serde(default)]
    pub limits: ResourceLimits,
}

impl Settings {
    /// The keys.
    pub const KEYS: [&'static str; 11] = [
        "command",
        "isolation",
        "hosts",
        "private_hosts",
        "network",
        "readable",
        "writable",
        "env",
        "variables",
        "secrets",
        "limits",
    ];

    /// Returns whether it can reach anything.
    pub fn has_network(&self) -> bool {
        self.network || self.isolation == Isolation::None || !self.all_hosts().is_empty()
    }

    /// Returns the fault of a program that fetches another one but can reach nothing. It would try for a minute.
    pub fn fetches_in_vain(&self) -> Option<String> {
        let path = started(&self.command)?;
        let program = Path::new(path).file_name()?.to_str()?;
        // A line of `env -S` is one argument.
        let words = self.command.iter().flat_map(|argument| argument.split_whitespace());
        let first = words.skip_while(|word| *word != path).skip(1).find(|word| !word.starts_with('-'));
        let fetches =
            |subcommands: &[&str]| subcommands.is_empty() || first.is_some_and(|word| subcommands.contains(&word));
        let (_, _, registry) = FETCHERS.iter().find(|(fetcher, words, _)| *fetcher == program && fetches(words))?;
        let stays =
            self.command.iter().any(|argument| ["--offline", "--no-install", "--no"].contains(&argument.as_str()));
        (!stays && !self.has_network()).then(|| {
            format!(
                "command: `{program}` needs the network: add hosts = [{registry}], or install the package and name its \
                 program"
            )
        })
    }

    /// All that it can reach by name.
    fn all_hosts(&self) -> Vec<Host> {
        let private = self.private_hosts.iter().cloned().map(Host::in_private_network);
        self.hosts.iter().cloned().chain(private).collect()
    }

    /// Returns the network that the program can reach.
    fn reach(&self) -> Result<Network, String> {
        let hosts = self.all_hosts();
        if hosts.is_empty() {
            return Ok(if self.network { Network::All } else { Network::None });
        }
        if self.network {
            return Err("hosts: `network = true` already permits all hosts; remove one of the two".to_owned());
        }
        if hosts.len() > HOSTS_MAX {
            return Err(format!("hosts: {} hosts exceed the limit of {HOSTS_MAX}; remove some", hosts.len()));
        }
        let mut named = BTreeSet::new();
        if let Some(twice) = hosts.iter().find(|host| !named.insert((host.name(), host.port()))) {
            return Err(format!("hosts: {twice} occurs twice; remove one"));
        }
        let this = std::env::current_exe()
            .map_err(|error| format!("hosts: the path of the broker's program is unknown: {error}"))?;
        Ok(Network::Hosts(hosts, this))
    }
}

/// Returns the program that a command starts: its first word, or the program that `env` starts for it.
pub fn started(command: &[String]) -> Option<&str> {
    let (first, rest) = command.split_first()?;
    if Path::new(first).file_name().is_none_or(|name| name != "env") {
        return Some(first);
    }
    let mut words = rest.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let split = match word {
            "-S" | "--split-string" => words.next(),
            _ => word.strip_prefix("--split-string=").or_else(|| word.strip_prefix("-S")),
        };
        if let Some(line) = split {
            return line.split_whitespace().find(|word| !word.contains('='));
        }
        if ["-u", "--unset", "-C", "--chdir"].contains(&word) {
            words.next();
        } else if !word.starts_with('-') && !word.contains('=') {
            return Some(word);
        }
    }
    None
}

/// Programs that fetch another one first, the subcommands with which they do (none means always), and from where.
const FETCHERS: [(&str, &[&str], &str); 10] = [
    ("npx", &[], NPM),
    ("pnpx", &[], NPM),
    ("bunx", &[], NPM),
    ("npm", &["exec", "x", "create", "init"], NPM),
    ("pnpm", &["dlx", "exec", "create"], NPM),
    ("yarn", &["dlx", "create"], NPM),
    ("bun", &["x", "create"], NPM),
    ("uvx", &[], PYPI),
    ("uv", &["run", "tool", "x"], PYPI),
    ("pipx", &["run"], PYPI),
];
const NPM: &str = "\"registry.npmjs.org\"";
const PYPI: &str = "\"pypi.org\", \"files.pythonhosted.org\"";

/// The sandbox that separates a program from the broker's home.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A namespace that bubblewrap creates.
    #[default]
    Bwrap,
    /// No sandbox: the program has all rights of the broker. Use it for programs with their own isolation, such as
    /// containers.
    None,
}

/// A program that can be started.
#[derive(Debug)]
pub struct Child {
    command: Vec<String>,
    env: Vec<(OsString, OsString)>,
    secrets: Vec<(String, Option<Arc<Secret>>)>,
    sandbox: Option<Sandbox>,
    limits: ResourceLimits,
    state: PathBuf,
    // The program, if it is named by its path.
    own: Option<PathBuf>,
    home: PathBuf,
    // The unit that runs the broker, if the broker is a service.
    unit: Option<ServiceUnit>,
}

/// The variable that holds the public key of context tokens: 32 bytes in base64url.
pub const PUBLIC_KEY: &str = "EXT_CONTEXT_TOKEN_PUBLIC_KEY";
/// The variable that holds the secret that is shared with an issuer of context tokens.
pub const SHARED_SECRET: &str = "ASH_CONTEXT_TOKEN_SECRET";

/// Variables that the broker itself gives; a configuration that names one would be overruled, or overrule.
const OWN: [&str; 9] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", PUBLIC_KEY, SHARED_SECRET];

/// The placeholder for a secret when the broker only asks a program for its definitions.
const BLANK: &str = "not-given";

impl Child {
    /// Creates the provider from these settings.
    ///
    /// `state` is the only directory that the program may write to. The broker creates it on first need.
    ///
    /// # Errors
    /// A setting is wrong or missing on this machine. The text says how to repair it.
    pub fn new(
        name: &str,
        settings: &Settings,
        home: &Path,
        state: PathBuf,
        environment: &BTreeMap<String, String>,
        secret: impl Fn(&str) -> Option<Arc<Secret>>,
    ) -> Result<Self, String> {
        let Some(program) = settings.command.first().filter(|program| !program.is_empty()) else {
            return Err("command must not be empty; add a program and its arguments".to_owned());
        };
        if program.contains('/') && !program.starts_with('/') {
            return Err(format!("command: `{program}` is a relative path; use the absolute path"));
        }
        if !installed(Path::new(program)) {
            return Err(format!("command: there is no program `{program}`; install it or correct the name"));
        }
        if !installed(Path::new(PRLIMIT)) {
            return Err("limits: prlimit is not installed; install util-linux".to_owned());
        }
        let sandbox = match settings.isolation {
            Isolation::None if !settings.all_hosts().is_empty() => {
                return Err("hosts: they have no effect without isolation = \"bwrap\"; remove them".to_owned());
            }
            Isolation::None => None,
            Isolation::Bwrap if !installed(Path::new(BWRAP)) => {
                return Err("isolation: bubblewrap (bwrap) is not installed; \
                            install it, or set isolation = \"none\" for a program with its own isolation"
                    .to_owned());
            }
            Isolation::Bwrap => {
                let given = [("readable", &settings.readable), ("writable", &settings.writable)];
                for (key, paths) in given {
                    if let Some(relative) = paths.iter().find(|path| !path.is_absolute()) {
                        return Err(format!("{key}: {} is a relative path; use the absolute path", relative.display()));
                    }
                }
                Some(Sandbox {
                    name: name.replace('.', "-"),
                    network: settings.reach()?,
                    readable: settings.readable.iter().cloned().chain(interpreter::beside(settings)).collect(),
                    writable: settings.writable.clone(),
                    state: state.clone(),
                })
            }
        };
        let own = program.starts_with('/').then(|| PathBuf::from(program));
        if let Some(sandbox) = &sandbox {
            all_apart(sandbox, own.as_deref(), home)?;
        }
        let mut named = BTreeSet::new();
        for variable in settings.env.iter().chain(settings.variables.keys()).chain(settings.secrets.keys()) {
            if !named.insert(variable) {
                return Err(format!("env: `{variable}` occurs twice in `env`, `variables` or `secrets`; remove one"));
            }
            let is_name = |text: &str| {
                !text.is_empty()
                    && !text.starts_with(|c: char| c.is_ascii_digit())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            };
            if !is_name(variable) || OWN.contains(&variable.as_str()) || variable.starts_with("LD_") {
                return Err(format!(
                    "env: `{variable}` is not a valid name, or the broker sets the variable itself; remove it"
                ));
            }
        }
        let given = |name: &String| Some((name.into(), environment.get(name)?.into()));
        let mut env: Vec<(OsString, OsString)> = settings.env.iter().filter_map(given).collect();
        env.extend(settings.variables.iter().map(|(name, value)| (name.into(), value.into())));
        env.push(("USER".into(), "provider".into()));
        Ok(Self {
            command: settings.command.clone(),
            env,
            secrets: settings.secrets.keys().map(|name| (name.clone(), secret(name))).collect(),
            sandbox,
            limits: settings.limits,
            state,
            own,
            home: home.to_path_buf(),
            unit: ServiceUnit::of_process(environment),
        })
    }

    /// Checks whether it was the sandbox that could not be made, or a limit that could not be set, so that the program
    /// itself never ran.
    pub fn never_ran(&self, finished: &Finished) -> bool {
        let has_no_sandbox = self.sandbox.is_some()
            && finished.ending == Ending::Exited(1)
            && finished.stdout.is_empty()
            && Sandbox::failed_to_start(&finished.stderr);
        has_no_sandbox || finished.never_ran()
    }

    /// Explains the standard error of a program that never ran, with the remedy if it is known.
    pub fn explained(&self, stderr: &str) -> String {
        Sandbox::explained(stderr, self.unit.as_ref())
    }

    /// Returns the same explanation if this is the standard error of a sandbox that could not be created.
    pub fn sandbox_error(&self, stderr: &str) -> Option<String> {
        let has_no_sandbox = self.sandbox.is_some() && Sandbox::failed_to_start(stderr.as_bytes());
        has_no_sandbox.then(|| self.explained(stderr))
    }

    /// Returns the command that starts the program with these variables and without any secret.
    ///
    /// The broker uses it to ask for the definitions.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn start(&self, deadline: Instant, variables: Vec<(OsString, OsString)>) -> Result<Command, std::io::Error> {
        self.command(deadline, variables)
    }

    /// Returns the same command with placeholders instead of secrets.
    ///
    /// Many programs do not list their definitions when a secret is absent.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn start_blank(&self, deadline: Instant) -> Result<Command, std::io::Error> {
        self.command(deadline, self.secrets.iter().map(|(name, _)| (name.into(), BLANK.into())).collect())
    }

    /// Its start for an execution, with its secrets and these variables.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn start_for(
        &self,
        execution: &Execution,
        deadline: Instant,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<Command, std::io::Error> {
        let exposed = self
            .secrets
            .iter()
            .filter_map(|(name, secret)| Some((name.into(), secret.as_ref()?.expose(execution).into())));
        self.command(deadline, variables.into_iter().chain(exposed).collect())
    }

    fn command(&self, deadline: Instant, more: Vec<(OsString, OsString)>) -> Result<Command, std::io::Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.state)?;
        let (program, arguments) = self.command.split_first().map_or(("", [].as_slice()), |(p, a)| (p.as_str(), a));
        let mut command = arguments.iter().fold(Command::new(program, deadline), Command::arg);
        command.limits = self.limits;
        command.env.extend(self.env.iter().cloned().chain(more));
        if let Some(sandbox) = &self.sandbox {
            // The check repeats because a path may lead to another place by now.
            all_apart(sandbox, self.own.as_deref(), &self.home).map_err(std::io::Error::other)?;
            return Ok(sandbox.wrap(command));
        }
        command.env.push(("HOME".into(), self.state.clone().into()));
        command.env.push(("TMPDIR".into(), "/tmp".into()));
        Ok(command)
    }
}

/// SECURITY: a directory that contains the home or lies in it would bring the home into the sandbox.
fn all_apart(sandbox: &Sandbox, program: Option<&Path>, home: &Path) -> Result<(), String> {
    sandbox.visible_paths().chain(program).try_for_each(|path| apart(path, home))
}

fn apart(path: &Path, home: &Path) -> Result<(), String> {
    let place = path.canonicalize().map_err(|error| format!("{} cannot be used: {error}", path.display()))?;
    let home = home.canonicalize().unwrap_or_else(|_not_there| home.to_path_buf());
    if home.starts_with(&place) || place.starts_with(&home) {
        return Err(format!(
            "{} contains or is inside the broker's home, which providers cannot see; use another path",
            path.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fetches_another_one_without_a_network_is_explained() {
        let settings = |text: &str| toml::from_str::<Settings>(text).unwrap();
        let npx = settings("command = [\"npx\", \"-y\", \"a-server\"]").fetches_in_vain().unwrap();
        assert!(npx.contains("`npx` needs the network: add hosts = [\"registry.npmjs.org\"]"), "{npx}");
        for env in ["\"env\"", "\"/usr/bin/env\", \"-u\", \"X\", \"A=b\", \"-i\"", "\"env\", \"-S\""] {
            let npx = settings(&format!("command = [{env}, \"npx\", \"-y\", \"a-server\"]")).fetches_in_vain();
            assert!(npx.is_some_and(|npx| npx.contains("`npx` needs the network")), "{env}");
        }
        let uvx = settings("command = [\"/usr/local/bin/uvx\", \"a-server\"]").fetches_in_vain().unwrap();
        assert!(uvx.contains("\"pypi.org\", \"files.pythonhosted.org\""), "{uvx}");
        for fetches in [
            "\"npm\", \"exec\", \"-y\", \"a-server\"",
            "\"pnpm\", \"--silent\", \"dlx\", \"a-server\"",
            "\"yarn\", \"dlx\", \"a-server\"",
            "\"bun\", \"x\", \"a-server\"",
            "\"uv\", \"tool\", \"run\", \"a-server\"",
            "\"/usr/bin/env\", \"pipx\", \"run\", \"a-server\"",
            "\"env\", \"-S\", \"A=b npm exec a-server\"",
        ] {
            let why = settings(&format!("command = [{fetches}]")).fetches_in_vain();
            assert!(why.is_some_and(|why| why.contains("needs the network")), "{fetches}");
        }
        for works in [
            "command = [\"npm\", \"start\"]",
            "command = [\"bun\", \"server.ts\"]",
            "command = [\"npx\", \"a-server\"]\nhosts = [\"registry.npmjs.org\"]",
            "command = [\"npx\", \"a-server\"]\nnetwork = true",
            "command = [\"npx\", \"a-server\"]\nisolation = \"none\"",
            "command = [\"npx\", \"--offline\", \"a-server\"]",
            "command = [\"node\", \"npx\"]",
        ] {
            assert_eq!(settings(works).fetches_in_vain(), None, "{works}");
        }
    }
}
