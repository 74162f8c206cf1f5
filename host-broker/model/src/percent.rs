//! Percent-encoding of text for addresses (RFC 3986, section 2).

use std::fmt::Write as _;

/// Returns whether a byte means itself everywhere in an address (RFC 3986, section 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns a text in which every byte that is not unreserved is encoded.
pub fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut made, byte| {
        if is_unreserved(byte) {
            made.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(made, "%{byte:02X}").ok();
        }
        made
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_bytes_mean_themselves() {
        assert_eq!(encoded("aZ09-._~"), "aZ09-._~");
        assert_eq!(encoded("a&b=c d/ä%+?#"), "a%26b%3Dc%20d%2F%C3%A4%25%2B%3F%23");
    }
}
