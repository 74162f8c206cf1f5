//! Programs that go round the types of a call's life, and the compiler's answer to each.
//!
//! The types hold: no effect without durable intent, no intent without authorization, no authorization of another
//! transaction, no secret without intent, no reply without evidence.
//!
//! | programs | crates that they can name | result |
//! | --- | --- | --- |
//! | `compile_fail/` | all | none compiles |
//! | `compile_from/PACKAGE/` | those that PACKAGE depends on | none compiles |
//! | `compile_limits/` | all | each compiles: types do not promise this |
//!
//! The compiler checks each program against the crates that the tests run with, so nothing is built for it. Its errors,
//! with their places, must be those of the file beside the program; `UPDATE_SNAPSHOTS=1` writes these files.

// Always set here; it tells the lints that all of this is test code.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the compiler is a child of the test")]
mod compile_fail {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::Mutex;
    use std::thread;
    use tests::programs::{Library, libraries};

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
    }

    /// Returns the programs of a folder.
    fn programs(folder: &Path) -> Vec<PathBuf> {
        let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut programs: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|kind| kind == "rs")).collect();
        programs.sort();
        programs
    }

    /// Asserts that none of the programs compiles, each for the reason in the file beside it.
    fn none_compiles(programs: &[PathBuf], libraries: &[Library]) {
        let faults = Mutex::new(Vec::new());
        let queue = Mutex::new(programs.iter());
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(program) = { queue.lock().unwrap().next() } {
                        faults.lock().unwrap().extend(fault(program, libraries));
                    }
                });
            }
        });
        let faults = faults.into_inner().unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// Attack (Order of the stages, and content): Code bypasses the order of the stages.
    /// Defence: It does not compile.
    #[test]
    fn nothing_goes_round_the_stages_of_a_call() {
        let programs = programs(&folder("compile_fail"));
        assert!(programs.len() >= 26, "{} programs", programs.len());
        none_compiles(&programs, &libraries());
    }

    #[test]
    fn no_crate_reaches_beyond_its_dependencies() {
        let mut count = 0;
        for entry in folder("compile_from").read_dir().unwrap().map(Result::unwrap) {
            let package = entry.file_name().into_string().unwrap();
            let mut libraries = libraries();
            let dependencies = dependencies(&package);
            libraries.retain(|library| dependencies.contains(&library.name));
            assert!(!libraries.is_empty(), "{package} depends on none of the crates");
            let programs = programs(&entry.path());
            count += programs.len();
            none_compiles(&programs, &libraries);
        }
        assert!(count >= 10, "{count} programs");
    }

    /// Returns the crates that a package depends on, by the names that programs use.
    fn dependencies(package: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = match package.strip_prefix("provider-") {
            _ if package == "mcp-shim" => root.join(package),
            Some(provider) => root.join("host-broker/providers").join(provider),
            None => root.join("host-broker").join(package),
        };
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        manifest["dependencies"].as_table().unwrap().keys().map(|name| name.replace('-', "_")).collect()
    }

    #[test]
    fn types_do_not_promise_more_than_the_pages_say() {
        let (programs, libraries) = (programs(&folder("compile_limits")), libraries());
        assert!(programs.len() >= 5, "{} programs", programs.len());
        for program in programs {
            let (compiles, errors) = check(&program, &libraries);
            assert!(compiles, "{}: {errors}", program.display());
        }
    }

    /// Checks a program; returns what is wrong with its errors.
    fn fault(program: &Path, libraries: &[Library]) -> Option<String> {
        let name = program.file_name().unwrap().to_string_lossy();
        let (compiles, errors) = check(program, libraries);
        if compiles {
            return Some(format!("{name} compiles"));
        }
        let beside = program.with_extension("stderr");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&beside, &errors).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        (errors != expected).then(|| format!("{name}: expected\n{expected}\nfound\n{errors}"))
    }

    /// Returns whether a program compiles, and its errors: one line for each, with its place.
    fn check(program: &Path, libraries: &[Library]) -> (bool, String) {
        let out = tempfile::tempdir().unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.current_dir(program.parent().unwrap()).arg(program.file_name().unwrap());
        rustc.args([
            "--edition=2024",
            "--crate-type=bin",
            "--emit=metadata",
            "--error-format=short",
            "--cap-lints=allow",
        ]);
        rustc.arg("--out-dir").arg(out.path());
        for Library { name, file } in libraries {
            let mut named = std::ffi::OsString::from(format!("{name}="));
            named.push(file);
            rustc.arg("--extern").arg(named).arg("-L").arg(format!("dependency={}", file.parent().unwrap().display()));
        }
        let output = rustc.output().expect("rustc can be started");
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }
}
