//! Letters that look alike are one letter: case, accents, styled alphabets, and the letters of other scripts that are
//! drawn like Latin ones.
//!
//! The folding is the same for texts and for the phrases that are looked for, so a script that is folded by half does
//! no harm. It is made for comparing, not for showing.

use secrets::search::view::is_invisible;
use std::borrow::Cow;

/// For U+00C0..=U+00FF, the letter without its accent.
const LATIN_1: &[u8; 64] = b"aaaaaaaceeeeiiiidnooooo.ouuuuypsaaaaaaaceeeeiiiidnooooo.ouuuuypy";

/// For U+0100..=U+017F.
const LATIN_EXTENDED_A: &[u8; 128] = b"aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkklllllll\
    lllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

/// For U+1E00..=U+1EFF.
const LATIN_ADDITIONAL: &[u8; 256] = b"aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmm\
    mmmmnnnnnnnnoooooooopppprrrrrrrrssssssssssttttttttuuuuuuuuuuvvvv\
    wwwwwwwwwwxxxxyyzzzzzzhtwyas..s.aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeee\
    eeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy......";

/// The letter that stands for all that look like this one; any other character in lower case.
pub(crate) fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let base = from_table(c).or_else(|| styled(c));
    base.unwrap_or_else(|| {
        // The first of several is enough to compare.
        let lower = c.to_lowercase().next().unwrap_or(c);
        from_table(lower).unwrap_or_else(|| drawn_like(lower))
    })
}

/// Checks whether a character adds nothing to a word: it is not seen, or only changes how the one before it is drawn.
pub(crate) fn is_nothing(c: char) -> bool {
    (is_invisible(c) && !c.is_whitespace() && !c.is_control())
        || matches!(c, '\u{300}'..='\u{36F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}')
}

/// The text with every character folded and without those that add nothing; its punctuation and lines stay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| !is_nothing(*c)).map(fold).collect())
}

fn from_table(c: char) -> Option<char> {
    let at = |first: u32| usize::try_from(u32::from(c) - first).ok();
    let letter = match c {
        '\u{C0}'..='\u{FF}' => LATIN_1.get(at(0xC0)?),
        '\u{100}'..='\u{17F}' => LATIN_EXTENDED_A.get(at(0x100)?),
        '\u{1E00}'..='\u{1EFF}' => LATIN_ADDITIONAL.get(at(0x1E00)?),
        _ => None,
    };
    letter.copied().filter(u8::is_ascii_lowercase).map(char::from)
}

/// The Latin letter that a small letter of another alphabet is drawn like.
fn drawn_like(c: char) -> char {
    match c {
        'а' | 'α' | 'ɑ' | 'ᴀ' => 'a',
        'в' | 'β' | 'ʙ' => 'b',
        'с' | 'ϲ' | 'ᴄ' | 'ℂ' | 'ℭ' => 'c',
        'ԁ' | 'ᴅ' => 'd',
        'е' | 'є' | 'ε' | 'ᴇ' | 'ℯ' | 'ℰ' => 'e',
        'ғ' | 'ꜰ' | 'ℱ' => 'f',
        'ɡ' | 'ց' | 'ɢ' | 'ℊ' => 'g',
        'һ' | 'н' | 'հ' | 'ʜ' | 'ℎ' | 'ℋ' | 'ℌ' | 'ℍ' => 'h',
        'і' | 'ι' | 'ɩ' | 'ɪ' | 'ı' | 'ℐ' | 'ℑ' | 'ℹ' => 'i',
        'ј' | 'ϳ' | 'ᴊ' => 'j',
        'к' | 'κ' | 'ᴋ' => 'k',
        'ӏ' | 'ʟ' | 'ℓ' | 'ℒ' => 'l',
        'м' | 'ᴍ' | 'ℳ' => 'm',
        'п' | 'ո' | 'η' | 'ɴ' | 'ℕ' => 'n',
        'о' | 'ο' | 'օ' | 'ᴏ' | 'σ' | 'ℴ' => 'o',
        'р' | 'ρ' | 'ᴘ' | 'ℙ' => 'p',
        'ԛ' | 'զ' | 'ℚ' => 'q',
        'г' | 'ʀ' | 'ℛ' | 'ℜ' | 'ℝ' => 'r',
        'ѕ' | 'ꜱ' => 's',
        'т' | 'τ' | 'ᴛ' => 't',
        'ս' | 'υ' | 'ᴜ' => 'u',
        'ѵ' | 'ν' | 'ᴠ' => 'v',
        'ԝ' | 'ω' | 'ᴡ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ү' | 'ʏ' => 'y',
        'ᴢ' | 'ℤ' | 'ℨ' => 'z',
        _ => c,
    }
}

/// Full width, mathematical, circled and squared letters and digits.
fn styled(c: char) -> Option<char> {
    let code = u32::from(c);
    let letter = |offset: u32| char::from_u32(u32::from(b'a') + offset % 26);
    let digit = |offset: u32| char::from_u32(u32::from(b'0') + offset % 10);
    match c {
        // Capitals that resemble another letter than their small ones do.
        'Η' => Some('h'),
        'Ν' => Some('n'),
        'Υ' => Some('y'),
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(code - 0xFEE0).map(|c| c.to_ascii_lowercase()),
        '\u{1D400}'..='\u{1D6A3}' => letter(code - 0x1D400),
        '\u{1D7CE}'..='\u{1D7FF}' => digit(code - 0x1D7CE),
        '\u{249C}'..='\u{24B5}' => letter(code - 0x249C),
        '\u{24B6}'..='\u{24E9}' => letter(code - 0x24B6),
        '\u{1F110}'..='\u{1F129}' => letter(code - 0x1F110),
        '\u{1F130}'..='\u{1F149}' => letter(code - 0x1F130),
        '\u{1F150}'..='\u{1F169}' => letter(code - 0x1F150),
        '\u{1F170}'..='\u{1F189}' => letter(code - 0x1F170),
        '\u{1F1E6}'..='\u{1F1FF}' => letter(code - 0x1F1E6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        text.chars().filter(|c| !is_nothing(*c)).map(fold).collect()
    }

    #[test]
    fn lookalike_characters_fold_to_the_word_that_they_draw() {
        for text in [
            "IGNORE",
            "ígnörè",
            "іgnоrе",
            "ｉｇｎｏｒｅ",
            "𝐢𝐠𝐧𝐨𝐫𝐞",
            "𝕀𝕘𝕟𝕠𝕣𝕖",
            "ⓘⓖⓝⓞⓡⓔ",
            "🅸🅶🅽🅾🆁🅴",
            "ɪɢɴᴏʀᴇ",
            "i\u{200B}g\u{AD}nore",
            "i\u{301}gnore",
            "ΙGΝΟRΕ",
            "🇮🇬🇳🇴🇷🇪",
        ] {
            assert_eq!(folded(text), "ignore", "{text}");
        }
    }

    #[test]
    fn a_capital_is_folded_like_its_small_letter() {
        for c in '\u{80}'..'\u{2FFF}' {
            let mut lower = c.to_lowercase();
            if let (Some(small), None, false) = (lower.next(), lower.next(), "ΗΝΥ".contains(c)) {
                assert_eq!(fold(c), fold(small), "{c} {small}");
            }
        }
    }
}
