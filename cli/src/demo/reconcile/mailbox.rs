//! The mailbox directory: one `.eml` file per mail, each read once.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use mail_parser::MessageParser;
use mail_parser::decoders::html::html_to_text;

/// The fields of a mail that the reconciliation uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The recipient in lower case. Several are joined with commas.
    pub to: String,
    /// The decoded subject.
    pub subject: String,
    /// The HTML part as text.
    pub text: String,
    pub message_id: String,
    /// When the file was written, in Unix milliseconds.
    pub arrived_ms: i64,
}

pub struct Mailbox {
    dir: PathBuf,
    read: HashMap<std::ffi::OsString, Mail>,
}

impl Mailbox {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, read: HashMap::new() }
    }

    /// Reads the files that were added since the last call.
    pub fn read_new_files(&mut self) -> anyhow::Result<()> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            // The directory is created with the first mail.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e).with_context(|| format!("reading the mailbox {}", self.dir.display())),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("reading the mailbox {}", self.dir.display()))?;
            let name = entry.file_name();
            let path = entry.path();
            if path.extension().is_none_or(|ending| ending != "eml") || self.read.contains_key(&name) {
                continue;
            }
            let raw = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let written = entry.metadata().and_then(|data| data.modified());
            let written = written.with_context(|| format!("reading the time of {}", path.display()))?;
            let arrived_ms = written.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
            let mail = parse(&raw, arrived_ms).with_context(|| format!("{} is not a mail", path.display()))?;
            self.read.insert(name, mail);
        }
        Ok(())
    }

    pub fn mails(&self) -> impl Iterator<Item = &Mail> {
        self.read.values()
    }
}

fn parse(raw: &[u8], arrived_ms: i64) -> Option<Mail> {
    let mail = MessageParser::default().parse(raw)?;
    let to = mail.all_to().chain(mail.all_cc()).chain(mail.all_bcc()).flat_map(|list| list.iter());
    let to: Vec<_> = to.filter_map(|address| address.address()).map(str::to_lowercase).collect();
    let html = mail.body_html(0).unwrap_or_default();
    Some(Mail {
        to: to.join(","),
        subject: mail.subject().unwrap_or_default().to_owned(),
        text: html_to_text(&html),
        message_id: mail.message_id().unwrap_or_default().to_owned(),
        arrived_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "From: Shop <shop@example.com>\r\nTo: =?utf-8?B?2YHYp9i32YXYqQ==?= <Post.7@r.shop.example>\r\n\
        Subject: =?utf-8?B?V2VsY29tZSwg2YHYp9i32YXYqSE=?=\r\nMessage-ID: <m1@example.com>\r\nMIME-Version: 1.0\r\n\
        Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        <html><body><h1>Hello O&#x27;Brien &amp; S=C3=B6hne &lt;Ltd&gt;</h1></body></html>\r\n";

    #[test]
    fn headers_and_body_are_decoded() {
        let mail = parse(RAW.as_bytes(), 5).unwrap();
        assert_eq!((mail.to.as_str(), mail.subject.as_str()), ("post.7@r.shop.example", "Welcome, فاطمة!"));
        assert_eq!((mail.message_id.as_str(), mail.arrived_ms), ("m1@example.com", 5));
        assert!(mail.text.contains("Hello O'Brien & Söhne <Ltd>"), "{}", mail.text);
    }

    #[test]
    fn only_mails_are_read_and_each_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut mailbox = Mailbox::new(dir.path().join("not yet"));
        mailbox.read_new_files().unwrap();
        let mut mailbox = Mailbox::new(dir.path().to_owned());
        std::fs::write(dir.path().join("1.eml"), RAW).unwrap();
        std::fs::write(dir.path().join("2.eml.tmp"), "half a ma").unwrap();
        mailbox.read_new_files().unwrap();
        mailbox.read_new_files().unwrap();
        assert_eq!(mailbox.mails().count(), 1);
    }
}
