//! The operator's rules: the denied paths, and the places where files may be created.

use model::{NamePatterns, PathError, PatternError, Patterns, WorkspacePath};
use shared::Code;

/// The paths that are denied by default.
pub const DENIED: [&str; 9] =
    [".env", ".env.*", "*.pem", "*id_rsa*", "*id_ed25519*", "secrets/", ".git/", ".ssh/", "*.key"];
/// Where files may be created, unless the operator says otherwise.
pub const CREATABLE: [&str; 5] = ["src/", "lib/", "tests/", "docs/", "scripts/"];

/// Names that some tool runs or obeys as soon as they lie in the root of a project. No file of such a name is created
/// there; hidden ones are not either, so `.gitlab-ci.yml` or `.envrc` need no line.
const RUN_BY_THEMSELVES: [&str; 69] = [
    // Build tools.
    "makefile*",
    "gnumakefile",
    "bsdmakefile",
    "*.mk",
    "justfile",
    "rakefile*",
    "taskfile.y*ml",
    "taskfile.dist.y*ml",
    "magefile.go",
    "sconstruct",
    "wscript",
    "cmakelists.txt",
    "cmakepresets.json",
    "cmakeuserpresets.json",
    "meson.build",
    "build.ninja",
    "build",
    "build.bazel",
    "workspace",
    "workspace.bazel",
    "module.bazel",
    "build.rs",
    "build.zig",
    "build.sh",
    "build.xml",
    "build.gradle*",
    "settings.gradle*",
    "gradle.properties",
    "gradlew*",
    "mvnw*",
    "pom.xml",
    "configure*",
    "cargo.toml",
    "rust-toolchain*",
    "go.work",
    // Package managers and the files that they load.
    "package.json",
    "pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "deno.json*",
    "bunfig.toml",
    "composer.json",
    "gemfile*",
    "*.gemspec",
    "mix.exs",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "noxfile.py",
    "tox.ini",
    "pytest.ini",
    "*.config.*",
    "gulpfile*",
    "gruntfile*",
    "*.pth",
    // Machines, containers, continuous integration.
    "dockerfile*",
    "containerfile*",
    "*compose*.y*ml",
    "vagrantfile",
    "procfile*",
    "tiltfile",
    "flake.nix",
    "shell.nix",
    "default.nix",
    "jenkinsfile*",
    "*pipeline*.y*ml",
    "{appveyor,buildspec,cloudbuild,codefresh,wercker,lefthook}.y*ml",
];

/// The rules of one workspace.
///
/// A pattern means the named path and everything beneath it, at any depth including the root, in any case; a leading
/// slash means the root only. `*` and `?` stay within one component and `**` does not; `secrets`, `secrets/`,
/// `**/secrets/**` all mean the same.
#[derive(Debug, Clone)]
pub struct PathRules {
    denied: Patterns,
    creatable: Vec<WorkspacePath>,
    runs: NamePatterns,
}

/// The operator's words are no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A pattern.
    #[error("`deny_path_globs`: {0}")]
    Pattern(#[from] PatternError),
    /// A directory.
    #[error("`allowlisted_create_dirs`: `{directory}`: {fault}")]
    Directory {
        /// As the operator wrote it.
        directory: String,
        /// The fault.
        fault: PathError,
    },
}

/// A path that the rules deny.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleBreach {
    /// A pattern denies it.
    #[error("the operator denies access to `{0}`")]
    Denied(WorkspacePath),
    /// The rules permit no new file there.
    #[error("no file may be created at `{0}`")]
    NotCreatable(WorkspacePath),
}

impl RuleBreach {
    /// The code of the refusal.
    pub fn code(&self) -> Code {
        match self {
            Self::Denied(_) => Code::PathDenied,
            Self::NotCreatable(_) => Code::CreateNotAllowed,
        }
    }
}

impl PathRules {
    /// Creates the rules from the operator's words: denied patterns, and directories in which files may be created.
    ///
    /// # Errors
    /// [`RuleError`] names the invalid word.
    pub fn new(denied: &[impl AsRef<str>], creatable: &[impl AsRef<str>]) -> Result<Self, RuleError> {
        let denied = Patterns::new(denied.iter().map(AsRef::as_ref))?;
        let runs = NamePatterns::new(RUN_BY_THEMSELVES)?;
        let creatable = creatable.iter().map(|text| directory(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { denied, creatable, runs })
    }

    /// Checks whether anybody may ask for the path at all.
    ///
    /// # Errors
    /// [`RuleBreach::Denied`] if a pattern means it, or a directory above it.
    pub fn check(&self, path: &WorkspacePath) -> Result<(), RuleBreach> {
        if self.denied.means(path) { Err(RuleBreach::Denied(path.clone())) } else { Ok(()) }
    }

    /// Checks whether a file may be created there: in an allowed directory, or in the root if its name is not hidden
    /// and no tool runs such a name by itself.
    ///
    /// # Errors
    /// [`RuleBreach`], [`RuleBreach::Denied`] before the other.
    pub fn check_creation(&self, path: &WorkspacePath) -> Result<(), RuleBreach> {
        self.check(path)?;
        let name = path.as_str();
        let in_root = path.parent().is_none() && !name.starts_with('.') && !self.runs.means(name);
        if in_root || self.creatable.iter().any(|directory| path.is_below(directory)) {
            Ok(())
        } else {
            Err(RuleBreach::NotCreatable(path.clone()))
        }
    }
}

fn directory(text: &str) -> Result<WorkspacePath, RuleError> {
    WorkspacePath::new(text.strip_suffix('/').unwrap_or(text))
        .map_err(|fault| RuleError::Directory { directory: text.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WorkspacePath {
        WorkspacePath::new(text).unwrap()
    }

    fn defaults() -> PathRules {
        PathRules::new(&DENIED, &CREATABLE).unwrap()
    }

    #[test]
    fn denied_paths_are_denied_at_every_depth_and_in_every_case() {
        let rules = defaults();
        for text in [
            ".env",
            "a/.env",
            "a/b/.ENV",
            ".env/x",
            "a/.env/b",
            ".env.local",
            "x/.Env.Production",
            "cert.pem",
            "a/CERT.PEM",
            "a/b.pem/c",
            "id_rsa",
            "my_id_rsa.bak",
            "x/id_ed25519.pub",
            "secrets",
            "secrets/x",
            "a/SECRETS/b/c",
            ".git",
            ".git/config",
            "sub/.git",
            "sub/.GIT/hooks/pre-commit",
            ".ssh/authorized_keys",
            "tls.key",
            "a/tls.KEY",
            "\u{17f}ecrets/x",
            "a/tls.\u{212a}ey",
        ] {
            assert_eq!(rules.check(&path(text)), Err(RuleBreach::Denied(path(text))), "{text}");
        }
        for text in ["env", ".environment", ".gitignore", "src/git/x", "keys", "secret/x", "mysecrets/x", "a.pem.txt"] {
            assert_eq!(rules.check(&path(text)), Ok(()), "{text}");
        }
    }

    #[test]
    fn every_way_to_write_a_directory_means_it_and_what_is_beneath() {
        for pattern in ["vault", "vault/", "**/vault", "**/vault/**", "vault/**", "./vault"] {
            let rules = PathRules::new(&[pattern], &CREATABLE).unwrap();
            for text in ["vault", "vault/x", "a/vault", "a/Vault/x/y"] {
                assert!(rules.check(&path(text)).is_err(), "{pattern} {text}");
            }
            assert!(rules.check(&path("vaults/x")).is_ok());
        }
        let rooted = PathRules::new(&["/vault"], &CREATABLE).unwrap();
        assert!(rooted.check(&path("vault/x")).is_err() && rooted.check(&path("a/vault")).is_ok());
        let narrow = PathRules::new(&["config/*.toml"], &CREATABLE).unwrap();
        assert!(narrow.check(&path("a/config/x.toml")).is_err());
        assert!(narrow.check(&path("config/a/x.toml")).is_ok(), "a star stays in its component");
    }

    #[test]
    fn files_are_created_where_it_is_allowed() {
        let rules = defaults();
        for text in ["src/a.rs", "src/deep/er/a.rs", "docs/x.md", "notes.txt", "README.md", "src/Makefile"] {
            assert_eq!(rules.check_creation(&path(text)), Ok(()), "{text}");
        }
        for text in [
            "Src/a.rs",
            "src",
            "srcs/a",
            "vendor/src/a",
            ".github/workflows/x.yml",
            ".envrc",
            ".gitlab-ci.yml",
            "Makefile",
            "makefile",
            "GNUmakefile",
            "Justfile",
            "package.json",
            "PACKAGE.JSON",
            "build.rs",
            "Dockerfile",
            "docker-compose.override.yml",
            "compose.yaml",
            "Jenkinsfile",
            "azure-pipelines.yml",
            "setup.py",
            "conftest.py",
            "vite.config.ts",
            "rust-toolchain.toml",
            "appveyor.yml",
        ] {
            // A directory of that name would have been allowed to hold files; the name itself is a root-level file.
            let allowed = text == "src";
            assert_eq!(rules.check_creation(&path(text)).is_ok(), allowed, "{text}");
        }
        assert_eq!(rules.check_creation(&path("src/.env")).unwrap_err().code(), Code::PathDenied);
        assert_eq!(rules.check_creation(&path("x/y")).unwrap_err().code(), Code::CreateNotAllowed);
    }

    #[test]
    fn a_word_that_is_no_rule_is_named() {
        for pattern in ["", "/", "a//b", "../x", "**", "a/[", "{a", "a\u{200b}"] {
            let fault = PathRules::new(&[pattern], &CREATABLE).map(|_| ()).map_err(|e| e.to_string());
            if pattern == "**" {
                continue; // Everything: strange, and what it says.
            }
            assert!(fault.unwrap_err().starts_with("`deny_path_globs`"), "{pattern}");
        }
        for directory in ["", "/", "/etc", "../x", "a/../b", "."] {
            let fault = PathRules::new(&DENIED, &[directory]).unwrap_err();
            assert!(fault.to_string().starts_with("`allowlisted_create_dirs`"), "{directory}");
        }
    }
}
