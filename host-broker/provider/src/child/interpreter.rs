//! The interpreter of a program, if a virtual environment only has a link to it.
//!
//! `/opt/venv/bin/server` begins with `#!/opt/venv/bin/python`, which is a link to `/opt/python/bin/python3.12`. If a
//! program sees the environment and the link leads out of it, the interpreter would not be found.

use super::Settings;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The longest first line that names an interpreter, in bytes: the kernel's own limit.
const LINE_MAX: u64 = 256;
/// The longest file that describes a virtual environment, in bytes.
const VENV_MAX: u64 = 4096;
/// The directories of programs that every sandbox has.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Returns the paths that the program needs besides those that it is given. They are the target of an interpreter's
/// link, and the installation that a virtual environment was made from. An interpreter that is shown anyway adds
/// nothing.
pub(super) fn beside(settings: &Settings) -> Vec<PathBuf> {
    let Some(program) = settings.command.first().map(Path::new).filter(|program| program.is_absolute()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for program in [Some(program.to_owned()), interpreter(program)].into_iter().flatten() {
        let is_link = program.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let Some(real) = program.canonicalize().ok().filter(|_| is_link) else { continue };
        found.push(real);
        found.extend(installation(&program));
    }
    let is_shown = |path: &Path| {
        let mut given = settings.readable.iter().chain(&settings.writable);
        SYSTEM.iter().any(|system| path.starts_with(system)) || given.any(|shown| path.starts_with(shown))
    };
    found.retain(|path| !is_shown(path));
    found.dedup();
    found
}

/// Returns the interpreter that a script names in its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    line(script).map(|(path, _argument)| path).filter(|path| path.is_absolute())
}

/// Returns the interpreter that a script names in its first line, and the one argument that the kernel gives it.
pub fn line(script: &Path) -> Option<(PathBuf, Option<String>)> {
    // Opening a pipe would wait for its other end.
    if !script.metadata().ok()?.is_file() {
        return None;
    }
    let mut line = Vec::new();
    let mut reader = BufReader::new(File::open(script).ok()?.take(LINE_MAX));
    reader.read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (path, argument) = line.split_at_checked(end)?;
    let argument = String::from_utf8_lossy(argument.trim_ascii()).into_owned();
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    (end > 0).then_some((path, Some(argument).filter(|argument| !argument.is_empty())))
}

/// Returns the installation that this interpreter's virtual environment was made from: the directory above its `bin`.
fn installation(interpreter: &Path) -> Option<PathBuf> {
    let description = interpreter.parent()?.parent()?.join("pyvenv.cfg");
    let mut text = String::new();
    File::open(description).ok()?.take(VENV_MAX).read_to_string(&mut text).ok()?;
    let home = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    })?;
    let home = home.canonicalize().ok()?;
    // SECURITY: only an installation has a `bin` and a `lib`; `/` and a person's own directory are none.
    let installation = (home.file_name()? == "bin").then(|| home.parent().map(Path::to_owned))??;
    installation.join("lib").is_dir().then_some(installation).filter(|path| path.parent().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_interpreter_outside_of_its_environment_is_readable_too() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (python, venv) = (root.join("python"), root.join("venv"));
        for folder in [python.join("bin"), python.join("lib"), venv.join("bin")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(python.join("bin/python3.12"), "").unwrap();
        symlink(python.join("bin/python3.12"), venv.join("bin/python")).unwrap();
        std::fs::write(venv.join("pyvenv.cfg"), format!("home = {}\n", python.join("bin").display())).unwrap();
        let script = venv.join("bin/server");
        std::fs::write(&script, format!("#!{}\nimport server\n", venv.join("bin/python").display())).unwrap();
        let settings = |program: &Path, readable: &[&Path]| Settings {
            readable: readable.iter().map(|path| path.to_path_buf()).collect(),
            ..toml::from_str(&format!("command = [{program:?}]")).unwrap()
        };
        let expected = [python.join("bin/python3.12"), python.clone()];
        assert_eq!(beside(&settings(&script, &[&venv])), expected);
        assert_eq!(beside(&settings(&venv.join("bin/python"), &[&venv])), expected);
        // A path that is shown anyway is not named again.
        assert_eq!(beside(&settings(&script, &[&venv, &python])), Vec::<PathBuf>::new());
        assert_eq!(beside(&settings(Path::new("/bin/sh"), &[])), Vec::<PathBuf>::new());
    }
}
