//! Times written as seconds or milliseconds since 1970.
//!
//! Any number of ten digits could be one. So such a number counts as a time only if half of the lines have one as the
//! same word. None may be later than the file's last change, and no written date may stand before it.

use super::prefix::inside;
use super::{FRONT, at_front};
use crate::time;
use crate::time::Frame;

/// How many words of a line are looked at.
const WORDS: usize = 8;
/// How far into a line they may reach.
const REACH: usize = 256;

/// Returns the number of the word that is a time, counted from 0, in a file with these first lines.
pub(super) fn column(head: &[Vec<u8>], frame: Frame) -> Option<usize> {
    let begins = |line: &&Vec<u8>| line.first().is_some_and(|b| !b.is_ascii_whitespace());
    let lines = head.iter().filter(begins).count();
    let enough = |column: &usize| {
        let with = head.iter().filter(|line| at(line, *column, frame).is_some()).count();
        let dated = head.iter().filter(|line| at_front(line).is_some() && at(line, *column, frame).is_none()).count();
        with > dated && with * 2 >= lines
    };
    let column = (0..WORDS).find(enough)?;
    let first = head.iter().find(|line| at(line, column, frame).is_some())?;
    let (_, after) = at(first, column, frame)?;
    let dated = match at_front(first) {
        Some((_, rest)) => Some(rest.len()),
        None => inside(first).map(|(_, _, rest)| rest.len()),
    };
    // The stamp that leaves more of the line behind it stands further in front.
    dated.is_none_or(|rest| rest < after.len()).then_some(column)
}

/// Returns the time in this word of a line, in milliseconds, and the text after it.
pub(super) fn at(line: &[u8], column: usize, frame: Frame) -> Option<(i64, &[u8])> {
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let mut rest = line;
    for _ in 0..column {
        let end = rest.iter().take(REACH).position(|b| matches!(b, b' ' | b'\t'))?;
        let spaces = rest.get(end..)?.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        rest = rest.get(end + spaces..)?;
    }
    // `1771063238.811`, `[1771063238]`, `msg=audit(1771063238.811:24287):`.
    let opening = rest.iter().take(FRONT).take_while(|b| !b.is_ascii_digit()).position(|b| matches!(b, b' ' | b'\t'));
    if opening.is_some() {
        return None;
    }
    let start = rest.iter().take(FRONT).position(u8::is_ascii_digit)?;
    let (before, number) = rest.split_at_checked(start)?;
    if before.last().is_some_and(|b| !b"[(<=\"|".contains(b)) {
        return None;
    }
    let whole = digits(number);
    let (text, after) = match number.get(whole..)?.split_first() {
        Some((b'.', fraction)) if digits(fraction) > 0 => number.split_at_checked(whole + 1 + digits(fraction))?,
        _ => number.split_at_checked(whole)?,
    };
    let ends = after.first().is_none_or(|b| b" \t:,;])>|\"".contains(b));
    let usual = matches!(whole, 10 | 13 | 16 | 19) && number.first() != Some(&b'0');
    if !ends || !usual {
        return None;
    }
    let number: serde_json::Number = serde_json::from_slice(text).ok()?;
    time::epoch(&number).filter(|millis| *millis <= frame.ceiling()).map(|millis| (millis, after))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}
