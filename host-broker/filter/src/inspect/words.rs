//! Two views of a text in which only its words are left.
//!
//! One has folded letters with one space between words, the other has no spaces. Punctuation, invisible characters and
//! lines are gone. Digits inside words are the letters they resemble. So the rules recognise `1gnоre\nALL-previous…`
//! and `i g n o r e`.

use super::fold::{fold, is_nothing};

/// How many bytes of a view share one note of where they came from.
const STRIDE: usize = 64;

/// A view's text, and roughly where it came from.
#[derive(Debug, Default)]
pub(super) struct Track {
    text: String,
    /// For every [`STRIDE`] bytes, an offset of the source.
    origins: Vec<usize>,
}

impl Track {
    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// About where in the source this offset of the view came from.
    pub(super) fn origin(&self, at: usize) -> usize {
        self.origins.get(at / STRIDE).or(self.origins.last()).copied().unwrap_or_default()
    }

    fn push(&mut self, c: char, at: usize) {
        self.text.push(c);
        while self.origins.len() * STRIDE < self.text.len() {
            self.origins.push(at);
        }
    }
}

/// Both views.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Words with a space before, between and after them.
    pub(super) spaced: Track,
    /// The same without spaces.
    pub(super) compact: Track,
}

/// A word that is being read.
#[derive(Default)]
struct Word {
    letters: String,
    has_letter: bool,
    has_digit: bool,
    start: usize,
}

impl Words {
    /// The views of a text.
    pub(super) fn of(text: &str) -> Self {
        let mut words = Self::default();
        words.spaced.text.reserve(text.len() + 2);
        words.compact.text.reserve(text.len());
        words.spaced.push(' ', 0);
        let mut word = Word::default();
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if is_nothing(c) {
                continue;
            }
            if c == '\\' && chars.next_if(|(_, next)| matches!(next, 'n' | 'r' | 't')).is_some() {
                // A line break as JSON writes it.
                words.end(&mut word);
                continue;
            }
            let inside = !word.letters.is_empty() && chars.peek().is_some_and(|(_, next)| next.is_alphabetic());
            match letter(c, inside) {
                Letter::Of(letter) => word.push(letter, at),
                Letter::Dropped => {}
                Letter::Gap => words.end(&mut word),
            }
        }
        words.end(&mut word);
        words
    }

    fn end(&mut self, word: &mut Word) {
        if word.letters.is_empty() {
            return;
        }
        let resembles = word.has_letter && word.has_digit;
        for c in word.letters.chars() {
            let c = if resembles { resembled(c) } else { c };
            self.spaced.push(c, word.start);
            self.compact.push(c, word.start);
        }
        self.spaced.push(' ', word.start);
        word.letters.clear();
        (word.has_letter, word.has_digit) = (false, false);
    }
}

impl Word {
    fn push(&mut self, c: char, at: usize) {
        if self.letters.is_empty() {
            self.start = at;
        }
        self.has_digit |= c.is_ascii_digit();
        self.has_letter |= !c.is_ascii_digit();
        self.letters.push(c);
    }
}

enum Letter {
    Of(char),
    /// An apostrophe: `don't` is one word.
    Dropped,
    Gap,
}

fn letter(c: char, inside: bool) -> Letter {
    match c {
        '@' if inside => Letter::Of('a'),
        '$' if inside => Letter::Of('s'),
        '!' | '|' if inside => Letter::Of('i'),
        '\'' | '’' if inside => Letter::Dropped,
        _ => {
            let c = fold(c);
            if c.is_alphanumeric() { Letter::Of(c) } else { Letter::Gap }
        }
    }
}

/// The letter that a digit inside a word is read as.
fn resembled(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_are_left() {
        for text in ["Ignore all, previous!", "1gn0re\n> A11-PREV1OUS", "ig\u{200B}nore — all **previous**"] {
            let words = Words::of(text);
            assert_eq!(words.compact.text().replace("aii", "all"), "ignoreallprevious", "{text}");
        }
        let words = Words::of("Don't\tsend p@ssw0rds 2024 to a@b.c; i g n");
        assert_eq!(words.spaced.text(), " dont send passwords 2024 to aab c i g n ");
        assert_eq!(words.compact.text(), "dontsendpasswords2024toaabcign");
    }

    #[test]
    fn a_place_in_a_view_leads_back_to_the_text() {
        let text = format!("{}needle{}", "-. ".repeat(1_000), " word".repeat(100));
        let words = Words::of(&text);
        for view in [&words.spaced, &words.compact] {
            let at = view.text().find("wordwordword").or(view.text().find(" word word")).unwrap() + 320;
            let origin = view.origin(at);
            assert!(origin.abs_diff(3_006 + 400) <= 200, "{origin}");
        }
    }
}
