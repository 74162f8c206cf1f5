//! Glob patterns of paths and file names in a workspace.

use crate::{WorkspacePath, conceals};
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of paths. Each matches a path and everything below it.
#[derive(Debug, Clone)]
pub struct Patterns(GlobSet);

/// Patterns of file names, which ignore case.
#[derive(Debug, Clone)]
pub struct NamePatterns(GlobSet);

/// A text is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}`: {fault}")]
pub struct PatternError {
    pattern: String,
    fault: String,
}

impl Patterns {
    /// Compiles patterns that match at any depth, in any case.
    ///
    /// # Errors
    /// [`PatternError`] names the first invalid pattern.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        set(patterns, anywhere).map(Self)
    }

    /// Compiles a pattern that matches in the root only, or anywhere if it begins with `**/`, and respects case.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn exactly(pattern: &str) -> Result<Self, PatternError> {
        // The pattern must satisfy the other checks as well.
        anywhere(pattern)?;
        let mut bare = pattern.strip_prefix("./").unwrap_or(pattern).trim_start_matches('/');
        while let Some(shorter) = bare.strip_suffix("/**").or_else(|| bare.strip_suffix('/')) {
            bare = shorter;
        }
        let error = |error: &globset::Error| PatternError::new(pattern, &error.kind().to_string());
        let glob = GlobBuilder::new(bare).literal_separator(true).backslash_escape(true).build();
        let mut set = GlobSetBuilder::new();
        set.add(glob.map_err(|fault| error(&fault))?);
        set.build().map(Self).map_err(|fault| error(&fault))
    }

    /// Returns whether a pattern matches the path or a directory above it, and respects case.
    pub fn means_exactly(&self, path: &WorkspacePath) -> bool {
        path.ancestry().any(|part| self.0.is_match(part))
    }

    /// Returns whether a pattern matches the path or a directory above it, in any case.
    pub fn means(&self, path: &WorkspacePath) -> bool {
        // Each directory on the way is checked, so a pattern need not end with `/**`.
        path.ancestry().any(|part| is_match(&self.0, part))
    }
}

impl NamePatterns {
    /// Compiles patterns of names.
    ///
    /// # Errors
    /// [`PatternError`] names the first invalid pattern.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        set(patterns, plain).map(Self)
    }

    /// Returns whether a pattern matches the name.
    pub fn means(&self, name: &str) -> bool {
        is_match(&self.0, name)
    }
}

impl PatternError {
    fn new(pattern: &str, fault: &str) -> Self {
        Self { pattern: pattern.to_owned(), fault: fault.to_owned() }
    }
}

fn is_match(set: &GlobSet, text: &str) -> bool {
    set.is_match(text) || set.is_match(folded(text))
}

/// Folds case as a case-insensitive file system may: `ſ` becomes `s`, `ß` becomes `ss`.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

fn set<'a>(
    patterns: impl IntoIterator<Item = &'a str>,
    globs: fn(&str) -> Result<Vec<Glob>, PatternError>,
) -> Result<GlobSet, PatternError> {
    let mut all = GlobSetBuilder::new();
    for pattern in patterns {
        for glob in globs(pattern)? {
            all.add(glob);
        }
    }
    all.build().map_err(|error| PatternError::new("all together", &error.kind().to_string()))
}

fn anywhere(pattern: &str) -> Result<Vec<Glob>, PatternError> {
    let error = |fault: &str| PatternError::new(pattern, fault);
    let bare = pattern.strip_prefix("./").unwrap_or(pattern);
    let (rooted, mut bare) = bare.strip_prefix('/').map_or((false, bare), |rest| (true, rest));
    while let Some(shorter) = bare.strip_suffix("/**").or_else(|| bare.strip_suffix('/')) {
        bare = shorter;
    }
    if bare.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(error("it is not the pattern of a path in the workspace"));
    }
    if pattern.chars().any(conceals) {
        return Err(error("it contains an invisible or control character"));
    }
    let compile = |text: String| glob(&text).map_err(|fault| error(&fault.kind().to_string()));
    let mut globs = vec![compile(bare.to_owned())?];
    if !rooted {
        globs.push(compile(format!("**/{bare}"))?);
    }
    // Paths are folded before they are matched, so patterns are folded as well.
    if folded(bare) != bare.to_lowercase() {
        globs.push(compile(format!("**/{}", folded(bare)))?);
    }
    Ok(globs)
}

fn plain(pattern: &str) -> Result<Vec<Glob>, PatternError> {
    let glob = glob(pattern).map_err(|error| PatternError::new(pattern, &error.kind().to_string()))?;
    Ok(vec![glob])
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).backslash_escape(true).build()
}
