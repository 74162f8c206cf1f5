use super::*;
use platform::Environment;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

struct Counted(AtomicU64);

impl Random for Counted {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        let digest = Digest::of(&self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        buffer.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

fn sign_in() -> (WebSignIn, Arc<Hand>) {
    let text = format!("[people.alice]\nweb_token_sha256 = \"{}\"\n", String::from(TokenDigest::of("right")));
    let config = Config::parse(&text, Path::new("x"), &Environment::new(), crate::providers::KINDS).unwrap();
    let clock = Arc::new(Hand(AtomicI64::new(1_000_000)));
    let address = Address::new("127.0.0.1:7420".parse().unwrap(), None, &LedgerKey::new(vec![7; 32]));
    let ids = Arc::new(Counted(AtomicU64::new(0)));
    let same: Arc<Hand> = Arc::clone(&clock);
    (WebSignIn::new(address, &config, same, ids), clock)
}

fn secret(link: &Link) -> String {
    link.url.split_once("link=").unwrap().1.to_owned()
}

#[test]
fn a_home_keeps_one_name_and_no_other_host_has_it() {
    let address = |port: u16, key: u8, url: Option<&str>| {
        let url = url.map(|url| PublicUrl::try_from(url.to_owned()).unwrap());
        Address::new(SocketAddr::from(([127, 0, 0, 1], port)), url.as_ref(), &LedgerKey::new(vec![key; 32]))
    };
    let mine = address(7420, 7, None);
    assert_eq!(mine, address(7420, 7, None));
    assert_ne!(mine.origin(), address(7420, 8, None).origin());
    let host = mine.origin().strip_prefix("http://").unwrap();
    assert!(host.starts_with("inbox-") && host.ends_with(".localhost:7420"), "{host}");
    assert!(mine.is_host(host) && mine.is_host(&host.to_uppercase()) && !mine.is_tls());
    for other in ["localhost:7420", "127.0.0.1:7420", "evil.example", "inbox-x.localhost:7420", ""] {
        assert!(!mine.is_host(other), "{other}");
    }
    assert!(!mine.is_host(host.trim_end_matches(":7420")), "the port is part of it");
    let public = address(1, 7, Some("https://inbox.example"));
    assert!(public.is_host("inbox.example") && public.is_host("inbox.example:443") && public.is_tls());
    assert!(!public.is_host(host) && !public.is_host("inbox.example:80"));
}

#[test]
fn a_link_is_good_once_and_for_ten_minutes() {
    let (sign_in, clock) = sign_in();
    let link = sign_in.link("alice").unwrap();
    assert_eq!(sign_in.whose(&secret(&link)).as_deref(), Some("alice"));
    assert_eq!(sign_in.whose(&secret(&link)).as_deref(), Some("alice"), "looking spends nothing");
    let cookie = sign_in.with_link(&secret(&link)).unwrap().unwrap();
    assert_eq!(sign_in.visitor(&cookie, Use::Page).unwrap().person, "alice");
    assert_eq!(sign_in.with_link(&secret(&link)).unwrap(), None);
    let late = sign_in.link("alice").unwrap();
    clock.0.fetch_add(600_000, Ordering::SeqCst);
    assert_eq!(sign_in.whose(&secret(&late)), None);
    assert_eq!(sign_in.with_link(&secret(&late)).unwrap(), None);
    assert_eq!(sign_in.with_link("").unwrap(), None);
}

#[test]
fn an_older_link_gives_way_and_other_peoples_stay() {
    let (sign_in, _) = sign_in();
    let other = sign_in.link("bob").unwrap();
    let links: Vec<String> = (0..=LINKS_MAX).map(|_| secret(&sign_in.link("alice").unwrap())).collect();
    assert_eq!(sign_in.whose(&links[0]), None);
    assert!(links[1..].iter().all(|link| sign_in.whose(link).is_some()));
    assert!(sign_in.whose(&secret(&other)).is_some());
}

#[test]
fn a_flood_of_wrong_tokens_is_slowed_down_and_keeps_nobody_out() {
    let (sign_in, clock) = sign_in();
    assert!(matches!(sign_in.with_token("right").unwrap(), Admission::In(_)));
    let mut tried = 0;
    while sign_in.with_token("wrong").unwrap() == Admission::Unknown {
        tried += 1;
        assert!(tried < 100);
    }
    let Admission::TooMany(seconds) = sign_in.with_token("wrong").unwrap() else { panic!("not slowed down") };
    assert!(matches!(sign_in.with_token("right").unwrap(), Admission::In(_)), "a token cannot be guessed");
    assert!(sign_in.with_link(&secret(&sign_in.link("alice").unwrap())).unwrap().is_some());
    clock.0.fetch_add(i64::try_from(seconds * 1000).unwrap(), Ordering::SeqCst);
    assert_eq!(sign_in.with_token("wrong").unwrap(), Admission::Unknown);
}
