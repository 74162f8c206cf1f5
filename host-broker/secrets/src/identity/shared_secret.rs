//! The key behind the text of a shared secret, as Ash reads such texts.
//!
//! Hexadecimal if it is that, else base64 (either alphabet, all other characters passed over), else the bytes of the
//! text. Vectors: `fixtures/ash-context-tokens.json`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The key.
pub fn key(text: &str) -> Zeroizing<Vec<u8>> {
    let text = text.trim();
    Zeroizing::new(
        base16ct::mixed::decode_vec(text)
            .ok()
            .or_else(|| from_base64(text))
            .unwrap_or_else(|| text.as_bytes().to_vec()),
    )
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let kept: Zeroizing<String> = Zeroizing::new(
        text.chars()
            .map(|c| match c {
                '-' => '+',
                '_' => '/',
                other => other,
            })
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'))
            .collect(),
    );
    // Ash pads by the length of the whole text, so passed over characters may leave too little padding; too much does
    // no harm.
    let padding = (4 - text.len() % 4) % 4 + text.len() - text.trim_end_matches('=').len();
    let enough = match kept.len() % 4 {
        0 => true,
        2 => padding >= 2,
        3 => padding >= 1,
        _ => false,
    };
    if enough { LENIENT.decode(kept.as_bytes()).ok() } else { None }
}
