//! The program of a password manager, started for one question. It gets no input, and its output is bounded.

use crate::failures::{ended_badly, not_run};
use platform::Platform;
use platform::commands::{Command, Commands, Ending, Finished};
use provider::contract::{Execution, Failure};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The variables of the broker's environment that password managers need: where their files and agents are.
const PASSED: [&str; 4] = ["HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "USER"];

/// The most bytes of output: the whole list of a large vault.
const OUTPUT_MAX: usize = 16 * 1024 * 1024;

/// A program that can be started.
#[derive(Clone)]
pub(crate) struct Program {
    name: String,
    explain: fn(&str) -> Option<&'static str>,
    commands: Arc<dyn Commands>,
    environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// The program of this name. `explain` turns a known error text into a sentence for an operator.
    pub(super) fn new(name: &str, explain: fn(&str) -> Option<&'static str>, platform: &Platform) -> Self {
        let known: &BTreeMap<String, String> = &platform.environment;
        let passed = |name: &str| Some((name.into(), known.get(name)?.into()));
        let environment = PASSED.into_iter().filter_map(passed).collect();
        Self { name: name.to_owned(), explain, commands: Arc::clone(&platform.commands), environment }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs the program with these arguments and variables, and returns its output.
    ///
    /// # Errors
    /// [`Failure`], also for an end with an error. Its message has the last line of standard error, and no output.
    pub(super) async fn output(
        &self,
        arguments: &[&str],
        variables: Vec<(OsString, OsString)>,
        execution: &Execution,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let finished = self.run(arguments, variables, execution).await?;
        match finished.ending {
            Ending::Exited(0) => Ok(Zeroizing::new(finished.stdout)),
            Ending::Exited(_) | Ending::Signalled(_) => Err(ended_badly(&self.name, &finished, self.explain)),
            Ending::Overflowed(_) => {
                Err(Failure::InvalidOutput { message: format!("The output of {} is too long.", self.name) })
            }
        }
    }

    async fn run(
        &self,
        arguments: &[&str],
        variables: Vec<(OsString, OsString)>,
        execution: &Execution,
    ) -> Result<Finished, Failure> {
        let start = Command::new(&self.name, execution.deadline());
        let mut command = arguments.iter().fold(start, Command::arg);
        command.stdout_max = OUTPUT_MAX;
        command.env.extend(self.environment.iter().cloned());
        command.env.extend(variables);
        self.commands.run(command).await.map_err(|error| not_run(&self.name, &error))
    }
}
