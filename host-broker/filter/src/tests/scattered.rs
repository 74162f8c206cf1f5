//! Secrets in up to five parts in random documents; ordinary documents that hold pieces of secrets by chance; the cost.

use super::placements::Random;
use super::seams::{Units, fault, forms};
use super::*;
use std::time::Instant;

const DOCUMENTS: usize = 4_000;

const SECRETS: [&str; 5] = [
    TOKEN,
    "nightly-build-credential-7",
    "correct horse battery staple",
    "пароль-ключ-и-секрет",
    "deadbeef0123456789abcdef00112233",
];

const NOISE: [&str; 8] = ["and then", "log", "x", "2026-11-24T10:00:00Z", "", "a note: see below", "{}", "zzzzzz"];

/// Cuts a form into so many parts, at any seams that leave the least units to each part.
fn cut(units: &Units, count: usize, least: usize, random: &mut Random) -> Vec<Units> {
    let (mut parts, mut rest) = (Vec::new(), units.as_slice());
    for left in (1..count).rev() {
        let part = least + random.below(rest.len() - (left + 1) * least + 1);
        parts.push(rest[..part].to_vec());
        rest = &rest[part..];
    }
    parts.push(rest.to_vec());
    parts
}

fn noise(random: &mut Random) -> Value {
    match random.below(5) {
        0 => json!(random.below(1000)),
        1 => json!(null),
        2 => json!({"note": random.pick(&NOISE)}),
        3 => json!([random.pick(&NOISE), true]),
        _ => json!(random.pick(&NOISE)),
    }
}

/// A value that holds the part at an edge of a piece or of a line: at both, if it has more than the secret.
fn place(part: &str, n: usize, has_more: bool, random: &mut Random) -> Value {
    match random.below(if has_more { 5 } else { 7 }) {
        0 => json!(part),
        1 => json!({part: noise(random)}),
        2 => json!({"t": random.pick(&NOISE), "line": part}),
        3 => json!([[noise(random)], [part]]),
        4 => json!(format!("{}\n{part}\n", random.pick(&NOISE))),
        5 => json!(format!("{n}: {part}")),
        _ => json!(format!("first\n{n}: {part}\nlast")),
    }
}

fn document(parts: &[String], has_more: bool, random: &mut Random) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        items.extend((0..random.below(4)).map(|_| noise(random)));
        items.push(place(part, n, has_more && n + 1 == parts.len(), random));
    }
    for at in (1..items.len()).rev().filter(|_| parts.len().is_multiple_of(2)) {
        items.swap(at, random.below(at + 1));
    }
    match random.below(3) {
        0 => json!(items),
        1 => Value::Object(items.into_iter().enumerate().map(|(n, item)| (format!("m{n}"), item)).collect()),
        _ => json!({"content": items, "isError": false}),
    }
}

/// Attack: see `every_form_of_a_secret_is_found_in_three_and_four_parts`.
#[test]
fn a_secret_in_up_to_five_parts_is_found_in_any_document() {
    let scrubber = scrubber(&SECRETS);
    let forms: Vec<_> = SECRETS.into_iter().flat_map(forms).collect();
    let (mut random, mut tried, mut faults) = (Random(7), 0, Vec::new());
    while tried < DOCUMENTS {
        let (form, units) = &forms[random.below(forms.len())];
        let count = 2 + random.below(4);
        // The ends of base64 depend on the bytes beside the secret, also those of base64 in it.
        let least = if form.contains("base64") { 14 } else { 5 };
        if units.len() < count * least {
            continue;
        }
        tried += 1;
        let parts = cut(units, count, least, &mut random);
        let texts: Vec<String> = parts.iter().map(|part| part.concat()).collect();
        let telling = parts.iter().zip(&texts).filter(|(part, _)| part.len() * 5 > units.len() && part.len() > 6);
        let telling: Vec<&str> = telling.map(|(_, text)| text.as_str()).collect();
        // Bytes that are encoded after the secret are text like any other.
        let has_more = form.contains("shifted") || form.contains("twice");
        let document = document(&texts, has_more, &mut random);
        if let Some(fault) = fault(&document, &telling, &scrubber) {
            faults.push(format!("{fault}: {form}, {texts:?}, {document}"));
        }
    }
    let shown = faults.iter().take(25).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {tried} leak\n{shown}", faults.len());
}

/// A value with the part as a whole piece, or as a whole line of one.
fn place_whole(part: &str, random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!(part),
        1 => json!({part: noise(random)}),
        2 => json!({"t": random.pick(&NOISE), "line": part}),
        3 => json!([[noise(random)], [part]]),
        4 => json!(format!("{}\n{part}\n", random.pick(&NOISE))),
        _ => json!(format!("first\n{part}\nlast")),
    }
}

/// The lines of one text, with noise between the parts.
fn text(parts: &[String], random: &mut Random) -> Value {
    let noise = |random: &mut Random| random.pick(&NOISE).to_owned();
    let mut lines = vec![noise(random)];
    for part in parts {
        lines.push(part.clone());
        lines.extend((0..random.below(3)).map(|_| noise(random)));
    }
    json!(lines.join("\n"))
}

/// Attack (Providers and modules): A provider makes some of these parts shorter than four bytes.
/// Defence: `filter` finds a short part if it is a whole piece or line, unless chance makes such
/// parts of so many pieces.
#[test]
fn parts_of_one_to_three_bytes_are_found_as_whole_pieces_and_lines() {
    let scrubber = scrubber(&SECRETS);
    let forms = SECRETS.into_iter().flat_map(forms);
    // The ends of base64 depend on the bytes beside the secret. Numbers of few digits say less than letters.
    let forms: Vec<_> = forms.filter(|(form, _)| !form.contains("base64") && !form.contains("decimal")).collect();
    let (mut random, mut tried, mut faults) = (Random(17), 0, Vec::new());
    while tried < DOCUMENTS {
        let (form, units) = &forms[random.below(forms.len())];
        let count = 3 + random.below(3);
        let mut parts = cut(units, count - 1, 1, &mut random);
        // One part at least is short.
        let longest = (0..parts.len()).max_by_key(|part| parts[*part].len()).unwrap_or_default();
        let rest = parts[longest].split_off(1);
        parts.insert(longest + 1, rest);
        if parts.iter().all(|part| part.len() < 5) {
            continue;
        }
        tried += 1;
        let texts: Vec<String> = parts.iter().map(|part| part.concat()).collect();
        let telling = parts.iter().zip(&texts).filter(|(part, _)| part.len() > 6);
        let telling: Vec<&str> = telling.map(|(_, text)| text.as_str()).collect();
        let document = if random.below(5) < 2 {
            text(&texts, &mut random)
        } else {
            let mut items: Vec<Value> = Vec::new();
            for part in &texts {
                items.extend((0..random.below(4)).map(|_| noise(&mut random)));
                items.push(place_whole(part, &mut random));
            }
            for at in (1..items.len()).rev().filter(|_| count.is_multiple_of(2)) {
                items.swap(at, random.below(at + 1));
            }
            json!({"content": items, "isError": false})
        };
        if let Some(fault) = fault(&document, &telling, &scrubber) {
            faults.push(format!("{fault}: {form}, {texts:?}, {document}"));
        }
    }
    let shown = faults.iter().take(25).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {tried} leak\n{shown}", faults.len());
}

/// Attack: see `parts_of_one_to_three_bytes_are_found_as_whole_pieces_and_lines`.
#[test]
fn short_parts_of_a_secret_leave_with_the_long_ones() {
    let scrubber = scrubber(&["k7Qz-9fXw2-Lm4tRb8"]);
    for (document, parts) in [
        (json!(["k7Qz-9fX", "noise", "w2-", "noise", "Lm4tRb8"]), &["k7Qz", "w2-", "Lm4t"][..]),
        (json!(["k7Q", "noise", "z-9", "noise", "fXw2-", "noise", "Lm4tRb8"]), &["k7Q", "z-9", "fXw2", "Lm4t"]),
        (json!("log\nk7Q\nnoise\nz-9fXw2-Lm4tRb8\nend"), &["k7Q", "z-9f"]),
        (json!("log\nLm4tRb8\nnoise\nk7Qz-9\nmore\nfX\nend\nw2-\n"), &["Lm4t", "k7Qz", "fX", "w2-"]),
    ] {
        let mut cleaned = document.clone();
        assert_eq!(credentials::scrub(&mut cleaned, &scrubber, Extent::Own), Scrubbed::Redacted, "{document}");
        let left = cleaned.to_string();
        assert!(parts.iter().all(|part| !left.contains(part)), "{left}");
        assert_eq!(credentials::scrub(&mut cleaned, &scrubber, Extent::Own), Scrubbed::Untouched, "{document}");
    }
    // A short part beside other text, and a secret of which a byte is missing.
    for document in [
        json!(["k7Qz-9fX", "noise", "a w2-", "noise", "Lm4tRb8"]),
        json!(["k7Qz-9fX", "noise", "w2", "noise", "Lm4tRb8"]),
    ] {
        let mut cleaned = document.clone();
        assert_eq!(credentials::scrub(&mut cleaned, &scrubber, Extent::Own), Scrubbed::Untouched, "{document}");
    }
}

fn text_of(alphabet: &[u8], length: usize, random: &mut Random) -> String {
    (0..length).map(|_| char::from(random.pick(alphabet))).collect()
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A hundred secrets, half of them of eight to fifteen bytes.
fn hundred(random: &mut Random) -> Vec<String> {
    (0..100).map(|n| text_of(LETTERS, if n < 50 { 8 + n % 8 } else { 40 }, random)).collect()
}

/// Few and many short texts, numbers and lists of all letters, as documents have them.
///
/// Attack: see `parts_of_one_to_three_bytes_are_found_as_whole_pieces_and_lines`.
#[test]
fn short_texts_of_many_lengths_hold_no_scattered_secret() {
    let mut random = Random(19);
    let mut secrets = hundred(&mut random);
    // Secrets of few letters, which chance makes more easily.
    secrets.extend((0..50).map(|n| text_of(b"etaoinshrdlu", 8 + n % 12, &mut random)));
    secrets.extend((0..20).map(|n| text_of(b"0123456789", 10 + n % 12, &mut random)));
    secrets.extend((0..20).map(|_| text_of(b"0123456789abcdef", 32, &mut random)));
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    let seam = secrets::search::view::SEAM.to_string();
    let alphabets = [LETTERS, b"etaoinshrdlu", b"abcdefghijklmnopqrstuvwxyz", b"0123456789abcdef", b"0123456789"];
    for count in [4, 16, 64, 256, 1024, 16_384] {
        for round in 0..(20_000 / count).clamp(2, 100) {
            let alphabet = alphabets[round % alphabets.len()];
            let longest = 1 + random.below(6);
            let items: Vec<String> = (0..count)
                .map(|_| {
                    let length = 1 + random.below(longest);
                    text_of(alphabet, length, &mut random)
                })
                .collect();
            let found = scrubber.find_scattered(&items.join(&seam));
            assert!(found.is_empty(), "{count} of up to {longest}: {found:?}");
        }
    }
    for numbers in [0..256, 97..123, 32..127, 100..1000] {
        let decimal: Vec<String> = numbers.clone().map(|n: u32| n.to_string()).collect();
        let hexadecimal: Vec<String> = numbers.clone().map(|n| format!("{n:02x}")).collect();
        let letters: Vec<String> = numbers.filter_map(|n| char::from_u32(n).map(String::from)).collect();
        for items in [decimal, hexadecimal, letters] {
            let found = scrubber.find_scattered(&items.join(&seam));
            assert!(found.is_empty(), "{items:?}: {found:?}");
        }
    }
}

#[test]
fn lists_of_random_texts_hold_no_scattered_secret() {
    let mut random = Random(11);
    let secrets = hundred(&mut random);
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    let size = if cfg!(debug_assertions) { 1 << 18 } else { 1 << 20 };
    for (name, alphabet, length) in [
        ("digests", &b"0123456789abcdef"[..], 64),
        ("short hexadecimal numbers", &b"0123456789abcdef"[..], 4),
        ("short digits", &b"0123456789"[..], 4),
        ("short texts", LETTERS, 4),
        ("words", &b"etaoinshrdlu"[..], 7),
        ("shorter texts", LETTERS, 3),
        ("pairs of hexadecimal digits", &b"0123456789abcdef"[..], 2),
        ("three digits", &b"0123456789"[..], 3),
        ("letters", LETTERS, 1),
    ] {
        let items: Vec<String> = (0..size / length).map(|_| text_of(alphabet, length, &mut random)).collect();
        let found = scrubber.find_scattered(&items.join(&secrets::search::view::SEAM.to_string()));
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

/// The time is printed and not asserted, as in `measured`.
#[test]
fn a_hundred_secrets_take_a_part_of_the_time() {
    let mut random = Random(13);
    let secrets = hundred(&mut random);
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    let size = if cfg!(debug_assertions) { 1 << 18 } else { 1 << 20 };
    for length in [4, 40, 1000] {
        let items: Vec<String> = (0..size / length).map(|_| text_of(LETTERS, length, &mut random)).collect();
        let text = items.join(&secrets::search::view::SEAM.to_string());
        // The first search builds the parts that the next ones use.
        scrubber.find_scattered(&text);
        let start = Instant::now();
        let found = scrubber.find_scattered(&text);
        let scattered = start.elapsed();
        let mut value = json!(items);
        let start = Instant::now();
        let outcome = credentials::scrub(&mut value, &scrubber, Extent::All);
        println!("{size} bytes in items of {length}: {scattered:.2?} of {:.2?}, {outcome:?}", start.elapsed());
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Attack: see `every_form_of_a_secret_is_found_in_three_and_four_parts`.
#[test]
fn lines_of_a_message_are_searched_before_they_are_joined() {
    let scrubber = scrubber(&[TOKEN]);
    let (first, rest) = TOKEN.split_at(7);
    let (second, third) = rest.split_at(6);
    let shown = clean_text(&format!("1: {first}\n2: {second}\n3: {third}"), 1000, &scrubber);
    assert!([first, second, third].iter().all(|part| !shown.contains(part)), "{shown}");
    assert!(shown.starts_with("1: <redacted: S0"), "{shown}");
}
