//! The files that a program needs in a sandbox: its own, its interpreter's, and the packages beside them.
//!
//! ```text
//! claude ──PATH──► ~/.npm/bin/claude ──link──► ~/.npm/lib/node_modules/@anthropic-ai/claude-code/cli.js
//!                                                     │ #!/usr/bin/env node ──PATH──► ~/.nvm/versions/node/v24/bin/node
//!                                                     └─ mounted: ~/.npm/lib/node_modules
//! ```

use platform::agent_sandbox::{AgentSandbox, Mount};
use provider::child::{interpreter, started};
use rustix::fs::{Access, access};
use std::path::{Component, Path, PathBuf};

/// The longest chain of interpreters that is followed. The kernel follows as many.
const INTERPRETERS_MAX: usize = 4;

/// A program and what it needs in a sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The path of the program in the sandbox.
    pub(super) path: PathBuf,
    /// The mounts that it needs, at the paths that they have on the machine.
    pub(super) mounts: Vec<Mount>,
    /// The directories in which its own interpreters are found.
    pub(super) directories: Vec<PathBuf>,
}

/// The directory on which the agent works.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work<'a> {
    /// Its place on the machine, behind all links.
    pub(super) place: &'a Path,
    /// Its path in the sandbox.
    pub(super) inside: &'a Path,
}

impl Work<'_> {
    /// Returns the path in the sandbox of a program that lies there, or to which a link leads.
    fn path_of(&self, program: &Path) -> Option<PathBuf> {
        let folder = program.parent()?.canonicalize().ok()?.join(program.file_name()?);
        let places = [Some(folder), program.canonicalize().ok()];
        let rest = places.iter().flatten().find_map(|place| place.strip_prefix(self.place).ok())?;
        Some(self.inside.join(rest))
    }
}

/// Finds a program as a shell does: by a path, or by a name in the directories of `PATH`.
///
/// # Errors
/// There is no such program; the text names it.
pub(super) fn find(name: &Path, path: &str, directory: &Path, work: Option<Work<'_>>) -> Result<Program, String> {
    let found = located(name, path, directory).ok_or_else(|| {
        format!("there is no program `{}` on this machine; install it, or name its path", name.display())
    })?;
    // SECURITY: an agent writes there, so nothing may follow from a link or from the first line of a file.
    let inside = |program: &Path| work.as_ref().and_then(|work| work.path_of(program));
    if let Some(path) = inside(&found) {
        return Ok(Program { path, ..Program::default() });
    }
    let mut program = Program { path: found.clone(), ..Program::default() };
    let mut next = Some(found);
    for place in 0..INTERPRETERS_MAX {
        let Some(found) = next.take().filter(|found| inside(found).is_none()) else { break };
        let runs_as = program.add(&found);
        if place == 0 {
            program.path = runs_as;
        } else if let Some(directory) = runs_as.parent().filter(|directory| !AgentSandbox::shows(directory)) {
            program.directories.push(directory.to_owned());
        }
        next = interpreter::line(&found).and_then(|(interpreter, argument)| {
            let command = [Some(interpreter.display().to_string()), argument].into_iter().flatten().collect::<Vec<_>>();
            // `env` has one argument here: a name, or a line after `-S`.
            let words: Vec<String> =
                command.iter().flat_map(|word| word.split_whitespace().map(str::to_owned)).collect();
            located(Path::new(started(&words)?), path, directory)
        });
    }
    program.mounts.dedup();
    Ok(program)
}

impl Program {
    /// A program of an image, by its path or its name there.
    pub(super) fn of_image(name: &Path) -> Self {
        Self { path: name.to_owned(), ..Self::default() }
    }

    /// Adds the mounts of an executable file. Returns its path in the sandbox.
    fn add(&mut self, found: &Path) -> PathBuf {
        let Ok(real) = found.canonicalize() else { return found.to_owned() };
        let mut mount = |path: &Path| {
            if !AgentSandbox::shows(path) {
                self.mounts.push(Mount::readable(path, path));
            }
        };
        if let Some(packages) = packages(&real) {
            mount(&packages);
            return real;
        }
        let above = found.parent().and_then(Path::parent);
        if let Some(environment) = above.filter(|above| above.join("pyvenv.cfg").is_file()) {
            mount(environment);
            if !real.starts_with(environment) {
                self.add(&real);
            }
            return found.to_owned();
        }
        // The libraries of an installation lie beside its `bin`.
        let is_in_bin = real.parent().and_then(Path::file_name).is_some_and(|name| name == "bin");
        let libraries = real.parent().and_then(Path::parent).map(|above| above.join("lib"));
        // A link could lead anywhere.
        let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if let Some(libraries) = libraries.filter(|libraries| is_in_bin && is_directory(libraries)) {
            mount(&libraries);
        }
        mount(&real);
        if AgentSandbox::shows(found) || found == real {
            return real;
        }
        // Some programs act by the name with which they are started.
        self.mounts.push(Mount::readable(real, found));
        found.to_owned()
    }
}

/// Returns the outermost directory of packages of Node.js in which a file lies: a package finds others there.
fn packages(path: &Path) -> Option<PathBuf> {
    let mut above = PathBuf::new();
    for part in path.components() {
        above.push(part);
        if part == Component::Normal("node_modules".as_ref()) {
            return Some(above);
        }
    }
    None
}

/// Returns the executable file of this name.
fn located(name: &Path, path: &str, directory: &Path) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.components().count() > 1 || name.is_absolute() {
        return Some(directory.join(name)).filter(is_program);
    }
    let directories = path.split(':').map(Path::new).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn executable(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_brings_its_packages_and_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (tool, node) = (root.join("npm/bin/tool"), root.join("node/bin/node"));
        let script = root.join("npm/lib/node_modules/@a/tool/cli.js");
        executable(&script, "#!/usr/bin/env -S node --quiet\n");
        executable(&node, "\u{7f}ELF");
        std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
        symlink(&script, &tool).unwrap();
        let path = format!("relative:{}:{}", root.join("npm/bin").display(), root.join("node/bin").display());
        let found = find(Path::new("tool"), &path, Path::new("/"), None).unwrap();
        let mount = |path: PathBuf| Mount::readable(path.clone(), path);
        assert_eq!(found.path, script);
        assert_eq!(found.mounts, [mount(root.join("npm/lib/node_modules")), mount(node.clone())]);
        assert_eq!(found.directories, [root.join("node/bin")]);
        // By its path, too.
        assert_eq!(find(Path::new("bin/tool"), &path, &root.join("npm"), None).unwrap(), found);
        // A program of the system needs nothing.
        let shell = find(Path::new("sh"), "/usr/bin", Path::new("/"), None).unwrap();
        assert!(shell.mounts.is_empty() && shell.directories.is_empty(), "{shell:?}");
    }

    #[test]
    fn a_virtual_environment_comes_with_the_installation_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (venv, python) = (root.join("venv"), root.join("python/bin/python3.12"));
        executable(&python, "\u{7f}ELF");
        std::fs::create_dir_all(root.join("python/lib")).unwrap();
        executable(&venv.join("bin/agent"), &format!("#!{}\n", venv.join("bin/python").display()));
        symlink(&python, venv.join("bin/python")).unwrap();
        std::fs::write(venv.join("pyvenv.cfg"), "home = …\n").unwrap();
        let found = find(&venv.join("bin/agent"), "", Path::new("/"), None).unwrap();
        let mounts: Vec<&Path> = found.mounts.iter().map(|mount| mount.from.as_path()).collect();
        assert_eq!(found.path, venv.join("bin/agent"));
        assert!(mounts.contains(&venv.as_path()), "{mounts:?}");
        assert!(
            mounts.contains(&python.as_path()) && mounts.contains(&root.join("python/lib").as_path()),
            "{mounts:?}"
        );
    }

    /// Attack (Agents that the broker starts): A link or a first line in the workspace names a
    /// directory to be mounted.
    /// Defence: Nothing follows from a program in the workspace, and each mount is judged behind
    /// all links.
    #[test]
    fn nothing_follows_from_a_program_on_which_the_agent_works() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (project, secret) = (root.join("project"), root.join("secret"));
        executable(&secret.join("bin/key"), "\u{7f}ELF");
        std::fs::create_dir_all(secret.join("lib")).unwrap();
        executable(&project.join("bin/tool"), &format!("#!{}\n", secret.join("bin/key").display()));
        symlink(&secret, project.join("lib")).unwrap();
        symlink(secret.join("bin/key"), project.join("bin/link")).unwrap();
        std::fs::create_dir_all(root.join("bin")).unwrap();
        symlink(project.join("bin/tool"), root.join("bin/tool")).unwrap();
        let work = Work { place: &project, inside: Path::new("/workspace/project") };
        for (name, expected) in [
            (project.join("bin/tool"), "bin/tool"),
            (project.join("bin/link"), "bin/link"),
            (root.join("bin/tool"), "bin/tool"),
        ] {
            let found = find(&name, "", Path::new("/"), Some(work)).unwrap();
            assert_eq!(found.path, Path::new("/workspace/project").join(expected));
            assert!(found.mounts.is_empty() && found.directories.is_empty(), "{found:?}");
        }
        // A `lib` that is a link is not followed.
        executable(&root.join("own/bin/tool"), "\u{7f}ELF");
        symlink(secret.join("lib"), root.join("own/lib")).unwrap();
        let found = find(&root.join("own/bin/tool"), "", Path::new("/"), Some(work)).unwrap();
        assert_eq!(
            found.mounts.iter().map(|mount| mount.from.clone()).collect::<Vec<_>>(),
            [root.join("own/bin/tool")]
        );
    }

    #[test]
    fn a_missing_program_and_a_file_that_is_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes"), "").unwrap();
        for name in ["notes", "absent", "./notes"] {
            let why = find(Path::new(name), folder.path().to_str().unwrap(), folder.path(), None).unwrap_err();
            assert!(why.contains(name), "{why}");
        }
    }
}
