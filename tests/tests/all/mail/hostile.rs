//! Mail servers that lose answers, send too much, or speak something else.

use super::{PROFILE, RECIPIENTS, approval, mail, world};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::group::{code, error};
use tests::mail_servers::PASSWORD;

/// The reaction of a scripted server to a line from the broker.
type Answer = fn(&str, &mut TcpStream, &Seen) -> Next;

enum Next {
    Goes,
    Ends,
}

/// The lines that the broker has sent.
#[derive(Default)]
struct Seen {
    lines: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl Seen {
    fn count(&self, part: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }
}

/// A server on loopback that greets and answers each line.
fn server(greeting: &'static str, answer: Answer) -> (u16, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Seen::default());
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let seen = Arc::clone(&shared);
            std::thread::spawn(move || {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                stream.write_all(greeting.as_bytes()).ok();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    seen.lines.lock().unwrap().push(line.clone());
                    if matches!(answer(&line, &mut stream, &seen), Next::Ends) {
                        return;
                    }
                }
            });
        }
    });
    (port, seen)
}

/// The answers of an orderly IMAP server with one message.
fn imap(line: &str, stream: &mut TcpStream) -> Next {
    let mut words = line.splitn(3, ' ');
    let (tag, command, rest) = (words.next().unwrap(), words.next().unwrap_or(""), words.next().unwrap_or(""));
    let untagged = match command {
        "CAPABILITY" => "* CAPABILITY IMAP4rev1 MOVE\r\n".to_owned(),
        "SELECT" | "EXAMINE" => "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n".to_owned(),
        "UID" if rest.starts_with("FETCH") => "* 1 FETCH (UID 1)\r\n".to_owned(),
        "UID" if rest.contains("HEADER Message-ID") => "* SEARCH\r\n".to_owned(),
        "UID" if rest.starts_with("SEARCH") => "* SEARCH 1\r\n".to_owned(),
        _ => String::new(),
    };
    write!(stream, "{untagged}{tag} OK done\r\n").ok();
    Next::Goes
}

/// The answers of an orderly SMTP server.
fn smtp(line: &str, stream: &mut TcpStream) -> Next {
    let answer = match line.get(..4).unwrap_or("") {
        "EHLO" => "250-here\r\n250 AUTH PLAIN\r\n",
        "AUTH" => "235 welcome\r\n",
        "DATA" => "354 go on\r\n",
        "QUIT" => "221 bye\r\n",
        "MAIL" | "RCPT" => "250 ok\r\n",
        _ if line == "." => "250 taken\r\n",
        _ => return Next::Goes,
    };
    stream.write_all(answer.as_bytes()).ok();
    Next::Goes
}

fn table(imap: u16, smtp: u16) -> String {
    format!(
        "[providers.mail]\nkind = \"mail\"\naddress = \"ada@example.com\"\npassword = {{ file = \"mail.key\" }}\n\
         imap = {{ host = \"127.0.0.1\", port = {imap}, tls = \"none\" }}\n\
         smtp = {{ host = \"127.0.0.1\", port = {smtp}, tls = \"none\" }}\n{RECIPIENTS}"
    )
}

/// Sends a mail with a yes, and returns the reply.
fn sent(imap: u16, smtp: u16) -> Value {
    let (world, developer) = world(&table(imap, smtp), PROFILE);
    let request =
        developer.send(mail("send_email", json!({ "to": ["grace@example.net"], "subject": "x", "text": "y" })));
    let (code_of_it, _) = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    let reply = developer.reply(&request);
    world.settle();
    reply
}

/// Attack (Providers and modules): The answer to a sent mail or to a move is lost.
/// Defence: `provider_mail::failures`: from the first byte of the change on, only an answer of the
/// server settles it.
#[test]
fn a_mail_whose_acceptance_was_lost_is_unknown_and_never_sent_again() {
    let (imap_port, imap_seen) = server("* OK here\r\n", |line, stream, _| imap(line, stream));
    let (port, seen) =
        server("220 here\r\n", |line, stream, _| if line == "." { Next::Ends } else { smtp(line, stream) });
    let reply = sent(imap_port, port);
    assert_eq!(code(&reply), "outcome_unknown", "{reply}");
    assert_eq!(seen.count("DATA"), 1);
    // It was looked for where the server might have saved it.
    assert!(imap_seen.count("HEADER Message-ID") >= 1);
}

#[test]
fn a_refusal_at_any_step_of_sending_is_a_refusal() {
    let (imap_port, _) = server("* OK here\r\n", |line, stream, _| imap(line, stream));
    let steps: [(Answer, &str); 4] = [
        (
            |line, stream, _| {
                if line.starts_with("AUTH") {
                    stream.write_all(b"535 5.7.8 no\r\n").ok();
                    return Next::Goes;
                }
                smtp(line, stream)
            },
            "Signing in failed",
        ),
        (
            |line, stream, _| {
                if line.starts_with("MAIL") {
                    stream.write_all(b"452 4.3.1 full\r\n").ok();
                    return Next::Goes;
                }
                smtp(line, stream)
            },
            "does not take it now",
        ),
        (
            |line, stream, _| {
                if line == "." {
                    stream.write_all(b"554 5.7.1 spam\r\n").ok();
                    return Next::Goes;
                }
                smtp(line, stream)
            },
            "spam",
        ),
        (|line, stream, _| if line.starts_with("RCPT") { Next::Ends } else { smtp(line, stream) }, "cannot be used"),
    ];
    for (answer, said) in steps {
        let (port, _) = server("220 here\r\n", answer);
        let reply = sent(imap_port, port);
        assert_eq!(code(&reply), "provider_failed", "{said}: {reply}");
        assert!(error(&reply).contains(said), "{said}: {reply}");
    }
}

#[test]
fn a_mail_is_sent_although_its_copy_cannot_be_saved() {
    let (imap_port, _) = server(
        "* OK here\r\n",
        |line, stream, _| {
            if line.contains("APPEND") { Next::Ends } else { imap(line, stream) }
        },
    );
    let (port, seen) = server("220 here\r\n", |line, stream, _| smtp(line, stream));
    let reply = sent(imap_port, port);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(reply["data"]["saved_in"], Value::Null);
    assert_eq!(seen.count("DATA"), 1);
    assert!(seen.count("Date: ") == 1);
}

/// Attack: see `a_mail_whose_acceptance_was_lost_is_unknown_and_never_sent_again`.
#[test]
fn a_move_whose_answer_was_lost_is_unknown_and_is_not_repeated() {
    let (port, seen) =
        server("* OK here\r\n", |line, stream, _| if line.contains("MOVE") { Next::Ends } else { imap(line, stream) });
    let (_world, developer) = world(&table(port, 1), PROFILE);
    let reply = developer.ask(mail("archive_email", json!({ "id": "INBOX/7/1" })));
    assert_eq!(code(&reply), "outcome_unknown", "{reply}");
    assert_eq!(seen.count("UID MOVE"), 1);
}

#[test]
fn a_server_that_never_ends_a_connection_changes_no_outcome() {
    let (imap_port, seen) = server("* OK here\r\n", |line, stream, _| {
        // An `APPEND` is followed by its message, and the end of that has no tag.
        match line {
            _ if line.contains("LOGOUT") => {}
            _ if line.contains("APPEND") => {
                stream.write_all(b"+ go on\r\n").ok();
            }
            _ if line.starts_with('A') => return imap(line, stream),
            "" => {
                stream.write_all(b"A0002 OK saved\r\n").ok();
            }
            _ => {}
        }
        Next::Goes
    });
    let (port, _) =
        server("220 here\r\n", |line, stream, _| if line == "QUIT" { Next::Goes } else { smtp(line, stream) });
    let reply = sent(imap_port, port);
    assert_eq!(code(&reply), "executed", "{reply}");
    let (_world, developer) = world(&table(imap_port, port), PROFILE);
    // A server that does not tell the end of a folder is searched at once.
    let listed = developer.ask(mail("list_messages", json!({})));
    assert_eq!(listed["data"]["messages"][0]["id"], json!("INBOX/7/1"), "{listed}");
    assert_eq!((&listed["data"]["next_cursor"], seen.count("UID SEARCH")), (&Value::Null, 1));
    assert_eq!(code(&developer.ask(mail("archive_email", json!({ "id": "INBOX/7/1" })))), "executed");
    assert!(seen.count("UID MOVE") == 1);
}

#[test]
fn a_server_without_the_encryption_that_is_asked_for_hears_no_password() {
    let (imap_port, imap_seen) = server("* OK here\r\n", |line, stream, _| {
        let tag = line.split(' ').next().unwrap();
        write!(stream, "{tag} BAD no such command\r\n").ok();
        Next::Goes
    });
    let (port, seen) = server("220 here\r\n", |line, stream, _| smtp(line, stream));
    let table = table(imap_port, port).replace("tls = \"none\"", "tls = \"starttls\"");
    let (world, developer) = world(&table, PROFILE);
    let reply = developer.ask(mail("list_messages", json!({})));
    assert_eq!(code(&reply), "invalid_output", "{reply}");
    let request = developer.send(mail("send_email", json!({ "to": ["grace@example.net"], "text": "y" })));
    let (code_of_it, _) = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    let reply = developer.reply(&request);
    assert!(error(&reply).contains("does not offer STARTTLS"), "{reply}");
    assert_eq!((imap_seen.count("LOGIN"), seen.count("AUTH"), seen.count("MAIL")), (0, 0, 0));
}

#[test]
fn an_access_token_signs_in_at_both_servers_and_a_refused_one_says_so() {
    // user=ada@example.com^Aauth=Bearer TOKEN^A^A
    let response = BASE64_STANDARD.encode(format!("user=ada@example.com\u{1}auth=Bearer {PASSWORD}\u{1}\u{1}"));
    let (imap_port, imap_seen) = server("* OK here\r\n", |line, stream, _| {
        if line.contains("AUTHENTICATE XOAUTH2") {
            stream.write_all(b"+ \r\n").ok();
        } else if line.starts_with("dXNlcj1") {
            // The tag of the first command of the library.
            stream.write_all(b"A0001 OK welcome\r\n").ok();
        } else {
            return imap(line, stream);
        }
        Next::Goes
    });
    let (port, seen) = server("220 here\r\n", |line, stream, _| {
        if line.starts_with("EHLO") {
            stream.write_all(b"250-here\r\n250 AUTH XOAUTH2\r\n").ok();
            return Next::Goes;
        }
        smtp(line, stream)
    });
    let table = table(imap_port, port) + "auth = \"xoauth2\"\n";
    let (world, developer) = world(&table, PROFILE);
    assert_eq!(code(&developer.ask(mail("list_messages", json!({})))), "executed");
    assert_eq!(imap_seen.count(&response), 1);
    let request = developer.send(mail("send_email", json!({ "to": ["grace@example.net"], "text": "y" })));
    let (code_of_it, _) = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    assert_eq!(code(&developer.reply(&request)), "executed");
    assert_eq!(seen.count(&format!("AUTH XOAUTH2 {response}")), 1);

    let (port, _) = server("* OK here\r\n", |line, stream, _| {
        if line.contains("AUTHENTICATE XOAUTH2") {
            stream.write_all(b"+ \r\n").ok();
        } else if line.starts_with("dXNlcj1") {
            // The reason, which the client answers with an empty line.
            stream.write_all(b"+ eyJzdGF0dXMiOiI0MDEifQ==\r\n").ok();
        } else {
            stream.write_all(b"A0001 NO [AUTHENTICATIONFAILED] expired\r\n").ok();
        }
        Next::Goes
    });
    let (_world, developer) = self::world(&(self::table(port, 1) + "auth = \"xoauth2\"\n"), PROFILE);
    let reply = developer.ask(mail("list_messages", json!({})));
    assert_eq!(code(&reply), "provider_failed", "{reply}");
    assert!(error(&reply).contains("Signing in failed") && error(&reply).contains("expired"), "{reply}");
}

/// Attack (Providers and modules): A mail server sends a literal of 4 GiB, a line without end,
/// answers without end, or no IMAP.
/// Defence: `provider_mail::limited`: bounded bytes of a connection and of an answer.
#[test]
fn a_server_that_sends_too_much_or_no_imap_is_left_and_costs_no_memory() {
    let floods: [Answer; 6] = [
        // A literal of four gibibytes, and bytes without end.
        |line, stream, _| {
            if line.contains("SEARCH") {
                stream.write_all(b"* 1 FETCH (UID 1 BODY[] {4294967295}\r\n").ok();
                while stream.write_all(&vec![b'x'; 65_536]).is_ok() {}
                return Next::Ends;
            }
            imap(line, stream)
        },
        // A literal for which the library would make room at once.
        |line, stream, _| {
            if line.contains("SEARCH") {
                stream.write_all(b"* 1 FETCH (UID 1 BODY[] {500000000}\r\n").ok();
                return Next::Goes;
            }
            imap(line, stream)
        },
        // The password, where an answer is expected.
        |line, stream, _| {
            if line.contains("LOGIN") {
                stream.write_all(line.as_bytes()).ok();
                stream.write_all(b"\r\n").ok();
                return Next::Goes;
            }
            imap(line, stream)
        },
        // A line without end.
        |line, stream, _| {
            if line.contains("SEARCH") {
                while stream.write_all(&vec![b'1'; 65_536]).is_ok() {}
                return Next::Ends;
            }
            imap(line, stream)
        },
        // Answers that nobody asked for.
        |line, stream, _| {
            if line.contains("SEARCH") {
                while stream.write_all("* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n".repeat(1000).as_bytes()).is_ok() {}
                return Next::Ends;
            }
            imap(line, stream)
        },
        |_, stream, _| {
            stream.write_all(b"\x00\xff{}HTTP/1.1 400\r\n").ok();
            Next::Ends
        },
    ];
    for answer in floods {
        let (port, seen) = server("* OK here\r\n", answer);
        let (_world, developer) = world(&(table(port, 1) + "timeout_ms = 8000\n"), PROFILE);
        let before = memory();
        let reply = developer.ask(mail("list_messages", json!({})));
        assert!(["provider_failed", "invalid_output", "provider_timeout"].contains(&code(&reply)), "{reply}");
        assert!(!error(&reply).contains(PASSWORD), "{reply}");
        // Nor as a list of numbers.
        assert!(!error(&reply).contains("109, 97, 105, 108"), "{reply}");
        assert!(memory() < before + 160 * 1024 * 1024, "{} {before}", memory());
        assert!(seen.connections.load(Ordering::SeqCst) >= 1);
    }
}

/// The resident memory of this process, in which the host runs, in bytes.
fn memory() -> u64 {
    let mut text = String::new();
    std::fs::File::open("/proc/self/statm").unwrap().read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
