//! `.env` files.
//!
//! `NAME=value`, one a line, `export` allowed before the name, `#` begins a comment at the start of a line and
//! after white space. `'…'` is taken as it is; `"…"` knows `\n \r \t \\ \" \$`; both may go over several lines.
//! A later line wins. Nothing is interpolated: a secret may contain `$`.

use zeroize::Zeroizing;

/// The value of a name, or the number of the first line that is not understood.
pub(super) fn lookup(content: &str, wanted: &str) -> Result<Option<Zeroizing<String>>, usize> {
    let mut found = None;
    let mut rest = content.strip_prefix('\u{FEFF}').unwrap_or(content);
    loop {
        rest = rest.trim_start();
        let line = 1 + content.bytes().take(content.len() - rest.len()).filter(|b| *b == b'\n').count();
        if rest.is_empty() {
            return Ok(found);
        }
        if rest.starts_with('#') {
            rest = after_line(rest);
            continue;
        }
        let (name, after) = split_name(rest).ok_or(line)?;
        let (value, after) = split_value(after).ok_or(line)?;
        rest = after_comment(after).ok_or(line)?;
        if name == wanted {
            found = Some(value);
        }
    }
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}

/// Returns the name, and the text after the `=`.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().next()?;
    let (name, _) = line.split_once('=')?;
    let after = text.get(name.len() + 1..)?;
    let name = name.trim();
    let exported = name.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t']));
    let name = exported.map_or(name, str::trim_start);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, after))
}

/// Returns the value, and the text after it.
fn split_value(text: &str) -> Option<(Zeroizing<String>, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    if let Some(inside) = text.strip_prefix('\'') {
        let (value, after) = inside.split_once('\'')?;
        return Some((Zeroizing::new(value.to_owned()), after));
    }
    if let Some(inside) = text.strip_prefix('"') {
        return split_quoted(inside);
    }
    let end = text.find('\n').unwrap_or(text.len());
    let (line, after) = text.split_at_checked(end)?;
    let is_comment = |(at, _): &(usize, &str)| line.get(..*at).is_none_or(|l| l.is_empty() || l.ends_with([' ', '\t']));
    let end = line.match_indices('#').find(is_comment).map_or(line.len(), |(at, _)| at);
    Some((Zeroizing::new(line.get(..end)?.trim_end().to_owned()), after))
}

fn split_quoted(inside: &str) -> Option<(Zeroizing<String>, &str)> {
    let mut value = Zeroizing::new(String::with_capacity(inside.len()));
    let mut chars = inside.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('\\' | '"' | '$') => value.push(c),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
}

/// Returns the text after a value: nothing or a comment until the end of the line.
fn after_comment(text: &str) -> Option<&str> {
    let line = text.lines().next().unwrap_or_default().trim();
    (line.is_empty() || line.starts_with('#')).then(|| after_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(content: &str) -> Result<Option<String>, usize> {
        lookup(content, "X").map(|found| found.map(|value| value.to_string()))
    }

    #[test]
    fn values_are_read_as_their_authors_meant_them() {
        for (content, expected) in [
            ("X=abc", "abc"),
            ("\u{FEFF}# first\n\n  export X = abc  # comment\n", "abc"),
            ("X=a#b", "a#b"),
            ("X=a=b==", "a=b=="),
            ("X='a # $b \\n'", "a # $b \\n"),
            (r#"X="a\n\"b\" \\ \$c \d" # end"#, "a\n\"b\" \\ $c \\d"),
            ("X=\"one\ntwo\"\r\nY=1", "one\ntwo"),
            ("X=abc\r\nY=1\r\n", "abc"),
            ("X=$HOME/${Y}", "$HOME/${Y}"),
            ("X=1\nX=2", "2"),
            ("Y='\nX=no\n'\nX=yes", "yes"),
            ("X=", ""),
            ("X= # nothing", ""),
        ] {
            assert_eq!(value(content), Ok(Some(expected.to_owned())), "{content}");
        }
        assert_eq!(value("# X=abc\nXX=1\nx=2"), Ok(None));
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (content, line) in
            [("X", 1), ("\n\n=abc", 3), ("X='abc", 1), ("Y=1\nX=\"abc\\\"", 2), ("X='a' b", 1), ("a b=c", 1)]
        {
            assert_eq!(value(content), Err(line), "{content}");
        }
    }
}
