//! The options of one start: those of the command line with those of the group's table in broker.toml.

use super::Run;
use crate::cli::Context;
use crate::cli::output::CliError;
use config::Config;
use config::run::is_variable;
use http::Uri;
use platform::Environment;
use platform::container::{Engine, Image, Limit, Limits};
use platform::egress::{HOSTS_MAX, Host};
use platform::sandbox::Network;
use serde_json::Value;
use shared::Group;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The options of one start.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) workspace: Option<PathBuf>,
    pub(super) read: Vec<PathBuf>,
    pub(super) host: Vec<Host>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) image: Option<Image>,
    pub(super) engine: Option<Engine>,
    pub(super) limits: Limits,
    /// The limits that the command line or the table names. The others have their defaults.
    pub(super) given: BTreeSet<Limit>,
}

impl Options {
    /// Returns the options of the command line. The table of the group has what they leave open.
    ///
    /// # Errors
    /// [`CliError`]: two options exclude each other, or a variable is not set.
    pub(super) fn of(run: &Run, context: &Context, config: &Config, group: &Group) -> Result<Self, CliError> {
        let table = config.groups.get(group).map(|table| table.run.clone()).unwrap_or_default();
        let environment = &context.platform.environment;
        let workspace = table.workspace.map(|path| at_home(&path, environment));
        let read = table.read.iter().map(|path| at_home(path, environment));
        let private = table.private_host.into_iter().chain(run.private_host.iter().cloned());
        let mut host: Vec<Host> = table.host.into_iter().chain(run.host.iter().cloned()).collect();
        host.extend(private.map(Host::in_private_network));
        host.sort();
        host.dedup_by(|one, other| (one.name(), one.port()) == (other.name(), other.port()));
        let is_given = |name: &String| run.env.iter().any(|given| given.split('=').next() == Some(name.as_str()));
        let of_table: Vec<String> = table.env.into_iter().filter(|name| !is_given(name)).collect();
        let unset = |error: CliError| error.and_so(&format!("[groups.{group}.run] of broker.toml names it in `env`"));
        let mut env = variables(context, &of_table).map_err(unset)?;
        env.extend(variables(context, &run.env)?);
        let standard = Limits::default();
        let (memory, pids, cpus) = (run.memory.or(table.memory), run.pids.or(table.pids), run.cpus.or(table.cpus));
        let limits = Limits {
            memory: memory.unwrap_or(standard.memory),
            processes: pids.unwrap_or(standard.processes),
            processors: cpus.unwrap_or(standard.processors),
        };
        let given = [
            (Limit::Memory, memory.is_some()),
            (Limit::Processes, pids.is_some()),
            (Limit::Processors, cpus.is_some()),
        ];
        let options = Self {
            workspace: run.workspace.clone().or(workspace),
            read: read.chain(run.read.iter().cloned()).collect(),
            host,
            env,
            image: run.image.clone().or(table.image),
            engine: run.engine.or(table.engine),
            limits,
            given: given.into_iter().filter_map(|(limit, is_given)| is_given.then_some(limit)).collect(),
        };
        options.check(run, group)?;
        Ok(options)
    }

    fn check(&self, run: &Run, group: &Group) -> Result<(), CliError> {
        if run.read_only && self.workspace.is_none() {
            return Err(CliError::usage("--read-only is for a workspace; add --workspace DIR"));
        }
        if run.engine.is_some() && self.image.is_none() {
            return Err(CliError::usage("--engine is for a container; add --image IMAGE"));
        }
        let is_limited = run.memory.is_some() || run.pids.is_some() || run.cpus.is_some();
        if is_limited && self.image.is_none() {
            return Err(CliError::usage(
                "--memory, --pids and --cpus are for a container; add --image IMAGE, or limit the sandbox of bubblewrap \
                 with systemd: systemd-run --user --scope -p MemoryMax=4G -p TasksMax=1024 host-broker run …",
            ));
        }
        if self.image.is_some() && !self.host.is_empty() {
            return Err(CliError::usage(format!(
                "a container cannot have hosts, because the broker's proxy does not reach into it; remove --image to use \
                 the sandbox of bubblewrap, which can, or remove the hosts (--host, --private-host, [groups.{group}.run])"
            )));
        }
        Ok(())
    }

    /// Returns the network of the sandbox. `hello` is the daemon's description of itself. After a reload, the daemon listens
    /// where the configuration says.
    ///
    /// # Errors
    /// [`CliError`]: a host is the broker itself, or there are too many.
    pub(super) fn network(&self, config: &Config, hello: Option<&Value>) -> Result<Network, CliError> {
        let own = config.web.iter().map(|web| web.listen).chain(config.identity.callback);
        let own: Vec<u16> = own
            .chain(config.metrics.iter().map(|table| table.listen))
            .map(|address| address.address().port())
            .collect();
        let is_own = |port: u16| own.contains(&port) || hello.is_some_and(|hello| listens(hello, port));
        let is_broker = |host: &&Host| host.is_local() && is_own(host.port());
        if let Some(host) = self.host.iter().find(is_broker) {
            return Err(CliError::usage(format!(
                "--host: {host} is the broker itself, which an agent reaches through its shim only; remove it"
            )));
        }
        if self.host.is_empty() {
            return Ok(Network::None);
        }
        if self.host.len() > HOSTS_MAX {
            let count = self.host.len();
            return Err(CliError::usage(format!("--host: {count} hosts exceed the limit of {HOSTS_MAX}")));
        }
        let this = std::env::current_exe().map_err(|error| CliError::internal(&error))?;
        Ok(Network::Hosts(self.host.clone(), this))
    }
}

/// Returns the variables of `--env`, with their values.
///
/// # Errors
/// [`CliError`]: one is not set, or has no name.
pub(super) fn variables(context: &Context, given: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let environment = &context.platform.environment;
    let of = |given: &String| match given.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match environment.get(given) {
            Some(value) => Ok((given.clone(), value.clone())),
            None => Err(CliError::usage(format!(
                "--env: the variable {given} is not set here; set it, or write --env {given}=VALUE"
            ))),
        },
    };
    let named = given.iter().map(of).collect::<Result<BTreeMap<_, _>, _>>()?;
    match named.keys().find(|name| !is_variable(name)) {
        Some(name) => Err(CliError::usage(format!("--env: `{name}` is not the name of a variable"))),
        None => Ok(named),
    }
}

/// Returns a path of the configuration. `~/` is the home of the person who runs the command.
fn at_home(path: &Path, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), environment.get("HOME").filter(|home| !home.is_empty())) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    }
}

/// Returns whether the daemon of this description listens on this port.
fn listens(hello: &Value, port: u16) -> bool {
    let urls =
        ["web", "callback", "metrics"].map(|name| hello.pointer(&format!("/data/{name}")).and_then(Value::as_str));
    let ports = urls.into_iter().flatten().filter_map(|url| url.parse::<Uri>().ok()?.port_u16());
    ports.into_iter().any(|own| own == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_in_a_path_is_that_of_the_person() {
        let environment = Environment::from([("HOME".to_owned(), "/home/ann".to_owned())]);
        assert_eq!(at_home(Path::new("~/project"), &environment), Path::new("/home/ann/project"));
        assert_eq!(at_home(Path::new("/srv/~/project"), &environment), Path::new("/srv/~/project"));
        assert_eq!(at_home(Path::new("~/project"), &Environment::new()), Path::new("~/project"));
    }
}
