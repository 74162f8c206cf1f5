//! Names in the heads of a patch, as git writes them.

use crate::patch::sections::Malformed;
use std::borrow::Cow;

/// A name that fills the rest of a line: quoted, or as it is.
pub(super) fn whole(text: &[u8]) -> Result<Cow<'_, [u8]>, Malformed> {
    if text.first() != Some(&b'"') {
        return Ok(Cow::Borrowed(text));
    }
    match unquote(text)? {
        (name, []) => Ok(Cow::Owned(name)),
        (_, _rest) => Err(Malformed::Name),
    }
}

/// The name behind `--- ` or `+++ `, which ends at a tab; `None` is `/dev/null`.
pub(super) fn of_side<'a>(text: &'a [u8], prefix: &[u8]) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
    let text =
        if text.first() == Some(&b'"') { text } else { text.split(|byte| *byte == b'\t').next().unwrap_or(text) };
    let name = match unquoted_with_rest(text)? {
        (name, [] | [b'\t', ..]) => name,
        (_, _rest) => return Err(Malformed::Name),
    };
    if *name == *b"/dev/null" {
        return Ok(None);
    }
    stripped(name, prefix).map(Some)
}

/// The name that both halves behind `diff --git ` agree on; `None` if they do not, as in a rename.
pub(super) fn of_both(text: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Malformed> {
    if text.contains(&b'"') {
        let (old, new) = if text.first() == Some(&b'"') {
            let (old, rest) = unquote(text)?;
            (Cow::Owned(old), whole(rest.strip_prefix(b" ").ok_or(Malformed::Name)?)?)
        } else {
            let at = text.windows(2).position(|pair| pair == b" \"").ok_or(Malformed::Name)?;
            let (old, new) = text.split_at_checked(at).ok_or(Malformed::Name)?;
            (Cow::Borrowed(old), whole(new.strip_prefix(b" ").ok_or(Malformed::Name)?)?)
        };
        let (old, new) = (stripped(old, b"a/")?, stripped(new, b"b/")?);
        return Ok((old == new).then_some(new));
    }
    // A name may have spaces in it, so the middle is where both halves are the same: `a/NAME b/NAME`.
    let rest = text.strip_prefix(b"a/").ok_or(Malformed::Prefix)?;
    let length = rest.len().checked_sub(3).ok_or(Malformed::Name)? / 2;
    let (old, new) = rest.split_at_checked(length).ok_or(Malformed::Name)?;
    Ok((new.strip_prefix(b" b/") == Some(old)).then_some(Cow::Borrowed(old)))
}

fn stripped<'a>(name: Cow<'a, [u8]>, prefix: &[u8]) -> Result<Cow<'a, [u8]>, Malformed> {
    match name {
        Cow::Borrowed(name) => name.strip_prefix(prefix).map(Cow::Borrowed),
        Cow::Owned(name) => name.strip_prefix(prefix).map(|rest| Cow::Owned(rest.to_vec())),
    }
    .ok_or(Malformed::Prefix)
}

fn unquoted_with_rest(text: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), Malformed> {
    if text.first() == Some(&b'"') {
        unquote(text).map(|(name, rest)| (Cow::Owned(name), rest))
    } else {
        Ok((Cow::Borrowed(text), &[]))
    }
}

/// Returns a name in quotes, as C writes strings, and the text after it.
fn unquote(text: &[u8]) -> Result<(Vec<u8>, &[u8]), Malformed> {
    let mut rest = text.strip_prefix(b"\"").ok_or(Malformed::Name)?;
    let mut name = Vec::new();
    loop {
        let (byte, after) = rest.split_first().ok_or(Malformed::Name)?;
        rest = after;
        match byte {
            b'"' => return Ok((name, rest)),
            b'\\' => {
                let (escape, after) = rest.split_first().ok_or(Malformed::Name)?;
                rest = after;
                name.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => 9,
                    b'n' => 10,
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => 13,
                    b'"' | b'\\' => *escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_first_chunk::<2>().ok_or(Malformed::Name)?;
                        rest = after;
                        digits.iter().try_fold(escape - b'0', |value, digit| match digit {
                            b'0'..=b'7' => Ok(value * 8 + (digit - b'0')),
                            _ => Err(Malformed::Name),
                        })?
                    }
                    _ => return Err(Malformed::Name),
                });
            }
            other => name.push(*other),
        }
    }
}
