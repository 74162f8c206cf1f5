//! Decodes a text in every way that a reader might, and searches. Shares nothing with the implementation: every
//! decoder here reads forwards, one layer at a time.

use std::collections::HashSet;

/// Checks whether any eight bytes in a row of the secret can be read out of the text.
pub(super) fn is_readable(text: &str, secret: &str) -> Option<String> {
    let parts = windows(secret.as_bytes());
    let squeezed_parts = windows(&squeeze(secret.as_bytes()));
    for (layers, bytes) in decodings(text.as_bytes()) {
        let squeezed = squeeze(&bytes);
        for (bytes, plain_parts) in [(&bytes, &parts), (&squeezed, &squeezed_parts)] {
            let lower = bytes.to_ascii_lowercase();
            let backwards: Vec<u8> = lower.iter().rev().copied().collect();
            for (how, haystack) in [("plain", lower), ("backwards", backwards)] {
                if contains_any(&haystack, plain_parts) {
                    return Some(format!("{how} after {layers:?}"));
                }
            }
            let mut encoded = base64_readings(bytes).into_iter().chain(hex_readings(bytes));
            if encoded.any(|reading| contains_any(&reading.to_ascii_lowercase(), &parts)) {
                return Some(format!("encoded after {layers:?}"));
            }
        }
    }
    None
}

fn eights(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.windows(8).map(|window| u64::from_be_bytes(window.try_into().unwrap()))
}

fn windows(secret: &[u8]) -> HashSet<u64> {
    eights(&secret.to_ascii_lowercase()).collect()
}

fn contains_any(haystack: &[u8], parts: &HashSet<u64>) -> bool {
    eights(haystack).any(|eight| parts.contains(&eight))
}

fn squeeze(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|b| !b.is_ascii_whitespace() && !matches!(b, b'"' | b'\'' | b',')).collect()
}

type Decoder = fn(&[u8]) -> Vec<u8>;

fn decodings(bytes: &[u8]) -> Vec<(Vec<&'static str>, Vec<u8>)> {
    let mut all = vec![(vec![], bytes.to_vec())];
    let mut seen = HashSet::from([bytes.to_vec()]);
    let steps: [(&str, Decoder); 2] = [("percent", percent), ("json", json)];
    let mut from = 0;
    for _ in 0..3 {
        let to = all.len();
        for index in from..to {
            for (name, step) in steps {
                let (layers, bytes) = &all[index];
                let decoded = step(bytes);
                if seen.insert(decoded.clone()) {
                    let layers = layers.iter().copied().chain([name]).collect();
                    all.push((layers, decoded));
                }
            }
        }
        from = to;
    }
    all
}

fn percent(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn json(bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        if bytes[at] != b'\\' || next.is_none() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let unit = |at: usize| {
            let digits = bytes.get(at + 2..at + 6).and_then(|d| std::str::from_utf8(d).ok())?;
            (bytes[at..].starts_with(b"\\u")).then(|| u16::from_str_radix(digits, 16).ok()).flatten()
        };
        match (unit(at), next) {
            (Some(first), _) => {
                let units: Vec<u16> = [Some(first), unit(at + 6).filter(|_| (0xD800..0xDC00).contains(&first))]
                    .into_iter()
                    .flatten()
                    .collect();
                out.extend(String::from_utf16_lossy(&units).bytes());
                at += 6 * units.len();
            }
            (None, Some(letter)) => {
                out.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => other,
                });
                at += 2;
            }
            (None, None) => at += 1,
        }
    }
    out
}

fn base64_readings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    runs(bytes, value, 4, 6)
}

fn hex_readings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let value = |b: u8| char::from(b).to_digit(16).map(|v| u8::try_from(v).unwrap());
    runs(bytes, value, 2, 4)
}

/// Every run of digits, read from each of its first places, forwards and backwards.
fn runs(bytes: &[u8], value: impl Fn(u8) -> Option<u8>, places: usize, bits: u32) -> Vec<Vec<u8>> {
    let mut readings = Vec::new();
    for run in bytes.split(|b| value(*b).is_none()).filter(|run| run.len() >= 10) {
        let forwards: Vec<u8> = run.iter().filter_map(|b| value(*b)).collect();
        let backwards: Vec<u8> = forwards.iter().rev().copied().collect();
        for digits in [forwards, backwards] {
            for place in 0..places {
                let (mut buffer, mut held, mut out) = (0u32, 0, Vec::new());
                for digit in digits.iter().skip(place) {
                    buffer = (buffer << bits | u32::from(*digit)) & 0xFFFF;
                    held += bits;
                    if held >= 8 {
                        held -= 8;
                        out.push(u8::try_from(buffer >> held & 0xFF).unwrap());
                    }
                }
                readings.push(out);
            }
        }
    }
    readings
}

#[test]
fn the_search_reads_every_form() {
    for text in [
        "SECRET-value",
        "eulav-terces",
        "c2VjcmV0LXZhbHVl",
        "xc2VjcmV0LXZhbHVlx",
        "7365637265742D76616C7565",
        "%73%65%63ret%2dvalue",
        "%2573ecret-value",
        r"\u0073ecret-value",
        r"\\u0073ecret-value",
        "sec\",\n\"ret-value",
    ] {
        assert!(is_readable(text, "secret-value").is_some(), "{text}");
    }
    assert_eq!(is_readable("nothing to see", "secret-value"), None);
}
