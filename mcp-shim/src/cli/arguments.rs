//! The words of the command line.

use serde_json::{Map, Value};
use std::ffi::OsString;

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Speak MCP over standard input and output.
    Serve {
        /// Whether each granted action is a tool of its own.
        action_tools: bool,
    },
    /// Print this text; nobody needs to be asked.
    Print(String),
    /// Answer one question.
    Ask(Question),
}

/// A question of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Perform an action; these are the arguments of `ext_call`.
    Call(Map<String, Value>),
    /// The capabilities of this group.
    Capabilities,
    /// The result of the request of this id.
    Result(String),
    /// The capabilities that this person can use here.
    Listed {
        /// Also what may not be used.
        all: bool,
    },
    /// Link this person's accounts: a request of this type, with these arguments.
    Auth(&'static str, Map<String, Value>),
}

/// A fault of the arguments, in words. It quotes no parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUsage {
    /// The first word is no command.
    #[error("no such command: `{0}`")]
    NoSuchCommand(String),
    /// The command has no such option.
    #[error("no such option: `{0}`")]
    NoSuchOption(String),
    /// The option came without its value.
    #[error("`{0}` needs a value")]
    NoValue(String),
    /// There is a word missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// There are words left over.
    #[error("too many arguments")]
    TooMany,
    /// A word is not UTF-8.
    #[error("an argument is not UTF-8")]
    NotUtf8,
    /// An option came twice.
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    /// There is none of these, or more than one.
    #[error("exactly one of {0} is needed")]
    OneOf(String),
    /// A word is not one that the command takes. It may be a code, or an address with one in it, so it is not quoted.
    #[error("{command} takes {words}")]
    Takes {
        /// The command.
        command: &'static str,
        /// The words that it takes.
        words: String,
    },
    /// The parameters are not one JSON object.
    #[error("the parameters: {0}")]
    BadJson(String),
}

const HELP: &str = "\
The sandbox side of the External Access Broker: an MCP server over standard input and output.

Usage:
  mcp-shim [--no-action-tools]               serve MCP
  mcp-shim call PROVIDER ACTION [JSON]       call an action; JSON is the object of its parameters
      [--task-id ID] [--idempotency-key KEY] [--account REF] [--dry-run]
  mcp-shim capabilities                      print the actions that this group can perform
  mcp-shim result ID                         print the result of an earlier request
  mcp-shim capability list                   list the capabilities of the token's person
      [--include-unavailable]
  mcp-shim capability invoke                 call a capability; JSON is the object of its input
      --capability ID --operation NAME [--input-json JSON] [--account REF] [--idempotency-key KEY]
  mcp-shim capability auth begin             start to link an account; prints the URL to open
      --capability ID [--account HINT]
  mcp-shim capability auth complete          finish the link with the callback URL or the code
      --flow-id ID (--callback-url URL | --code CODE)
  mcp-shim capability auth poll              print the state of the link
      --flow-id ID
  mcp-shim capability auth list              list the linked accounts
      --capability ID
  mcp-shim capability auth unlink            unlink an account
      --capability ID --account REF
  mcp-shim --help | --version

Under the name ash-sb, the program has the same commands but does not serve MCP.
A command prints one JSON object. A reason is one line on standard error.
Exit codes: 0 done, 2 usage, 3 denied, 4 pending, 5 failed, 6 timeout.

Environment:
  EXT_IPC_DIR              the group's directory (default NANOCLAW_WORKSPACE_IPC, then /workspace/ipc)
  EXT_TRANSPORT            auto: the host's socket where it can be reached, else files; or socket, or files
  EXT_CALL_TIMEOUT         the time to wait for a reply, in milliseconds (default 30000, at most 120000)
  EXT_POLL_INTERVAL_MS     the longest pause between two checks for a reply, in milliseconds (default 50)
  EXT_CONTEXT_TOKEN_FILE   a file with the context token; the shim reads it for every request
  EXT_CONTEXT_TOKEN        the context token (default ASH_CONTEXT_TOKEN)
  EXT_SIGNING_KEY_FILE     the key that signs every request
  NANOCLAW_IS_MAIN         1 for the main group, if the host does not say so
";

impl Command {
    /// Reads the words of the command line, the program's name before them.
    ///
    /// # Errors
    /// [`BadUsage`], naming the first fault.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, BadUsage> {
        let words: Result<Vec<String>, OsString> = words.into_iter().map(OsString::into_string).collect();
        let mut words = words.map_err(|_not_utf8| BadUsage::NotUtf8)?.into_iter();
        let name = words.next().unwrap_or_default();
        let serves = name.rsplit('/').next() != Some(SANDBOX_NAME);
        let command = match words.next().as_deref() {
            None if serves => Self::Serve { action_tools: true },
            Some("--no-action-tools") if serves => Self::Serve { action_tools: false },
            None => return Err(BadUsage::Missing("the command")),
            Some("--help" | "-h" | "help") => Self::Print(HELP.to_owned()),
            Some("--version" | "-V") => Self::Print(format!("mcp-shim {}\n", env!("CARGO_PKG_VERSION"))),
            Some("capabilities") => Self::Ask(Question::Capabilities),
            Some("result") => Self::Ask(Question::Result(words.next().ok_or(BadUsage::Missing("the request id"))?)),
            Some("call") => Self::Ask(Question::Call(call(&mut words)?)),
            Some("capability") => Self::Ask(capability(&mut words)?),
            Some(option) if option.starts_with('-') => return Err(BadUsage::NoSuchOption(option.to_owned())),
            Some(command) => return Err(BadUsage::NoSuchCommand(command.to_owned())),
        };
        if words.next().is_some() { Err(BadUsage::TooMany) } else { Ok(command) }
    }
}

/// The name under which scripts that were written for Ash call it.
const SANDBOX_NAME: &str = "ash-sb";

/// The words after `capability`; takes all that are left.
fn capability(words: &mut impl Iterator<Item = String>) -> Result<Question, BadUsage> {
    match words.next().as_deref() {
        Some("list") => match words.next().as_deref() {
            None => Ok(Question::Listed { all: false }),
            Some("--include-unavailable") => Ok(Question::Listed { all: true }),
            Some(option) if option.starts_with("--") => Err(BadUsage::NoSuchOption(option.to_owned())),
            Some(_) => Err(BadUsage::TooMany),
        },
        Some("invoke") => invoke(words).map(Question::Call),
        Some("auth") => auth(words),
        Some(other) => Err(BadUsage::NoSuchCommand(format!("capability {other}"))),
        None => Err(BadUsage::Missing("the command after capability")),
    }
}

fn invoke(words: &mut impl Iterator<Item = String>) -> Result<Map<String, Value>, BadUsage> {
    let mut arguments = Map::new();
    while let Some(word) = words.next() {
        let member = match word.as_str() {
            "--capability" => "provider",
            "--operation" => "action",
            "--input-json" => "params",
            "--account" => "account_ref",
            "--idempotency-key" => "idempotency_key",
            option if option.starts_with("--") => return Err(BadUsage::NoSuchOption(word)),
            _ => return Err(BadUsage::TooMany),
        };
        let text = words.next().ok_or(BadUsage::NoValue(word))?;
        let value = if member == "params" { Value::Object(params(&text)?) } else { Value::String(text) };
        arguments.insert(member.to_owned(), value);
    }
    for (member, missing) in [("provider", "--capability"), ("action", "--operation")] {
        if !arguments.contains_key(member) {
            return Err(BadUsage::Missing(missing));
        }
    }
    Ok(arguments)
}

/// A command that links accounts.
struct Auth {
    command: &'static str,
    /// The type of the request.
    request: &'static str,
    /// Of each of these exactly one must be given.
    needs: &'static [&'static [AuthOption]],
    /// These may be.
    may: &'static [AuthOption],
}

/// An option, and the member of the request that it is.
type AuthOption = (&'static str, &'static str);

const CAPABILITY: AuthOption = ("--capability", "capability");
const FLOW: AuthOption = ("--flow-id", "flow_id");

const AUTH: [Auth; 5] = [
    Auth {
        command: "capability auth begin",
        request: "ext_auth_begin",
        needs: &[&[CAPABILITY]],
        may: &[("--account", "account_hint")],
    },
    Auth {
        command: "capability auth complete",
        request: "ext_auth_complete",
        needs: &[&[FLOW], &[("--callback-url", "callback_url"), ("--code", "code")]],
        may: &[],
    },
    Auth { command: "capability auth poll", request: "ext_auth_poll", needs: &[&[FLOW]], may: &[] },
    Auth { command: "capability auth list", request: "ext_auth_list", needs: &[&[CAPABILITY]], may: &[] },
    Auth {
        command: "capability auth unlink",
        request: "ext_auth_unlink",
        needs: &[&[CAPABILITY], &[("--account", "account_ref")]],
        may: &[],
    },
];

/// The words after `capability auth`; takes all that are left.
fn auth(words: &mut impl Iterator<Item = String>) -> Result<Question, BadUsage> {
    let name = words.next().ok_or(BadUsage::Missing("the command after auth"))?;
    let is_meant = |auth: &&Auth| auth.command.strip_prefix("capability auth ") == Some(name.as_str());
    let Some(auth) = AUTH.iter().find(is_meant) else {
        let words = "begin, complete, poll, list, unlink".to_owned();
        return Err(BadUsage::Takes { command: "capability auth", words });
    };
    let options = || auth.needs.iter().copied().flatten().chain(auth.may);
    let mut arguments = Map::new();
    while let Some(word) = words.next() {
        let Some((option, member)) = options().find(|(option, _)| *option == word) else {
            let words = joined(options(), ", ");
            return Err(BadUsage::Takes { command: auth.command, words });
        };
        let value = words.next().ok_or(BadUsage::NoValue(word))?;
        if arguments.insert((*member).to_owned(), Value::String(value)).is_some() {
            return Err(BadUsage::Twice(option));
        }
    }
    for choice in auth.needs {
        let given = choice.iter().filter(|(_, member)| arguments.contains_key(*member)).count();
        match *choice {
            _ if given == 1 => {}
            [(only, _)] => return Err(BadUsage::Missing(only)),
            several => return Err(BadUsage::OneOf(joined(several, " and "))),
        }
    }
    Ok(Question::Auth(auth.request, arguments))
}

fn joined<'a>(options: impl IntoIterator<Item = &'a AuthOption>, by: &str) -> String {
    options.into_iter().map(|(option, _)| *option).collect::<Vec<_>>().join(by)
}

fn params(text: &str) -> Result<Map<String, Value>, BadUsage> {
    let params = shared::json::parse_object(text.as_bytes()).map_err(|fault| BadUsage::BadJson(fault.to_string()))?;
    if shared::json::loses_digits(text) {
        let what = "a number cannot be kept exactly; send it as a string";
        return Err(BadUsage::BadJson(what.to_owned()));
    }
    Ok(params)
}

/// The arguments of `ext_call`; takes all words that are left.
fn call(words: &mut impl Iterator<Item = String>) -> Result<Map<String, Value>, BadUsage> {
    let mut arguments = Map::new();
    let mut plain = Vec::new();
    while let Some(word) = words.next() {
        let member = match word.as_str() {
            "--task-id" => "task_id",
            "--idempotency-key" => "idempotency_key",
            "--account" => "account_ref",
            "--dry-run" => {
                arguments.insert("dry_run".to_owned(), Value::Bool(true));
                continue;
            }
            option if option.starts_with("--") => return Err(BadUsage::NoSuchOption(word)),
            _ => {
                plain.push(word);
                continue;
            }
        };
        let value = words.next().ok_or(BadUsage::NoValue(word))?;
        arguments.insert(member.to_owned(), Value::String(value));
    }
    let mut plain = plain.into_iter();
    let provider = plain.next().ok_or(BadUsage::Missing("the provider"))?;
    let action = plain.next().ok_or(BadUsage::Missing("the action"))?;
    if let Some(text) = plain.next() {
        arguments.insert("params".to_owned(), Value::Object(params(&text)?));
    }
    if plain.next().is_some() {
        return Err(BadUsage::TooMany);
    }
    arguments.insert("provider".to_owned(), Value::String(provider));
    arguments.insert("action".to_owned(), Value::String(action));
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(line: &str) -> Result<Command, BadUsage> {
        Command::parse(std::iter::once("/opt/mcp-shim").chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn under_its_other_name_it_has_the_same_words_and_serves_nothing() {
        let named = |line: &str| {
            Command::parse(std::iter::once("/usr/bin/ash-sb").chain(line.split_whitespace()).map(OsString::from))
        };
        assert_eq!(named("capability list"), parse("capability list"));
        assert_eq!(named("call a b"), parse("call a b"));
        assert_eq!(named("capability auth list --capability a.b"), parse("capability auth list --capability a.b"));
        assert_eq!(named(""), Err(BadUsage::Missing("the command")));
        assert_eq!(named("--no-action-tools"), Err(BadUsage::NoSuchOption("--no-action-tools".into())));
    }

    #[test]
    fn capabilities_have_the_words_of_the_source() {
        assert_eq!(parse("capability list"), Ok(Command::Ask(Question::Listed { all: false })));
        assert_eq!(parse("capability list --include-unavailable"), Ok(Command::Ask(Question::Listed { all: true })));
        let invoked = r#"capability invoke --operation send --input-json {"to":"a"} --capability gog.email --account work
            --idempotency-key k"#;
        let Command::Ask(Question::Call(arguments)) = parse(invoked).unwrap() else { panic!() };
        let expected = json!({
            "provider": "gog.email", "action": "send", "params": {"to": "a"}, "account_ref": "work",
            "idempotency_key": "k",
        });
        assert_eq!(Value::Object(arguments), expected);
        for (line, fault) in [
            ("capability", BadUsage::Missing("the command after capability")),
            ("capability link", BadUsage::NoSuchCommand("capability link".into())),
            ("capability list all", BadUsage::TooMany),
            ("capability list --all", BadUsage::NoSuchOption("--all".into())),
            ("capability invoke --capability a.b", BadUsage::Missing("--operation")),
            ("capability invoke --operation c", BadUsage::Missing("--capability")),
            ("capability invoke --capability a.b --operation", BadUsage::NoValue("--operation".into())),
            ("capability invoke a.b c", BadUsage::TooMany),
            ("capability invoke --user-id bob", BadUsage::NoSuchOption("--user-id".into())),
        ] {
            assert_eq!(parse(line), Err(fault), "{line}");
        }
        let secret = parse(r#"capability invoke --input-json {"token":hunter2}"#).unwrap_err().to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn accounts_are_linked_in_the_words_of_the_source() {
        let flow = "caf_gog.email_x";
        for (line, request, arguments) in [
            ("begin --capability gog.email", "ext_auth_begin", json!({"capability": "gog.email"})),
            (
                "begin --account work --capability gog.email",
                "ext_auth_begin",
                json!({"capability": "gog.email", "account_hint": "work"}),
            ),
            (
                "complete --flow-id caf_gog.email_x --code 4/x",
                "ext_auth_complete",
                json!({"flow_id": flow, "code": "4/x"}),
            ),
            (
                "complete --callback-url http://localhost/?code=x --flow-id caf_gog.email_x",
                "ext_auth_complete",
                json!({"flow_id": flow, "callback_url": "http://localhost/?code=x"}),
            ),
            // Nobody says what a code begins with.
            (
                "complete --flow-id caf_gog.email_x --code --code",
                "ext_auth_complete",
                json!({"flow_id": flow, "code": "--code"}),
            ),
            ("poll --flow-id caf_gog.email_x", "ext_auth_poll", json!({"flow_id": flow})),
            ("list --capability gog.email", "ext_auth_list", json!({"capability": "gog.email"})),
            (
                "unlink --capability gog.email --account work",
                "ext_auth_unlink",
                json!({"capability": "gog.email", "account_ref": "work"}),
            ),
        ] {
            let Value::Object(arguments) = arguments else { panic!() };
            let expected = Command::Ask(Question::Auth(request, arguments));
            assert_eq!(parse(&format!("capability auth {line}")), Ok(expected), "{line}");
        }
    }

    #[test]
    fn wrong_arguments_of_account_linking_are_named_and_never_quoted() {
        let takes = |command, words: &str| BadUsage::Takes { command, words: words.to_owned() };
        let commands = || takes("capability auth", "begin, complete, poll, list, unlink");
        let begin = || takes("capability auth begin", "--capability, --account");
        let complete = || takes("capability auth complete", "--flow-id, --callback-url, --code");
        let one = || BadUsage::OneOf("--callback-url and --code".into());
        for (line, fault) in [
            ("", BadUsage::Missing("the command after auth")),
            ("link", commands()),
            ("https://localhost/?code=hunter2", commands()),
            ("begin", BadUsage::Missing("--capability")),
            ("begin --account work", BadUsage::Missing("--capability")),
            ("begin --capability", BadUsage::NoValue("--capability".into())),
            ("begin --capability a.b --capability a.c", BadUsage::Twice("--capability")),
            ("begin --capability a.b --flow-id f", begin()),
            ("begin a.b", begin()),
            ("complete", BadUsage::Missing("--flow-id")),
            ("complete --code hunter2", BadUsage::Missing("--flow-id")),
            ("complete --flow-id f", one()),
            ("complete --flow-id f --code hunter2 --callback-url http://localhost/?code=hunter2", one()),
            ("complete --flow-id f --callback-url http://localhost/?code=hunter2 --code hunter2", one()),
            ("complete --flow-id f --code hunter2 --code hunter2", BadUsage::Twice("--code")),
            ("complete --flow-id f --code", BadUsage::NoValue("--code".into())),
            ("complete --flow-id f --callback-url", BadUsage::NoValue("--callback-url".into())),
            ("complete --flow-id f --code=hunter2", complete()),
            ("complete --flow-id f --callback-url=http://localhost/?code=hunter2", complete()),
            ("complete --flow-id f --code 4/ hunter2", complete()),
            ("complete --flow-id f --hunter2", complete()),
            ("complete --capability a.b --code hunter2", complete()),
            ("poll", BadUsage::Missing("--flow-id")),
            ("poll --flow-id f --code hunter2", takes("capability auth poll", "--flow-id")),
            ("list", BadUsage::Missing("--capability")),
            ("list --capability a.b --account work", takes("capability auth list", "--capability")),
            ("unlink", BadUsage::Missing("--capability")),
            ("unlink --capability a.b", BadUsage::Missing("--account")),
            ("unlink --account work", BadUsage::Missing("--capability")),
            ("unlink --capability a.b --account", BadUsage::NoValue("--account".into())),
            ("unlink --capability a.b --all", takes("capability auth unlink", "--capability, --account")),
        ] {
            let said = fault.to_string();
            assert!(!said.contains("hunter2") && !said.contains("localhost"), "{said}");
            assert_eq!(parse(&format!("capability auth {line}")), Err(fault), "{line}");
        }
        assert_eq!(one().to_string(), "exactly one of --callback-url and --code is needed");
        assert_eq!(begin().to_string(), "capability auth begin takes --capability, --account");
    }

    #[test]
    fn a_call_takes_its_options_anywhere() {
        let Command::Ask(Question::Call(arguments)) =
            parse(r#"call --task-id t1 github merge_pr {"n":7} --idempotency-key k --account me --dry-run"#).unwrap()
        else {
            panic!()
        };
        let expected = json!({"provider": "github", "action": "merge_pr", "params": {"n": 7}, "task_id": "t1",
            "idempotency_key": "k", "account_ref": "me", "dry_run": true});
        assert_eq!(Value::Object(arguments), expected);
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(parse("call github"), Err(BadUsage::Missing("the action")));
        assert_eq!(parse("call a b {} c"), Err(BadUsage::TooMany));
        assert_eq!(parse("call a b --task-id"), Err(BadUsage::NoValue("--task-id".into())));
        assert_eq!(parse("call a b --force"), Err(BadUsage::NoSuchOption("--force".into())));
        assert_eq!(parse("serve"), Err(BadUsage::NoSuchCommand("serve".into())));
        assert_eq!(parse("--verbose"), Err(BadUsage::NoSuchOption("--verbose".into())));
        assert_eq!(parse("result"), Err(BadUsage::Missing("the request id")));
        assert_eq!(parse("capabilities x"), Err(BadUsage::TooMany));
        for text in ["[1]", r#"{"n":1,"n":2}"#, r#"{"n":12345678901234567890123}"#] {
            assert!(matches!(parse(&format!("call a b {text}")), Err(BadUsage::BadJson(_))), "{text}");
        }
        let secret = parse(r#"call a b {"token":hunter2}"#).unwrap_err().to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn nothing_said_means_to_serve() {
        assert_eq!(parse(""), Ok(Command::Serve { action_tools: true }));
        assert_eq!(parse("--no-action-tools"), Ok(Command::Serve { action_tools: false }));
    }
}
