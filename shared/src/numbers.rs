//! Whole numbers in messages: with their noun, and with their range.

use std::fmt::Display;

/// Returns a number with its noun.
///
/// ```
/// assert_eq!(shared::numbers::counted(1, "row", "rows"), "1 row");
/// assert_eq!(shared::numbers::counted(2_u64, "reply", "replies"), "2 replies");
/// assert_eq!(shared::numbers::counted(0_usize, "row", "rows"), "0 rows");
/// ```
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    format!("{count} {}", if count == N::from(1) { one } else { many })
}

/// Splits serde's ``invalid value: integer `-1`, expected u32`` into the value and the range of the type; `None` if the
/// message names no type of whole numbers.
///
/// ```
/// let (said, range) = shared::numbers::range_of("invalid value: integer `-1`, expected u32").unwrap();
/// assert_eq!((said, range.as_str()), ("invalid value: integer `-1`", "0 to 4294967295"));
/// assert_eq!(shared::numbers::range_of("invalid type: null, expected a string"), None);
/// ```
pub fn range_of(fault: &str) -> Option<(&str, String)> {
    let (said, name) = fault.rsplit_once(", expected ")?;
    let most = match name.split_once(' ').map_or(name, |(name, _place)| name) {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => u64::MAX,
        _ => return None,
    };
    Some((said, format!("0 to {most}")))
}
