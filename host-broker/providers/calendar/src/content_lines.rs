//! iCalendar as components of content lines (RFC 5545, section 3.1). A line that is not changed stays as it is.

use std::fmt;

/// The deepest nesting: a calendar, an event, an alarm, and two more.
const DEPTH_MAX: usize = 5;
/// The longest line that is written, in bytes.
const FOLD_BYTES: usize = 75;

/// A text is not iCalendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not iCalendar")]
pub(crate) struct Malformed;

/// A content line without its folds: `DTSTART;TZID=Europe/Berlin:20261201T100000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line(String);

/// A component: `BEGIN:VEVENT` … `END:VEVENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// The name in upper case: `VEVENT`.
    pub(crate) name: String,
    /// The lines and components in it, in their order.
    pub(crate) parts: Vec<Part>,
}

/// A part of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A line.
    Line(Line),
    /// A component.
    Component(Component),
}

impl Line {
    /// Makes a line of its text.
    pub(crate) fn raw(text: String) -> Self {
        Self(text)
    }

    /// Makes a line with another name and value, and the parameters of this one.
    pub(crate) fn with_value(&self, name: &str, value: &str) -> Self {
        let (head, _) = self.halves();
        let params = head.find(';').and_then(|at| head.get(at..)).unwrap_or_default();
        Self(format!("{name}{params}:{value}"))
    }

    /// Makes a line of a name and a text, which is escaped: `SUMMARY:Lunch\, then a walk`.
    pub(crate) fn text(name: &str, text: &str) -> Self {
        Self(format!("{name}:{}", escaped(text)))
    }

    /// Splits it into the name with its parameters, and the value.
    fn halves(&self) -> (&str, &str) {
        let mut is_quoted = false;
        let end = self.0.find(|c| {
            is_quoted ^= c == '"';
            c == ':' && !is_quoted
        });
        end.map_or((self.0.as_str(), ""), |end| {
            let (head, rest) = self.0.split_at_checked(end).unwrap_or((&self.0, ""));
            (head, rest.get(1..).unwrap_or(""))
        })
    }

    /// Returns whether it has a name of the specification and a value.
    ///
    /// SECURITY: some servers take `X1.ATTENDEE` for `ATTENDEE`. Such a name would hide a property from the broker.
    fn is_valid(&self) -> bool {
        let (head, _) = self.halves();
        let name = head.split(';').next().unwrap_or_default();
        let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_delimiter = name.eq_ignore_ascii_case("BEGIN") || name.eq_ignore_ascii_case("END");
        is_plain && head.len() < self.0.len() && !(is_delimiter && head.len() > name.len())
    }

    /// Returns whether it has this name, in any case.
    pub(crate) fn is(&self, name: &str) -> bool {
        let (head, _) = self.halves();
        head.split(';').next().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns the value as it stands.
    pub(crate) fn value(&self) -> &str {
        self.halves().1
    }

    /// Returns the value without escapes.
    pub(crate) fn unescaped(&self) -> String {
        let mut text = String::with_capacity(self.value().len());
        let mut chars = self.value().chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('n' | 'N') => text.push('\n'),
                    Some(other) => text.push(other),
                    None => {}
                },
                other => text.push(other),
            }
        }
        text
    }

    /// Returns a parameter without its quotes.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let (head, _) = self.halves();
        let mut is_quoted = false;
        let params = head.split(|c| {
            is_quoted ^= c == '"';
            c == ';' && !is_quoted
        });
        params.skip(1).find_map(|param| {
            let (own, value) = param.split_once('=')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim_matches('"'))
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn escaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\\' | ';' | ',' => value.extend(['\\', c]),
            '\n' => value.push_str("\\n"),
            other => value.push(other),
        }
    }
    value
}

impl Component {
    /// An empty component.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), parts: Vec::new() }
    }

    /// Parses one component with everything in it.
    ///
    /// # Errors
    /// [`Malformed`], also of more than one component and of components that nest too deep.
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut open: Vec<Self> = Vec::new();
        let mut whole = None;
        for line in unfolded(text.strip_prefix('\u{feff}').unwrap_or(text)) {
            if line.trim().is_empty() {
                continue;
            }
            if whole.is_some() || line.contains(|c: char| c.is_control() && c != '\t') {
                return Err(Malformed);
            }
            let line = Line(line);
            if !line.is_valid() {
                return Err(Malformed);
            }
            if line.is("BEGIN") {
                if open.len() >= DEPTH_MAX {
                    return Err(Malformed);
                }
                open.push(Self::new(&line.value().trim().to_ascii_uppercase()));
            } else if line.is("END") {
                let done = open.pop().ok_or(Malformed)?;
                if !line.value().trim().eq_ignore_ascii_case(&done.name) {
                    return Err(Malformed);
                }
                match open.last_mut() {
                    Some(parent) => parent.parts.push(Part::Component(done)),
                    None => whole = Some(done),
                }
            } else {
                open.last_mut().ok_or(Malformed)?.parts.push(Part::Line(line));
            }
        }
        whole.ok_or(Malformed)
    }

    /// Returns the lines, without those of the components in it.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.parts.iter().filter_map(|part| match part {
            Part::Line(line) => Some(line),
            Part::Component(_) => None,
        })
    }

    /// Returns the components in it.
    pub(crate) fn components(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.parts.iter().filter_map(move |part| match part {
            Part::Component(component) if component.name == name => Some(component),
            Part::Component(_) | Part::Line(_) => None,
        })
    }

    /// Returns the components in it, to be changed.
    pub(crate) fn components_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Self> {
        self.parts.iter_mut().filter_map(move |part| match part {
            Part::Component(component) if component.name == name => Some(component),
            Part::Component(_) | Part::Line(_) => None,
        })
    }

    /// Returns the first line with this name.
    pub(crate) fn line(&self, name: &str) -> Option<&Line> {
        self.lines().find(|line| line.is(name))
    }

    /// Returns whether it, or a component in it at any depth, has a line with this name.
    pub(crate) fn has_anywhere(&self, name: &str) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Line(line) => line.is(name),
            Part::Component(component) => component.has_anywhere(name),
        })
    }

    /// Adds a line at the end of the lines.
    pub(crate) fn push(&mut self, line: Line) {
        let at = self.parts.iter().position(|part| matches!(part, Part::Component(_))).unwrap_or(self.parts.len());
        self.parts.insert(at, Part::Line(line));
    }

    /// Adds a component at the end.
    pub(crate) fn push_component(&mut self, component: Self) {
        self.parts.push(Part::Component(component));
    }

    /// Removes every line with this name.
    pub(crate) fn remove(&mut self, name: &str) {
        self.parts.retain(|part| !matches!(part, Part::Line(line) if line.is(name)));
    }

    /// Puts a line in the place of the first with its name, and removes the others.
    pub(crate) fn replace(&mut self, name: &str, line: Line) {
        let at = self.parts.iter().position(|part| matches!(part, Part::Line(own) if own.is(name)));
        self.remove(name);
        match at {
            Some(at) => self.parts.insert(at.min(self.parts.len()), Part::Line(line)),
            None => self.push(line),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BEGIN:{}\r\n", self.name)?;
        for part in &self.parts {
            match part {
                Part::Line(line) => folded(&line.0, f)?,
                Part::Component(component) => component.write(f)?,
            }
        }
        write!(f, "END:{}\r\n", self.name)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

/// Returns the lines of a text without their folds.
fn unfolded(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(rest), Some(last)) => last.push_str(rest),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Writes a line in pieces of at most 75 bytes.
fn folded(line: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut width = 0;
    for c in line.chars() {
        if width + c.len_utf8() > FOLD_BYTES {
            f.write_str("\r\n ")?;
            width = 1;
        }
        width += c.len_utf8();
        write!(f, "{c}")?;
    }
    f.write_str("\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENT: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-OWN;A=\"b:c;d\":e:f\r\nBEGIN:VEVENT\r\n\
        SUMMARY:Lunch\\, then \\\r\n n a walk\r\nBEGIN:VALARM\r\nACTION:DISPLAY\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

    #[test]
    fn lines_keep_their_order_and_lose_their_folds() {
        let calendar = Component::parse(EVENT).unwrap();
        let event = calendar.components("VEVENT").next().unwrap();
        assert_eq!(event.line("summary").unwrap().unescaped(), "Lunch, then \n a walk");
        let own = calendar.line("X-OWN").unwrap();
        assert_eq!((own.param("a"), own.value()), (Some("b:c;d"), "e:f"));
        assert_eq!(Component::parse(&calendar.to_string()).unwrap(), calendar);
    }

    #[test]
    fn a_text_that_is_no_component_is_refused() {
        for bad in [
            "",
            "SUMMARY:x",
            "BEGIN:VCALENDAR",
            "END:VCALENDAR",
            "BEGIN:A\nEND:B",
            "BEGIN:A\nEND:A\nBEGIN:A\nEND:A",
            "BEGIN:A\nX:\u{0}\nEND:A",
            "BEGIN:A\nX\nEND:A",
            "BEGIN:A\nX1.ATTENDEE:mailto:eve@evil.example\nEND:A",
            "BEGIN:A\n:x\nEND:A",
            "BEGIN:A\nBEGIN;X=1:B\nEND:B\nEND:A",
            "BEGIN:A\nEND;X=1:A",
        ] {
            assert_eq!(Component::parse(bad), Err(Malformed), "{bad}");
        }
        let deep = format!("{}{}", "BEGIN:A\n".repeat(DEPTH_MAX + 1), "END:A\n".repeat(DEPTH_MAX + 1));
        assert_eq!(Component::parse(&deep), Err(Malformed));
    }

    #[test]
    fn a_line_is_replaced_where_it_stood() {
        let mut event = Component::parse("BEGIN:E\nA:1\nB:2\nb:3\nC:4\nEND:E").unwrap();
        event.replace("B", Line::raw("B:5".to_owned()));
        event.replace("D", Line::raw("D:6".to_owned()));
        assert_eq!(event.to_string(), "BEGIN:E\r\nA:1\r\nB:5\r\nC:4\r\nD:6\r\nEND:E\r\n");
    }

    proptest! {
        #[test]
        fn any_text_survives_in_one_property(text in "[^\\p{Cc}]{0,200}(\n[^\\p{Cc}]{0,100})?") {
            let mut event = Component::new("VEVENT");
            event.push(Line::text("DESCRIPTION", &text));
            let written = event.to_string();
            prop_assert!(written.split("\r\n").all(|line| line.len() <= FOLD_BYTES));
            let read = Component::parse(&written).unwrap();
            prop_assert_eq!(read.lines().count(), 1);
            prop_assert_eq!(read.line("DESCRIPTION").unwrap().unescaped(), text);
        }

        #[test]
        fn no_bytes_make_the_parser_fail_otherwise(text in ".{0,300}") {
            drop(Component::parse(&text));
        }
    }
}
