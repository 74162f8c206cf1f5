//! A real mail account: Dovecot for IMAP, Exim for SMTP, both with TLS, for one test.

use crate::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The password of the account.
pub const PASSWORD: &str = "mail-pass-7Qm2xK9dLw";
/// The address of the account, which is its user name too.
pub const ADDRESS: &str = "ada@example.com";
/// The password of the second account.
pub const ANNS_PASSWORD: &str = "mail-pass-4Tz8wB1nRv";
/// The address of the second account.
pub const ANNS_ADDRESS: &str = "ann@example.com";

/// Both servers. Mail to `ann@…` is delivered to the second account, and other mail to the first one. Mail to `refused@…`
/// is refused.
#[derive(Debug)]
pub struct MailServers {
    directory: TempDir,
    servers: Vec<Child>,
    /// The port of IMAP with STARTTLS.
    pub imap: u16,
    /// The port of IMAP with TLS.
    pub imaps: u16,
    /// The port of SMTP with STARTTLS.
    pub smtp: u16,
    /// The port of SMTP with TLS.
    pub smtps: u16,
}

impl MailServers {
    /// Starts both, or says what is missing.
    ///
    /// # Errors
    /// The missing part.
    pub fn start() -> Result<Self, &'static str> {
        if !rustix::process::geteuid().is_root() {
            return Err("the mail servers need root for their users");
        }
        for program in ["/usr/sbin/dovecot", "/usr/sbin/exim4", "/usr/bin/openssl"] {
            if !Path::new(program).exists() {
                return Err("dovecot-imapd, exim4-daemon-light and openssl are not installed");
            }
        }
        // Somebody else can take a port between the choice and the start.
        for _ in 0..5 {
            if let Some(servers) = Self::try_start() {
                return Ok(servers);
            }
        }
        panic!("the mail servers do not start");
    }

    fn try_start() -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("mail-").tempdir().unwrap();
        let path = directory.path();
        // The servers run as users of their own.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["run", "mail", "mail-ann", "home", "spool", "log"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem \
            -days 30 -subj /CN=ca && \
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out req.pem \
            -subj /CN=localhost && \
            printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' > ext && \
            openssl x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out cert.pem && \
            chmod 644 key.pem && chown -R Debian-exim: mail mail-ann home spool log";
        let made = command("sh", path).args(["-c", script]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let listeners: Vec<_> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(listeners);
        let [imap, imaps, smtp, smtps] = ports.try_into().unwrap();
        // Exim gives its rights up with a configuration of ours, so both work as its user.
        let owner = std::fs::metadata(path.join("mail")).unwrap();
        let (uid, gid) = (owner.uid(), owner.gid());
        let at = path.display();
        let users = format!(
            "{ADDRESS}:{{PLAIN}}{PASSWORD}:{uid}:{gid}::{at}/home\n\
             {ANNS_ADDRESS}:{{PLAIN}}{ANNS_PASSWORD}:{uid}:{gid}::{at}/home::userdb_mail=maildir:{at}/mail-ann\n"
        );
        std::fs::write(path.join("users"), users).unwrap();
        std::fs::write(path.join("dovecot.conf"), dovecot(path, imap, imaps)).unwrap();
        std::fs::write(path.join("exim.conf"), exim(path, smtp, smtps)).unwrap();
        let dovecot =
            command("/usr/sbin/dovecot", path).args(["-F", "-c"]).arg(path.join("dovecot.conf")).spawn().unwrap();
        let exim = command("/usr/sbin/exim4", path).arg("-C").arg(path.join("exim.conf")).arg("-bdf").spawn().unwrap();
        let mut servers = Self { directory, servers: vec![dovecot, exim], imap, imaps, smtp, smtps };
        let is_up = until("the mail servers", || {
            if servers.servers.iter_mut().any(|server| server.try_wait().unwrap().is_some()) {
                return Some(false);
            }
            [imap, imaps, smtp, smtps]
                .iter()
                .all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
                .then_some(true)
        });
        is_up.then_some(servers)
    }

    /// The directory with `ca.pem`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The table of a provider with this account, with more lines.
    pub fn table(&self, name: &str, lines: &str) -> String {
        format!(
            "[providers.{name}]\nkind = \"mail\"\naddress = \"{ADDRESS}\"\npassword = {{ file = \"mail.key\" }}\n\
             imap = {{ host = \"localhost\", port = {} }}\nsmtp = {{ host = \"localhost\", port = {}, tls = \"starttls\" }}\n\
             ca_file = \"{}/ca.pem\"\n{lines}\n",
            self.imaps,
            self.smtp,
            self.directory().display()
        )
    }

    /// The table of a provider with accounts of persons, with more lines.
    pub fn table_of_persons(&self, name: &str, lines: &str) -> String {
        format!(
            "[providers.\"{name}\"]\nkind = \"mail\"\n\
             imap = {{ host = \"localhost\", port = {} }}\nsmtp = {{ host = \"localhost\", port = {}, tls = \"starttls\" }}\n\
             ca_file = \"{}/ca.pem\"\n{lines}\n",
            self.imaps,
            self.smtp,
            self.directory().display()
        )
    }

    /// Puts a message into a folder of the first account; the inbox has an empty name.
    pub fn deliver(&self, folder: &str, name: &str, message: &str) {
        self.deliver_to("mail", folder, name, message);
    }

    /// The same for the account with this directory: `mail` or `mail-ann`.
    pub fn deliver_to(&self, account: &str, folder: &str, name: &str, message: &str) {
        let maildir = self.maildir(account, folder);
        let script = "mkdir -p cur new tmp && cat > \"tmp/$1\" && chown -R Debian-exim: . && mv \"tmp/$1\" \"new/$1\"";
        std::fs::create_dir_all(&maildir).unwrap();
        let mut shell = command("sh", &maildir).args(["-c", script, "sh", name]).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), message.replace('\n', "\r\n").as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
    }

    /// The messages of a folder of the first account, as they are stored; the inbox has an empty name.
    pub fn messages(&self, folder: &str) -> Vec<String> {
        self.messages_of("mail", folder)
    }

    /// The same of the account with this directory.
    pub fn messages_of(&self, account: &str, folder: &str) -> Vec<String> {
        let maildir = self.maildir(account, folder);
        let files = ["cur", "new"].into_iter().filter_map(|part| std::fs::read_dir(maildir.join(part)).ok()).flatten();
        files.map(|file| String::from_utf8(std::fs::read(file.unwrap().path()).unwrap()).unwrap()).collect()
    }

    /// The logs of the servers.
    pub fn logged(&self) -> String {
        let mut text = String::new();
        for name in ["dovecot.log", "log/exim-main", "log/exim-reject", "log/exim-panic"] {
            write!(text, "{}", std::fs::read_to_string(self.path(name)).unwrap_or_default()).unwrap();
        }
        text
    }

    fn maildir(&self, account: &str, folder: &str) -> PathBuf {
        let account = self.path(account);
        if folder.is_empty() { account } else { account.join(format!(".{folder}")) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
}

impl Drop for MailServers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // Both end their own children with this signal.
            kill_process(Pid::from_child(server), Signal::TERM).ok();
            server.wait().ok();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it starts servers")]
fn command(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn dovecot(path: &Path, imap: u16, imaps: u16) -> String {
    let path = path.display();
    let folders: String =
        ["Archive", "Trash", "Sent", "Drafts"].map(|name| format!("mailbox {name} {{\nauto = create\n}}\n")).concat();
    format!(
        "base_dir = {path}/run\nstate_dir = {path}/run\nprotocols = imap\nlisten = 127.0.0.1\n\
         log_path = {path}/dovecot.log\nssl = yes\nssl_cert = <{path}/cert.pem\nssl_key = <{path}/key.pem\n\
         disable_plaintext_auth = yes\nauth_mechanisms = plain\nfirst_valid_uid = 1\nmail_location = maildir:{path}/mail\n\
         passdb {{\ndriver = passwd-file\nargs = {path}/users\n}}\nuserdb {{\ndriver = passwd-file\nargs = {path}/users\n}}\n\
         namespace inbox {{\ninbox = yes\n{folders}}}\n\
         service imap-login {{\ninet_listener imap {{\nport = {imap}\n}}\ninet_listener imaps {{\nport = {imaps}\nssl = yes\n}}\n}}\n"
    )
}

fn exim(path: &Path, smtp: u16, smtps: u16) -> String {
    let path = path.display();
    format!(
        "exim_path = /usr/sbin/exim4\nprimary_hostname = mail.example.com\nspool_directory = {path}/spool\n\
         log_file_path = {path}/log/exim-%s\npid_file_path = {path}/spool/pid\ndaemon_smtp_ports = {smtp} : {smtps}\n\
         tls_on_connect_ports = {smtps}\ntls_advertise_hosts = *\ntls_certificate = {path}/cert.pem\n\
         tls_privatekey = {path}/key.pem\nlocal_interfaces = 127.0.0.1\nnever_users =\nkeep_environment =\n\
         rfc1413_query_timeout = 0s\nacl_smtp_mail = accept\nacl_smtp_rcpt = rcpt\nacl_smtp_data = accept\n\
         auth_advertise_hosts = ${{if eq{{$tls_in_cipher}}{{}}{{}}{{*}}}}\n\
         begin acl\nrcpt:\n deny local_parts = refused\n  message = no such user here\n accept authenticated = *\n\
         deny message = sign in first\n\
         begin routers\nall:\n driver = accept\n transport = maildir\n\
         begin transports\nmaildir:\n driver = appendfile\n directory = {path}/${{if eq{{$local_part}}{{ann}}{{mail-ann}}{{mail}}}}\n maildir_format\n envelope_to_add\n\
         begin authenticators\nplain:\n driver = plaintext\n public_name = PLAIN\n server_prompts = :\n\
          server_condition = ${{if or{{{{and{{{{eq{{$auth2}}{{{ADDRESS}}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}\
           {{and{{{{eq{{$auth2}}{{{ANNS_ADDRESS}}}}}{{eq{{$auth3}}{{{ANNS_PASSWORD}}}}}}}}}}}}}\n server_set_id = $auth2\n"
    )
}
