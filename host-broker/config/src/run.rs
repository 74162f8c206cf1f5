//! `[groups.NAME.run]`: the options of `host-broker run` for the agents of a group.

use platform::container::{Engine, Image, MemorySize};
use platform::egress::{HOSTS_MAX, Host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The options of `host-broker run` for the agents of a group. On the command line, `--workspace`, `--image`, `--engine`,
/// `--memory`, `--pids` and `--cpus` replace the value of the table; the other options add to it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunTable {
    /// The directory on which the agent works. `~/` is the home of the person who runs the command.
    pub workspace: Option<PathBuf>,
    /// Additional files and directories that the agent can read.
    pub read: Vec<PathBuf>,
    /// Hosts that the agent can reach without the broker, such as that of its model.
    pub host: Vec<Host>,
    /// The same for hosts in a private network.
    pub private_host: Vec<Host>,
    /// The names of variables that the agent gets from the environment of the command. Values are not written here.
    pub env: BTreeSet<String>,
    /// The image of a container in which the agent runs; absent means that bubblewrap makes the sandbox.
    pub image: Option<Image>,
    /// The program that makes the container; absent means podman if it is installed, else docker.
    pub engine: Option<Engine>,
    /// The memory of the container, such as `"8g"` or `"512m"`; absent means `"4g"`, and `"0"` no limit.
    pub memory: Option<MemorySize>,
    /// The processes and threads of the container; absent means 1024, and 0 no limit.
    pub pids: Option<u32>,
    /// The processors of the container; absent means all of the machine but one, and 0 no limit.
    pub cpus: Option<u32>,
}

impl RunTable {
    /// Makes the paths absolute; this is the directory of the file. The home of a person is not known here.
    pub(crate) fn settle(&mut self, folder: &Path) {
        for path in self.workspace.iter_mut().chain(&mut self.read).filter(|path| !path.starts_with("~")) {
            *path = folder.join(&*path);
        }
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// The fault and the remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = self.env.iter().find(|name| !is_variable(name)) {
            return Err(match name.split_once('=') {
                Some((name, _value)) => format!(
                    "env holds names only, because a value can be secret; write `{name}`, and set {name} where the command runs"
                ),
                None => format!("env: `{name}` is not the name of a variable"),
            });
        }
        let hosts = self.host.len().saturating_add(self.private_host.len());
        if hosts > HOSTS_MAX {
            return Err(format!("{hosts} hosts exceed the limit of {HOSTS_MAX}"));
        }
        if self.image.is_some() && hosts > 0 {
            return Err("a container has no hosts; remove `image`, or `host` and `private_host`".to_owned());
        }
        if self.engine.is_some() && self.image.is_none() {
            return Err("`engine` is for a container; add `image`, or remove `engine`".to_owned());
        }
        let is_limited = self.memory.is_some() || self.pids.is_some() || self.cpus.is_some();
        if is_limited && self.image.is_none() {
            return Err("`memory`, `pids` and `cpus` are for a container; add `image`, or remove them".to_owned());
        }
        Ok(())
    }
}

/// Returns whether a text is the name of an environment variable.
pub fn is_variable(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use platform::Environment;
    use std::path::Path;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!("[groups.developer.run]\n{lines}\n");
        let path = Path::new("/srv/broker/broker.toml");
        Config::parse(&text, path, &Environment::new(), &[]).map_err(|error| model::errors::chain(&error))
    }

    #[test]
    fn the_options_of_a_group_are_read_and_its_paths_are_absolute() {
        let lines = "workspace = \"~/project\"\nread = [\"docs\", \"/usr/share/doc\"]\nhost = [\"api.example.com\"]\n\
                     private_host = [\"localhost:8080\"]\nenv = [\"API_KEY\"]";
        let config = parse(lines).unwrap();
        let table = &config.groups.values().next().unwrap().run;
        assert_eq!(table.workspace.as_deref(), Some(Path::new("~/project")));
        assert_eq!(table.read, [Path::new("/srv/broker/docs"), Path::new("/usr/share/doc")]);
        assert_eq!(table.host[0].to_string(), "api.example.com:443");
        assert_eq!(table.private_host[0].to_string(), "localhost:8080");
        assert!(table.env.contains("API_KEY"));
        let lines = "image = \"localhost/agent:1\"\nengine = \"docker\"\nmemory = \"2048m\"\npids = 100\ncpus = 0";
        let config = parse(lines).unwrap();
        let table = &config.groups.values().next().unwrap().run;
        assert_eq!((table.memory.unwrap().to_string().as_str(), table.pids, table.cpus), ("2g", Some(100), Some(0)));
        assert_eq!(table.image.as_ref().unwrap().to_string(), "localhost/agent:1");
        assert_eq!(table.engine.unwrap().word(), "docker");
    }

    #[test]
    fn a_value_and_an_option_without_effect_are_refused() {
        for (lines, word) in [
            ("env = [\"API_KEY=hunter2\"]", "names only"),
            ("env = [\"A B\"]", "not the name of a variable"),
            ("image = \"a\"\nhost = [\"api.example.com\"]", "a container has no hosts"),
            ("engine = \"podman\"", "add `image`"),
            ("memory = \"1g\"", "add `image`"),
            ("pids = 10", "add `image`"),
            ("cpus = 1", "add `image`"),
            ("image = \"a\"\nmemory = \"4\"", "no size of memory"),
            ("image = \"a\"\npids = -1", "pids"),
            ("image = \"--privileged\"", "not the name of an image"),
            ("workspase = \"/srv\"", "did you mean `workspace`?"),
            ("engine = \"dokcer\"\nimage = \"a\"", "docker"),
        ] {
            let fault = parse(lines).unwrap_err();
            assert!(fault.contains(word), "{lines}: {fault}");
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }
}
