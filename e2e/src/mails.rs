//! The mails in the mailbox.

use std::collections::BTreeMap;

use testkit::{Mail, TestMailbox};
use uuid::Uuid;

/// Returns the mails to an address, oldest first.
pub fn to(mailbox: &TestMailbox, address: &str) -> Vec<Mail> {
    mailbox.mails().into_iter().filter(|mail| mail.delivered_to().iter().any(|to| to == address)).collect()
}

/// Counts the copies of each message. The part of a Message-ID before the `@` is the message's ID.
///
/// Panics on a mail without such an ID.
pub fn copies(mailbox: &TestMailbox) -> BTreeMap<Uuid, u32> {
    let mut copies = BTreeMap::new();
    for mail in mailbox.mails() {
        let header = mail.header("Message-ID").unwrap_or_default();
        let id = header.trim_start_matches('<').split('@').next().and_then(|id| Uuid::try_parse(id).ok());
        let id = id.unwrap_or_else(|| panic!("{}: no message ID in {header:?}", mail.path.display()));
        *copies.entry(id).or_default() += 1;
    }
    copies
}
