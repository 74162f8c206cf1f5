//! A path in a workspace, valid for requests and cards.

use shared::Code;
use std::fmt;
use std::str::FromStr;

/// The longest path, in bytes.
const BYTES_MAX: usize = 1024;
/// The longest component, in bytes: the limit of Linux file systems, less the length of a temporary name.
const COMPONENT_BYTES_MAX: usize = 200;
/// The most components.
const COMPONENTS_MAX: usize = 32;

/// A relative path in a workspace: `src/main.rs`.
///
/// It has components, none of them empty, `.` or `..`, and a person can read it. No character in it is invisible, turns
/// the direction of writing, or is a kind of space other than the space between two words. A backslash is a character
/// like any other, as it is for Linux. The type does not prove that the file exists or may be touched.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

/// The reason why a text is no path in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It begins at the root of the file system.
    #[error("the path is absolute; paths are relative to the workspace")]
    Absolute,
    /// A component is `..`.
    #[error("the path has `..` in it")]
    Outside,
    /// It is not normal: `a//b`, `a/./b`, `a/`.
    #[error("the path has an empty component or `.` in it")]
    NotNormal,
    /// Too many bytes.
    #[error("the path is longer than {BYTES_MAX} bytes, or a part of it is longer than {COMPONENT_BYTES_MAX}")]
    TooLong,
    /// Too many components.
    #[error("the path has more than {COMPONENTS_MAX} parts")]
    TooDeep,
    /// A character that a person cannot see, or that changes how others look.
    #[error("the path contains the invisible or control character U+{:04X}", u32::from(*.0))]
    Unreadable(char),
    /// A component begins or ends with a space, which a person cannot see.
    #[error("a part of the path begins or ends with a space")]
    OuterSpace,
    /// Bytes that are no text.
    #[error("the path is not UTF-8")]
    NotText,
}

impl PathError {
    /// Returns the code of the refusal.
    pub fn code(self) -> Code {
        match self {
            Self::Absolute | Self::Outside => Code::PathOutside,
            Self::Empty
            | Self::NotNormal
            | Self::TooLong
            | Self::TooDeep
            | Self::Unreadable(_)
            | Self::OuterSpace
            | Self::NotText => Code::InvalidParams,
        }
    }
}

impl WorkspacePath {
    /// Parses a path. It removes one leading `./`, because people and tools write it. It repairs no other error.
    ///
    /// # Errors
    /// [`PathError`], the first that is found.
    pub fn new(text: &str) -> Result<Self, PathError> {
        let text = text.strip_prefix("./").unwrap_or(text);
        if text.is_empty() || text == "." {
            return Err(PathError::Empty);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if text.len() > BYTES_MAX || text.split('/').any(|part| part.len() > COMPONENT_BYTES_MAX) {
            return Err(PathError::TooLong);
        }
        if text.split('/').count() > COMPONENTS_MAX {
            return Err(PathError::TooDeep);
        }
        if text.split('/').any(|part| part == "..") {
            return Err(PathError::Outside);
        }
        if text.split('/').any(|part| part.is_empty() || part == ".") {
            return Err(PathError::NotNormal);
        }
        if let Some(hidden) = text.chars().find(|c| conceals(*c)) {
            return Err(PathError::Unreadable(hidden));
        }
        if text.split('/').any(|part| part.starts_with(' ') || part.ends_with(' ')) {
            return Err(PathError::OuterSpace);
        }
        Ok(Self(text.to_owned()))
    }

    /// Parses a path from bytes.
    ///
    /// # Errors
    /// [`PathError`], also if they are not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PathError> {
        std::str::from_utf8(bytes).map_err(|_where| PathError::NotText).and_then(Self::new)
    }

    /// Returns the path, without a leading `./`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// Returns the directory that it is in; `None` is the workspace itself.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Returns the path and the directories above it, from the outermost: `a`, `a/b`, `a/b/c`.
    pub fn ancestry(&self) -> impl Iterator<Item = &str> {
        let whole = std::iter::once(&*self.0);
        self.0.match_indices('/').filter_map(|(at, _)| self.0.get(..at)).chain(whole)
    }

    /// Returns whether it is below the other path.
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Checks whether a character cannot be seen or changes how its neighbours are shown. These are controls, spaces that
/// are not the space, marks of direction, and characters that Unicode lets displays ignore. Some file systems that fold
/// case ignore the last of these in names, so they would also be a second name for a denied file.
pub fn conceals(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

impl FromStr for WorkspacePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::new(text)
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_relative_paths_are_accepted() {
        for text in
            ["a", "src/main.rs", ".env", "a b/c d.txt", "ä/日本語.md", "a\\b", "...", "..a/b..", "~", "-rf", "a:b"]
        {
            assert_eq!(WorkspacePath::new(text).unwrap().as_str(), text);
        }
        assert_eq!(WorkspacePath::new("./src/x").unwrap().as_str(), "src/x");
    }

    #[test]
    fn paths_outside_the_workspace_are_refused() {
        for text in ["/", "/etc/passwd", ".//etc/passwd", "..", "../x", "a/../../x", "a/..", "./.."] {
            assert_eq!(WorkspacePath::new(text).unwrap_err().code(), Code::PathOutside, "{text}");
        }
    }

    #[test]
    fn unreadable_and_unnormalised_paths_are_refused() {
        use PathError::{Empty, NotNormal, OuterSpace, TooDeep, TooLong, Unreadable};
        for (text, fault) in [
            ("", Empty),
            (".", Empty),
            ("./", Empty),
            ("a//b", NotNormal),
            ("a/", NotNormal),
            ("a/./b", NotNormal),
            ("././a", NotNormal),
            ("a\0b", Unreadable('\0')),
            ("a\nb", Unreadable('\n')),
            ("a\u{1b}[31m", Unreadable('\u{1b}')),
            ("a\u{85}", Unreadable('\u{85}')),
            ("fdp\u{202e}.exe", Unreadable('\u{202e}')),
            (".g\u{200c}it/config", Unreadable('\u{200c}')),
            ("\u{feff}a", Unreadable('\u{feff}')),
            ("a\u{a0}b", Unreadable('\u{a0}')),
            (".env\u{fe0f}", Unreadable('\u{fe0f}')),
            (".env ", OuterSpace),
            ("a/ b", OuterSpace),
        ] {
            assert_eq!(WorkspacePath::new(text), Err(fault), "{text:?}");
            assert_eq!(fault.code(), Code::InvalidParams);
        }
        assert_eq!(WorkspacePath::new(&"a".repeat(201)), Err(TooLong));
        assert_eq!(WorkspacePath::new(&"aaaaaaaa/".repeat(200)), Err(TooLong));
        assert_eq!(WorkspacePath::new(&vec!["a"; 33].join("/")), Err(TooDeep));
        assert!(WorkspacePath::new(&vec!["a"; 32].join("/")).is_ok());
        assert_eq!(WorkspacePath::from_bytes(b"a\xff"), Err(PathError::NotText));
    }

    #[test]
    fn a_path_knows_its_directories() {
        let path = WorkspacePath::new("a/b/c").unwrap();
        assert_eq!(path.ancestry().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!((path.name(), path.parent().unwrap().as_str()), ("c", "a/b"));
        assert!(path.is_below(&path.parent().unwrap()) && !path.is_below(&path));
        assert!(!WorkspacePath::new("ab").unwrap().is_below(&WorkspacePath::new("a").unwrap()));
        assert_eq!(WorkspacePath::new("a").unwrap().parent(), None);
    }
}
