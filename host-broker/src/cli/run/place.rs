//! The place in which the agent runs: a sandbox of bubblewrap, or a container.

use super::mounts::{PROGRAMS, SHIM};
use crate::cli::Context;
use crate::cli::output::CliError;
use platform::agent_sandbox::{AgentSandbox, Mount};
use platform::container::{Container, Engine, Image, Users};
use platform::home::quoted;
use platform::sandbox::Network;
use serde_json::json;
use shared::Group;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The paths, the first directory and the environment of an agent.
type Inside = (Vec<Mount>, PathBuf, BTreeMap<String, String>);

/// The place in which the agent runs.
#[derive(Debug)]
pub(super) enum Place {
    /// A sandbox of bubblewrap, with the programs of the machine.
    Sandbox(AgentSandbox),
    /// A container, with the programs of its image.
    Container(Container),
}

impl Place {
    pub(super) fn sandbox(network: Network, group: &Group, (mounts, directory, env): Inside) -> Self {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self::Sandbox(AgentSandbox { name: group.to_string(), network, mounts, directory, env })
    }

    pub(super) fn container(
        (engine, users): (Engine, Users),
        (image, suffix): (Image, String),
        group: &Group,
        (mounts, directory, env): Inside,
    ) -> Self {
        let (name, programs) = (group.to_string(), PROGRAMS.into());
        Self::Container(Container { engine, image, users, name, mounts, directory, env, programs, suffix })
    }

    /// The first program there, with its arguments before those of the agent's program.
    fn starter(&self) -> [OsString; 2] {
        let word = match self {
            Self::Sandbox(_) => "sandbox-start",
            Self::Container(_) => "container-start",
        };
        [SHIM.into(), word.into()]
    }

    /// Runs the program there, and returns its exit code.
    ///
    /// # Errors
    /// [`CliError`]; the program was not run.
    pub(super) fn run(&self, context: &Context, program: &Path, arguments: &[OsString]) -> Result<u8, CliError> {
        let (platform, starter) = (&context.platform, self.starter());
        match self {
            Self::Sandbox(sandbox) => {
                let ended = platform.runtime.block_on(sandbox.run(&starter, program, arguments));
                ended.map_err(|error| CliError::configuration(&error))
            }
            Self::Container(container) => {
                let ended = container.run(&platform.environment, &starter, program, arguments);
                platform.runtime.block_on(ended).map_err(|error| CliError::configuration(&error))
            }
        }
    }

    /// Prints the command. The values of the environment are not printed: they can be secret.
    ///
    /// # Errors
    /// [`CliError`]: a path cannot be mounted there.
    pub(super) fn show(&self, context: &Context, program: &Path, arguments: &[OsString]) -> Result<(), CliError> {
        let (line, mounts, names, network) = match self {
            Self::Sandbox(sandbox) => {
                let names = sandbox.env.iter().map(|(name, _)| name.to_string_lossy().into_owned());
                (sandbox.command_line(program, arguments), &sandbox.mounts, names.collect(), &sandbox.network)
            }
            Self::Container(container) => {
                let line = container.command_line(&self.starter(), program, arguments);
                let line = line.map_err(|error| CliError::configuration(&error))?;
                (line, &container.mounts, container.env.keys().cloned().collect::<Vec<_>>(), &Network::None)
            }
        };
        let words: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mounts: Vec<_> = mounts
            .iter()
            .map(|mount| json!({ "from": mount.from, "to": mount.to, "writable": mount.is_writable }))
            .collect();
        let hosts: Vec<String> = match network {
            Network::Hosts(hosts, _) => hosts.iter().map(ToString::to_string).collect(),
            Network::None | Network::All => Vec::new(),
        };
        let document = json!({ "command": words, "environment": names, "mounts": mounts, "hosts": hosts });
        context.output.show(&document, || {
            let words: Vec<String> = words.iter().map(|word| quoted(Path::new(word))).collect();
            format!("{}\n\nEnvironment: {}", words.join(" "), names.join(", "))
        });
        Ok(())
    }
}
