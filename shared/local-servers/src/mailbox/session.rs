//! The SMTP session as a state machine: it maps each line to an action. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::MailboxConfig;
use super::address::{Fault, Path, fault, parse};

const MAX_RECIPIENTS: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Reply(String),
    /// Reply 354 and read the email.
    Data,
    /// Never reply.
    Hang,
    Quit,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    pub from: String,
    pub to: Vec<String>,
    /// Close the connection instead of replying to the email.
    pub unanswered: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Login {
    None,
    PlainWanted,
    UserWanted,
    PasswordWanted(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Session<'a> {
    config: &'a MailboxConfig,
    greeted: bool,
    login: Login,
    logged_in: bool,
    envelope: Option<Envelope>,
}

fn reply(text: &str) -> Action {
    Action::Reply(format!("{text}\r\n"))
}

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a MailboxConfig) -> Self {
        Self { config, greeted: false, login: Login::None, logged_in: config.auth.is_none(), envelope: None }
    }

    /// Returns the envelope of the email just read. The next email starts without one.
    pub(super) fn take_envelope(&mut self) -> Envelope {
        self.envelope.take().unwrap_or_default()
    }

    /// Handles one line without its end.
    pub(super) fn line(&mut self, line: &[u8]) -> Action {
        match std::mem::replace(&mut self.login, Login::None) {
            Login::None => {}
            login => return self.continue_login(login, line),
        }
        let Ok(line) = std::str::from_utf8(line) else { return reply("500 5.5.2 Not UTF-8") };
        if line.chars().any(char::is_control) {
            return reply("500 5.5.2 Control characters in a command");
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" if !rest.trim().is_empty() => self.ehlo(),
            "HELO" if !rest.trim().is_empty() => {
                (self.greeted, self.envelope) = (true, None);
                reply("250 localhost")
            }
            "EHLO" | "HELO" => reply("501 5.5.4 Host name required"),
            "NOOP" => reply("250 2.0.0 OK"),
            "RSET" => {
                self.envelope = None;
                reply("250 2.0.0 OK")
            }
            "QUIT" => Action::Quit,
            "VRFY" => reply("252 2.1.5 Not verified"),
            "AUTH" | "MAIL" | "RCPT" | "DATA" if !self.greeted => reply("503 5.5.1 EHLO first"),
            "AUTH" => self.auth(rest),
            "MAIL" if !self.logged_in => reply("530 5.7.0 Authentication required"),
            "MAIL" => self.mail(rest),
            "RCPT" => self.rcpt(rest),
            "DATA" => match &self.envelope {
                Some(envelope) if !envelope.to.is_empty() => Action::Data,
                _ => reply("503 5.5.1 No valid recipients"),
            },
            _ => reply("500 5.5.1 Unknown command"),
        }
    }

    fn ehlo(&mut self) -> Action {
        (self.greeted, self.envelope) = (true, None);
        let size = self.config.max_size;
        reply(&format!(
            "250-localhost\r\n250-PIPELINING\r\n250-SIZE {size}\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n\
             250-ENHANCEDSTATUSCODES\r\n250 AUTH PLAIN LOGIN"
        ))
    }

    fn mail(&mut self, rest: &str) -> Action {
        if self.envelope.is_some() {
            return reply("503 5.5.1 Email already in progress");
        }
        let Some(path) = parse(rest, "FROM:") else { return reply("501 5.1.7 Syntax: MAIL FROM:<address>") };
        if let Some(problem) = self.sender_problem(&path) {
            return reply(problem);
        }
        self.envelope = Some(Envelope { from: path.address, ..Envelope::default() });
        reply("250 2.1.0 OK")
    }

    fn sender_problem(&self, path: &Path) -> Option<&'static str> {
        let mut utf8 = false;
        for (name, value) in &path.parameters {
            match (name.as_str(), value.parse::<u64>()) {
                ("SIZE", Ok(size)) if size > self.config.max_size as u64 => return Some("552 5.3.4 Too large"),
                ("SIZE", Ok(_)) | ("BODY" | "AUTH", _) => {}
                ("SMTPUTF8", _) => utf8 = true,
                _ => return Some("555 5.5.4 Unknown parameter"),
            }
        }
        (!utf8 && !path.address.is_ascii()).then_some("553 5.6.7 Needs SMTPUTF8")
    }

    fn rcpt(&mut self, rest: &str) -> Action {
        let Some(envelope) = &mut self.envelope else { return reply("503 5.5.1 MAIL first") };
        let path = parse(rest, "TO:").filter(|path| path.address.contains('@'));
        let Some(path) = path else { return reply("501 5.1.3 Syntax: RCPT TO:<address>") };
        if !path.parameters.is_empty() {
            return reply("555 5.5.4 Unknown parameter");
        }
        if envelope.to.len() >= MAX_RECIPIENTS {
            return reply("452 4.5.3 Too many recipients");
        }
        match fault(&path.address) {
            Some(Fault::Hang) => return Action::Hang,
            Some(Fault::Code(code)) => {
                return reply(&format!("{code} {}.1.1 As requested by the address", code / 100));
            }
            Some(Fault::Unanswered) => envelope.unanswered = true,
            None => {}
        }
        envelope.to.push(path.address);
        reply("250 2.1.5 OK")
    }

    fn auth(&mut self, rest: &str) -> Action {
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        self.login = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => Login::PlainWanted,
            "LOGIN" => Login::UserWanted,
            _ => return reply("504 5.5.4 PLAIN or LOGIN"),
        };
        if !initial.is_empty() {
            let login = std::mem::replace(&mut self.login, Login::None);
            return self.continue_login(login, initial.as_bytes());
        }
        // LOGIN requires "Username:" in base64.
        reply(if self.login == Login::PlainWanted { "334 " } else { "334 VXNlcm5hbWU6" })
    }

    fn continue_login(&mut self, login: Login, line: &[u8]) -> Action {
        if line == b"*" {
            return reply("501 5.7.0 Login cancelled");
        }
        // "=" is an empty response.
        let Ok(response) = STANDARD.decode(if line == b"=" { b"" } else { line }) else {
            return reply("501 5.5.2 Not base64");
        };
        match login {
            Login::None => reply("503 5.5.1 No login in progress"),
            Login::UserWanted => {
                self.login = Login::PasswordWanted(response);
                reply("334 UGFzc3dvcmQ6")
            }
            Login::PasswordWanted(user) => self.check_login(&user, &response),
            Login::PlainWanted => {
                let mut parts = response.splitn(3, |byte| *byte == 0).skip(1);
                match (parts.next(), parts.next()) {
                    (Some(user), Some(password)) => self.check_login(user, password),
                    _ => reply("501 5.5.2 Not a PLAIN response"),
                }
            }
        }
    }

    fn check_login(&mut self, user: &[u8], password: &[u8]) -> Action {
        let right = |(name, secret): &(String, String)| name.as_bytes() == user && secret.as_bytes() == password;
        if self.config.auth.as_ref().is_none_or(right) {
            self.logged_in = true;
            reply("235 2.7.0 Welcome")
        } else {
            reply("535 5.7.8 Wrong user or password")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reply code for each line, or `D` for data, `H` for hang, `Q` for quit.
    fn codes(config: &MailboxConfig, lines: &[&str]) -> Vec<String> {
        let mut session = Session::new(config);
        let code = |line: &&str| match session.line(line.as_bytes()) {
            Action::Reply(text) => {
                assert!(text.ends_with("\r\n"), "{text:?}");
                text[..3].to_owned()
            }
            Action::Data => "D".into(),
            Action::Hang => "H".into(),
            Action::Quit => "Q".into(),
        };
        lines.iter().map(code).collect()
    }

    fn open() -> MailboxConfig {
        MailboxConfig::new("/nowhere")
    }

    #[test]
    fn commands_in_order_are_accepted() {
        let lines = ["ehlo x", "mail from:<a@b>", "RCPT TO:<c@d>", "DATA", "QUIT"];
        assert_eq!(codes(&open(), &lines), ["250", "250", "250", "D", "Q"]);
    }

    #[test]
    fn commands_out_of_order_are_rejected() {
        let lines =
            ["MAIL FROM:<a@b>", "EHLO x", "RCPT TO:<c@d>", "DATA", "MAIL FROM:<a@b>", "DATA", "MAIL FROM:<a@b>"];
        assert_eq!(codes(&open(), &lines), ["503", "250", "503", "503", "250", "503", "503"]);
        let lines = ["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c@d>", "RSET", "DATA"];
        assert_eq!(codes(&open(), &lines), ["250", "250", "250", "250", "503"]);
    }

    #[test]
    fn limits_are_enforced() {
        let lines = ["EHLO x", "MAIL FROM:<a@b> SIZE=26214401", "MAIL FROM:<ä@b>", "MAIL FROM:<ä@b> SMTPUTF8"];
        assert_eq!(codes(&open(), &lines), ["250", "552", "553", "250"]);
        let mut lines = vec!["EHLO x", "MAIL FROM:<a@b>"];
        lines.extend(["RCPT TO:<c@d>"; 101]);
        assert_eq!(codes(&open(), &lines).last().unwrap(), "452");
    }

    #[test]
    fn invalid_commands_are_rejected() {
        let lines = ["EHLO x\u{0}", "EHLO", "BDAT 1", "", "EHLO x", "MAIL FROM:<a@b> X=1", "AUTH CRAM-MD5"];
        assert_eq!(codes(&open(), &lines), ["500", "501", "500", "500", "250", "555", "504"]);
        assert_eq!(Session::new(&open()).line(b"NOOP \xff"), reply("500 5.5.2 Not UTF-8"));
    }

    #[test]
    fn login_is_required_if_configured() {
        let config = open().with_auth("ann", "secret");
        let plain = format!("AUTH PLAIN {}", STANDARD.encode("\0ann\0secret"));
        let wrong = format!("AUTH PLAIN {}", STANDARD.encode("\0ann\0wrong"));
        let lines = ["EHLO x", "MAIL FROM:<a@b>", &wrong, "MAIL FROM:<a@b>", &plain, "MAIL FROM:<a@b>"];
        assert_eq!(codes(&config, &lines), ["250", "530", "535", "530", "235", "250"]);
        let (user, password) = (STANDARD.encode("ann"), STANDARD.encode("secret"));
        let lines = ["EHLO x", "AUTH LOGIN", &user, &password, "MAIL FROM:<a@b>"];
        assert_eq!(codes(&config, &lines), ["250", "334", "334", "235", "250"]);
        let lines = ["EHLO x", "AUTH PLAIN", "*", "AUTH LOGIN", "!", "AUTH PLAIN", "=", "NOOP"];
        assert_eq!(codes(&config, &lines), ["250", "334", "501", "334", "501", "334", "501", "250"]);
    }

    #[test]
    fn any_login_is_accepted_if_none_is_configured() {
        let plain = format!("AUTH PLAIN {}", STANDARD.encode("\0who\0ever"));
        assert_eq!(codes(&open(), &["EHLO x", &plain, "MAIL FROM:<>"]), ["250", "235", "250"]);
    }

    #[test]
    fn recipient_tags_request_failures() {
        let lines = ["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c+reject550@d>", "DATA", "RCPT TO:<c+defer451@d>"];
        assert_eq!(codes(&open(), &lines), ["250", "250", "550", "503", "451"]);
        assert_eq!(codes(&open(), &["EHLO x", "MAIL FROM:<a@b>", "RCPT TO:<c+hang@d>"]), ["250", "250", "H"]);
    }
}
