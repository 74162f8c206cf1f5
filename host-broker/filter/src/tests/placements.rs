//! Ten thousand random placements of secrets, in every form, in text and in JSON.

use super::search::is_readable;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

const PLACEMENTS: u64 = 10_000;

const SECRETS: [&str; 14] = [
    "ghp_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ2qRt84",
    "Xk29-vQm",
    "deadbeef0123456789abcdef00112233445566778899aabbccddeeff01234567",
    "nightly-build-credential-7",
    "u1234567-uuid-like-thing",
    "bcafe\\nrt\\\\x\"quoted' pass",
    "50%ab off, %41%zz deal!100%",
    "correct horse battery staple",
    "пароль-ключ-😀-секрет",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzz3pQ==",
    "8675309424242",
    "line one of it\nline two of it\r\nline three",
    "https://hooks.example.com/services/T0AB/B9ZZ/x8y7z6w5",
    "-----BEGIN X-----\nQmFzZTY0IGRhdGEgaGVyZSBhbmQ\nc29tZSBtb3JlIG9mIGl0IHRoZXJl\n-----END X-----",
];

/// A small generator (SplitMix64): the same placements on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn noise(&mut self, most: usize) -> String {
        const PARTS: [&str; 26] = [
            " ",
            "the ",
            "log ",
            "\n",
            "=",
            ":",
            "{",
            "]",
            "0",
            "12",
            "ab",
            "%",
            "%2",
            "\\",
            "\\u",
            "\\u00",
            "/",
            "+",
            "-",
            "_",
            "é",
            "Zm9v",
            "ff",
            "\"",
            ", ",
            "<redacted: S1, 8 bytes, #0a1b2c3d>",
        ];
        (0..self.below(most + 1)).map(|_| self.pick(&PARTS)).collect()
    }
}

fn encode(secret: &str, random: &mut Random) -> String {
    let percent = |random: &mut Random, text: &str, share: usize| -> String {
        let byte = |random: &mut Random, b: u8| match (random.chance(share), b.is_ascii()) {
            (false, true) => char::from(b).to_string(),
            _ if random.chance(50) => format!("%{b:02x}"),
            _ => format!("%{b:02X}"),
        };
        text.bytes().map(|b| byte(random, b)).collect()
    };
    let unicode = |random: &mut Random, text: &str, share: usize| -> String {
        let quoted = |c: char| {
            let json = serde_json::to_string(&c).unwrap();
            json.trim_start_matches('"').strip_suffix('"').unwrap().to_owned()
        };
        let one = |random: &mut Random, c: char| -> String {
            if random.chance(share) && c != '\\' {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat()
            } else if c == '/' {
                "\\/".to_owned()
            } else {
                quoted(c)
            }
        };
        text.chars().map(|c| one(random, c)).collect()
    };
    let surrounded = |random: &mut Random| {
        let bytes = |random: &mut Random| (0..random.below(5)).map(|_| random.pick(b"xyz\0\xFF:")).collect::<Vec<u8>>();
        [bytes(random), secret.as_bytes().to_vec(), bytes(random)].concat()
    };
    match random.below(14) {
        0 => secret.to_owned(),
        1 => secret.to_ascii_uppercase(),
        2 => STANDARD.encode(surrounded(random)),
        3 => STANDARD_NO_PAD.encode(surrounded(random)),
        4 => URL_SAFE.encode(surrounded(random)),
        5 => URL_SAFE_NO_PAD.encode(surrounded(random)),
        6 => base16ct::lower::encode_string(&surrounded(random)),
        7 => base16ct::upper::encode_string(&surrounded(random)),
        8 => percent(random, secret, 100),
        9 => {
            let share = random.below(60);
            percent(random, secret, share)
        }
        10 => {
            let once = percent(random, secret, 60);
            percent(random, &once, 30)
        }
        11 => {
            let share = random.pick(&[0, 30, 100]);
            unicode(random, secret, share)
        }
        12 => {
            let share = random.pick(&[0, 30, 100]);
            let once = unicode(random, secret, share);
            unicode(random, &once, 0)
        }
        _ => secret.chars().rev().collect(),
    }
}

/// Cuts a text at random places, between characters and never inside an escape of one.
fn split(text: &str, random: &mut Random) -> Vec<String> {
    let mut parts = vec![String::new()];
    let share = random.pick(&[0, 3, 10, 40]);
    for c in text.chars() {
        let last = parts.last_mut().unwrap();
        let is_escaped = last.ends_with('\\');
        last.push(c);
        if !is_escaped && c != '\\' && random.chance(share) {
            parts.push(String::new());
        }
    }
    parts
}

/// One document with the encoded secret somewhere in it.
fn place(encoded: &str, random: &mut Random) -> Value {
    let (before, after) = (random.noise(6), random.noise(6));
    if random.chance(40) {
        let separator = random.pick(&["\n", "\r\n", " ", "\n    ", "\",\n  \"", "', '", "\t"]);
        let separator = if random.chance(40) { "" } else { separator };
        return json!(format!("{before}{}{after}", split(encoded, random).join(separator)));
    }
    let mut parts = split(encoded, random);
    parts.first_mut().unwrap().insert_str(0, &before);
    parts.last_mut().unwrap().push_str(&after);
    let noise = |random: &mut Random| json!({"n": random.below(1000), "text": random.noise(9)});
    let placed = match random.below(5) {
        0 => json!(parts),
        1 => json!(parts.iter().map(|part| json!([part])).collect::<Vec<_>>()),
        2 => {
            let entry = |(n, part): (usize, &String)| json!({"seq": n, "time": "10:00", "text": part});
            json!(parts.iter().enumerate().map(entry).collect::<Vec<_>>())
        }
        3 => json!(parts.iter().enumerate().map(|(n, part)| (format!("{n:04}"), part)).collect::<BTreeMap<_, _>>()),
        _ => parts.iter().rev().fold(json!(null), |inner, part| json!({ part.as_str(): inner })),
    };
    let mut whole = json!([noise(random), placed, noise(random)]);
    for _ in 0..random.below(4) {
        whole = if random.chance(50) { json!([whole, random.below(9)]) } else { json!({"in": whole}) };
    }
    whole
}

/// The texts that a reader of the document can join: everything in order, strings only, keys only, the lines of
/// entries.
fn readings(value: &Value) -> Vec<String> {
    fn walk<'a>(value: &'a Value, keys: &mut Vec<&'a str>, texts: &mut Vec<&'a str>, lines: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => items.iter().for_each(|item| walk(item, keys, texts, lines)),
            Value::Object(entries) => {
                for (key, item) in entries {
                    keys.push(key);
                    if key == "text" {
                        lines.extend(item.as_str());
                    }
                    walk(item, keys, texts, lines);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let (mut keys, mut texts, mut lines) = (vec![], vec![], vec![]);
    walk(value, &mut keys, &mut texts, &mut lines);
    let mut readings = vec![value.to_string(), texts.concat(), keys.concat(), lines.concat()];
    readings.sort();
    readings.dedup();
    readings
}

fn leak(value: &Value, secret: &str) -> Option<String> {
    readings(value).iter().find_map(|text| is_readable(text, secret))
}

/// Attack (Providers and modules): A provider echoes the broker's token: plain, encoded, split,
/// reversed.
/// Defence: `filter` searches a closed list of encodings.
#[test]
fn no_secret_leaves_in_ten_thousand_random_placements() {
    let scrubber = scrubber(&SECRETS);
    let (mut seen, mut hopeless, mut leaks) = (0, 0, Vec::new());
    for seed in 0..PLACEMENTS {
        let random = &mut Random(seed);
        let secret = random.pick(&SECRETS);
        let encoded = encode(secret, random);
        let document = place(&encoded, random);
        // The search must find the secret before, or its silence afterwards would mean nothing.
        seen += u64::from(seed % 20 == 0 && leak(&document, secret).is_some());
        let mut cleaned = document.clone();
        let outcome = credentials::scrub(&mut cleaned, &scrubber, Extent::Own);
        if outcome == Scrubbed::Hopeless {
            hopeless += 1;
            continue;
        }
        if let Some(how) = leak(&cleaned, secret) {
            leaks.push(format!("{seed}: {secret:?} {how}\n  {document}\n  {cleaned}"));
        }
        let mut again = cleaned.clone();
        assert_eq!(credentials::scrub(&mut again, &scrubber, Extent::Own), Scrubbed::Untouched, "{document}");
        if seed % 10 == 0 {
            if let Value::String(text) = &document {
                let message = clean_text(text, 100_000, &scrubber);
                leaks.extend(is_readable(&message, secret).map(|how| format!("{seed} message: {how}\n  {message}")));
            }
            // Some are nested deeper than a reply may be.
            if let Ok(once) = clean(document, &rules(&scrubber)).data {
                assert_eq!(clean(once.clone(), &rules(&scrubber)), Cleaned { data: Ok(once), notices: vec![] });
            }
        }
    }
    assert!(hopeless * 100 < PLACEMENTS, "{hopeless} were given up");
    assert!(leaks.is_empty(), "{} leaks\n{}", leaks.len(), leaks[..leaks.len().min(8)].join("\n"));
    assert!(seen * 20 > PLACEMENTS * 9 / 10, "the search found only {seen} of {} before", PLACEMENTS / 20);
}
