//! The place in which the agent runs: a sandbox of bubblewrap, or a container.

use super::killed::note;
use super::mounts::{PROGRAMS, SHIM};
use crate::cli::Context;
use crate::cli::output::CliError;
use platform::agent_sandbox::{AgentSandbox, Mount};
use platform::container::{Container, ContainerError, Ended, Engine, Image, Limits, Owner, Unsupported, Users};
use platform::home::quoted;
use platform::sandbox::Network;
use serde_json::json;
use shared::Group;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The paths, the first directory and the environment of an agent.
type Inside = (Vec<Mount>, PathBuf, BTreeMap<String, String>);

/// The engine of a container, as it is on this machine.
#[derive(Debug, Clone)]
pub(super) struct EngineHere {
    pub(super) engine: Engine,
    pub(super) users: Users,
    pub(super) unsupported: Unsupported,
}

/// The place in which the agent runs.
#[derive(Debug)]
pub(super) enum Place {
    /// A sandbox of bubblewrap, with the programs of the machine.
    Sandbox(AgentSandbox),
    /// A container, with the programs of its image.
    Container(Box<Container>),
}

impl Place {
    pub(super) fn sandbox(network: Network, group: &Group, (mounts, directory, env): Inside) -> Self {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self::Sandbox(AgentSandbox { name: group.to_string(), network, mounts, directory, env })
    }

    /// Returns the container of this image.
    ///
    /// # Errors
    /// [`CliError`]: there is no random number for its name, or this process cannot be described in its labels.
    pub(super) fn container(
        context: &Context,
        EngineHere { engine, users, unsupported }: EngineHere,
        (image, limits): (Image, Limits),
        group: &Group,
        (mounts, directory, env): Inside,
    ) -> Result<Self, CliError> {
        let mut random = [0; 4];
        context.platform.ids.fill(&mut random).map_err(|error| CliError::internal(&error))?;
        let suffix = base16ct::lower::encode_string(&random);
        let owner = Owner::of_home(context.home.path()).map_err(|error| CliError::internal(&error))?;
        let (name, programs) = (group.to_string(), PROGRAMS.into());
        Ok(Self::Container(Box::new(Container {
            engine,
            image,
            users,
            limits,
            unsupported,
            owner,
            name,
            mounts,
            directory,
            env,
            programs,
            suffix,
        })))
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
                let note = note(&context.home, container.engine, &container.own_name()).map_err(CliError::home)?;
                let ended = container.run(&platform.environment, &starter, program, arguments);
                let ended = platform.runtime.block_on(ended);
                // A later command asks the engine for a container that may still be there.
                if !is_left_over(&ended) {
                    note.end();
                }
                ended.map(|ended| ended.code).map_err(|error| CliError::configuration(&error))
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

/// Returns whether a container may be left over after this end. Most faults come before there is one.
fn is_left_over(ended: &Result<Ended, ContainerError>) -> bool {
    match ended {
        Ok(ended) => !ended.is_removed,
        Err(error) => error.may_leave_a_container(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_stays_while_its_container_may_be_there() {
        for (is_removed, expected) in [(true, false), (false, true)] {
            assert_eq!(is_left_over(&Ok(Ended { code: 0, is_removed })), expected);
        }
        assert!(!is_left_over(&Err(ContainerError::NoEngine("podman"))));
        assert!(is_left_over(&Err(ContainerError::Lost(std::io::Error::other("no child")))));
    }
}
