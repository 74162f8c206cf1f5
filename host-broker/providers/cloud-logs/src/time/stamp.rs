//! Reading a point in time at the front of a text.
//!
//! By hand and byte by byte, because every line of a log that is looked through passes here.

use super::{Clock, Date, Stamp};

/// Returns the stamp at the front of a text, and the text after it.
pub(crate) fn stamp(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let first = text.first()?;
    let scan = Scan(text);
    if first.is_ascii_digit() {
        iso(scan).or_else(|| day_first(scan)).or_else(|| short(scan)).or_else(|| compact(scan))
    } else if first.is_ascii_alphabetic() {
        traditional(scan).or_else(|| klog(scan))
    } else {
        None
    }
}

/// `2026-02-14T10:00:00.123+01:00` and its kin: `/` for `-`, one or two spaces for `T`, `,` for `.`, no offset.
fn iso(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    let year = s.number(4)?;
    let mark = s.one_of(b"-/.")?;
    let month = s.number(2)?;
    s.one_of(&[mark])?;
    let day = s.number(2)?;
    s.one_of(b"Tt _")?;
    s.skip(b' ');
    let clock = s.clock()?;
    let offset = s.offset();
    let date = Date::Full { year: i32::try_from(year).ok()?, month, day };
    Some((Stamp { date, clock, offset }, s.0))
}

/// `14/Feb/2026:10:00:00 +0100`, `14 Feb 2026 10:00:00`, `14-Feb-2026 10:00:00`.
fn day_first(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    let day = s.number(2)?;
    let mark = s.one_of(b"/ -")?;
    let month = s.month()?;
    s.one_of(&[mark])?;
    let year = s.number(4)?;
    s.one_of(b": ")?;
    let clock = s.clock()?;
    let offset = s.offset();
    let date = Date::Full { year: i32::try_from(year).ok()?, month, day };
    Some((Stamp { date, clock, offset }, s.0))
}

/// `Feb  4 10:00:00`, `Feb 4 2026 10:00:00`, `Wed Feb  4 10:00:00.123 2026`.
fn traditional(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    let month = if let Some(month) = s.month() {
        month
    } else {
        s.weekday()?;
        s.one_of(b" ")?;
        s.month()?
    };
    s.one_of(b" ")?;
    s.skip(b' ');
    let day = s.number(2).or_else(|| s.number(1))?;
    s.one_of(b" ")?;
    let mut year = s.year_then_space();
    let clock = s.clock()?;
    if year.is_none() {
        let mut after = s;
        if after.one_of(b" ").is_some()
            && let Some(number) = after.number(4)
            && matches!(after.0.first(), None | Some(b']' | b' '))
            && (1970..2200).contains(&number)
        {
            (year, s) = (Some(number), after);
        }
    }
    let date = match year {
        Some(year) => Date::Full { year: i32::try_from(year).ok()?, month, day },
        None => Date::NoYear { month, day },
    };
    Some((Stamp { date, clock, offset: None }, s.0))
}

/// `I0214 10:00:00.123456`: severity, month, day.
fn klog(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    s.one_of(b"IWEF")?;
    let month = s.number(2)?;
    let day = s.number(2)?;
    s.one_of(b" ")?;
    let clock = s.clock()?;
    Some((Stamp { date: Date::NoYear { month, day }, clock, offset: None }, s.0))
}

/// `17/06/09 20:10:40`, and without a year `03-17 16:13:38.811` or `10.30 16:49:06`.
fn short(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    let one = s.number(2)?;
    let mark = s.one_of(b"-/.")?;
    let two = s.number(2)?;
    let three = s.try_read(|s| {
        s.one_of(&[mark])?;
        s.number(2)
    });
    s.one_of(b" ")?;
    let clock = s.clock()?;
    let date = match three {
        Some(three) => Date::Short([one, two, three]),
        None => Date::NoYear { month: one, day: two },
    };
    let offset = s.offset();
    Some((Stamp { date, clock, offset }, s.0))
}

/// `20260214T100000Z`, `20260214-10:0:38:811`, and with two digits of the year `260214 100038`.
fn compact(mut s: Scan<'_>) -> Option<(Stamp, &[u8])> {
    let date = s.digits();
    let year = match date.len() {
        8 => Scan(date).number(4)?,
        6 => 2000 + Scan(date).number(2)?,
        _ => return None,
    };
    let month_and_day = date.get(date.len() - 4..)?;
    let (month, day) = (Scan(month_and_day).number(2)?, Scan(month_and_day.get(2..)?).number(2)?);
    s.one_of(b"Tt -_")?;
    let clock = s.loose_clock().or_else(|| s.compact_clock())?;
    let offset = s.offset();
    let date = Date::Full { year: i32::try_from(year).ok()?, month, day };
    Some((Stamp { date, clock, offset }, s.0))
}

/// The unread part of a text. Every method either reads the element of its name or leaves the text alone.
#[derive(Clone, Copy)]
struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    fn try_read<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut ahead = *self;
        let value = read(&mut ahead)?;
        *self = ahead;
        Some(value)
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        self.try_read(|s| {
            let taken = s.take(digits)?;
            taken.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + u32::from(b - b'0')))
        })
    }

    fn one_of(&mut self, allowed: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        allowed.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    fn skip(&mut self, byte: u8) {
        while self.one_of(&[byte]).is_some() {}
    }

    fn word(&mut self, words: &[&str]) -> Option<u32> {
        self.try_read(|s| {
            let taken = s.take(3)?;
            let index = words.iter().position(|w| w.as_bytes().eq_ignore_ascii_case(taken))?;
            u32::try_from(index).ok()
        })
    }

    fn month(&mut self) -> Option<u32> {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        self.word(&MONTHS).map(|index| index + 1)
    }

    fn weekday(&mut self) -> Option<u32> {
        self.word(&["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    }

    fn year_then_space(&mut self) -> Option<u32> {
        self.try_read(|s| {
            let year = s.number(4)?;
            s.one_of(b" ")?;
            Some(year)
        })
    }

    fn clock(&mut self) -> Option<Clock> {
        self.try_read(|s| {
            let hour = s.number(2)?;
            s.one_of(b":")?;
            let minute = s.number(2)?;
            s.one_of(b":")?;
            let second = s.number(2)?;
            (hour < 24 && minute < 60 && second < 61).then_some(())?;
            Some(Clock { hour, minute, second, millis: s.fraction() })
        })
    }

    /// Returns the digits at the front.
    fn digits(&mut self) -> &'a [u8] {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        self.take(count).unwrap_or_default()
    }

    /// `100038`.
    fn compact_clock(&mut self) -> Option<Clock> {
        self.try_read(|s| {
            let (hour, minute, second) = (s.number(2)?, s.number(2)?, s.number(2)?);
            let ends = !s.0.first().is_some_and(u8::is_ascii_digit);
            (ends && hour < 24 && minute < 60 && second < 61).then_some(())?;
            Some(Clock { hour, minute, second, millis: s.fraction() })
        })
    }

    /// `9:0:38:7`: without leading zeros, the milliseconds behind a colon.
    fn loose_clock(&mut self) -> Option<Clock> {
        self.try_read(|s| {
            let hour = s.one_or_two()?;
            s.one_of(b":")?;
            let minute = s.one_or_two()?;
            s.one_of(b":")?;
            let second = s.one_or_two()?;
            (hour < 24 && minute < 60 && second < 61).then_some(())?;
            let millis = s.try_read(|s| {
                s.one_of(b":")?;
                let digits = s.digits();
                if (1..=3).contains(&digits.len()) { Scan(digits).number(digits.len()) } else { None }
            });
            Some(Clock { hour, minute, second, millis: millis.unwrap_or_else(|| s.fraction()) })
        })
    }

    fn one_or_two(&mut self) -> Option<u32> {
        self.number(2).or_else(|| self.number(1))
    }

    fn fraction(&mut self) -> u32 {
        let read = self.try_read(|s| {
            s.one_of(b".,")?;
            let (mut millis, mut place) = (0, 100);
            let mut digit = s.number(1)?;
            loop {
                millis += digit * place;
                place /= 10;
                match s.number(1) {
                    Some(next) => digit = next,
                    None => return Some(millis),
                }
            }
        });
        read.unwrap_or(0)
    }

    /// Seconds east of UTC.
    fn offset(&mut self) -> Option<i32> {
        self.try_read(|s| {
            if s.one_of(b"Zz").is_some() {
                return Some(0);
            }
            let apart = s.one_of(b" ").is_some();
            if apart && let Some(rest) = s.0.strip_prefix(b"UTC").or_else(|| s.0.strip_prefix(b"GMT")) {
                s.0 = rest;
                return Some(0);
            }
            let sign = if s.one_of(b"+-")? == b'-' { -1 } else { 1 };
            let hours = i32::try_from(s.number(2)?).ok()?;
            let colon = s.one_of(b":").is_some();
            let minutes = match s.number(2) {
                Some(minutes) => i32::try_from(minutes).ok()?,
                // `+01` only right behind the seconds, where it can be nothing else.
                None if apart || colon => return None,
                None => 0,
            };
            (!s.0.first().is_some_and(u8::is_ascii_digit)).then_some(sign * (hours * 3600 + minutes * 60))
        })
    }
}
