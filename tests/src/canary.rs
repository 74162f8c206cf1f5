//! Looks for secrets where they do not belong, in every form in which they could be written.

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::path::Path;

/// A text that may not be found.
pub struct Canary {
    forms: Vec<Vec<u8>>,
    finder: AhoCorasick,
}

impl Canary {
    /// Watches for these.
    pub fn of(secrets: &[Vec<u8>]) -> Self {
        let forms: Vec<Vec<u8>> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        let finder = AhoCorasick::new(&forms).unwrap();
        Self { forms, finder }
    }

    /// The form of a secret that is in these bytes, if one is.
    pub fn find(&self, bytes: &[u8]) -> Option<String> {
        let found = self.finder.find(bytes)?;
        self.forms.get(found.pattern().as_usize()).map(|form| String::from_utf8_lossy(form).into_owned())
    }

    /// Fails if a secret is in one of the files below a directory, or in a file's name. `is_theirs` names the files
    /// in which a secret is at home.
    pub fn search(&self, directory: &Path, is_theirs: &impl Fn(&Path) -> bool) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let Ok(entry) = entry else { continue };
            let path = entry.path();
            if let Some(form) = self.find(path.as_os_str().as_encoded_bytes()) {
                panic!("a secret is in the name {} as {form}", path.display());
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                self.search(&path, is_theirs);
            } else if kind.is_file() && !is_theirs(&path) {
                // Sparse files that a test planted are not read into memory.
                if entry.metadata().is_ok_and(|metadata| metadata.len() > 256 * 1024 * 1024) {
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap_or_default();
                if let Some(form) = self.find(&bytes) {
                    panic!("a secret is in {} as {form}", path.display());
                }
            }
        }
    }
}

/// Plain, hexadecimal, base64 at every alignment, percent-encoded.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec()];
    let lower = base16ct::lower::encode_string(secret);
    forms.push(lower.to_uppercase().into_bytes());
    forms.push(lower.into_bytes());
    for (shift, cut) in [(0, 0), (1, 2), (2, 3)] {
        let shifted: Vec<u8> = std::iter::repeat_n(0, shift).chain(secret.iter().copied()).collect();
        // The parts that depend on the bytes around are not part of the form.
        let whole = shifted.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push(text.bytes().take(whole).skip(cut).collect());
        }
    }
    let all = secret.iter().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));
    forms.push(all.to_lowercase().into_bytes());
    forms.push(all.into_bytes());
    let usual = |byte: &u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    forms.push(secret.iter().map(usual).collect::<String>().into_bytes());
    forms.sort();
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_secret_is_found() {
        let canary = Canary::of(&[b"hunter2/s3cret".to_vec()]);
        let b64 = |text: &str| STANDARD_NO_PAD.encode(text);
        for text in [
            "x hunter2/s3cret y".to_owned(),
            "68756e746572322f733363726574".to_owned(),
            "hunter2%2Fs3cret".to_owned(),
            b64("hunter2/s3cret"),
            b64("xhunter2/s3crety"),
            b64("xyhunter2/s3cretz"),
            b64("xyzhunter2/s3cret!"),
        ] {
            assert!(canary.find(text.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(canary.find(b"hunter3/s3cret"), None);
    }
}
