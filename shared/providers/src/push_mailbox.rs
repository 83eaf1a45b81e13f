//! Writes pushes to files in a directory, for trying things out. Serves only made-up test devices, which their tokens mark as such, and
//! only if the operator configured a directory.
//!
//! The end of a token may request a failure: `+gone`, `+reject`, `+defer`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::Outcome;
use super::push::Push;

/// Prefix of the tokens of test devices.
const PREFIX: &str = "mailbox:";

pub struct PushMailbox(PathBuf);

impl PushMailbox {
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    pub fn is_device(token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    /// Writes the file `<message ID>-<random>.json` atomically.
    pub async fn send(&self, push: &Push) -> Outcome {
        match push.token.rsplit_once('+').map(|(_, tag)| tag) {
            Some("gone") => return Outcome::Gone("as requested by the token".to_owned()),
            Some("reject") => return Outcome::Rejected("as requested by the token".to_owned()),
            Some("defer") => return Outcome::Throttled { after: None, why: "as requested by the token".to_owned() },
            _ => {}
        }
        let name = format!("{}-{:08x}", push.id, rand::random::<u32>());
        match self.put(&name, push).await {
            Ok(()) => Outcome::Accepted(name),
            Err(error) => Outcome::unavailable(format!("{}: {error}", self.0.display())),
        }
    }

    async fn put(&self, name: &str, push: &Push) -> std::io::Result<()> {
        let mut content = push.payload();
        content["token"] = json!(push.token);
        content["platform"] = json!(push.platform.as_str());
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(format!("{name}.json")));
        tokio::fs::create_dir_all(&self.0).await?;
        tokio::fs::write(&new, content.to_string()).await?;
        tokio::fs::rename(&new, &path).await
    }
}

#[cfg(test)]
mod tests {
    use domain::push_token::Platform;
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;

    fn push(token: &str) -> Push {
        let (title, body) = ("Hello".to_owned(), "✓".to_owned());
        let url = Some("myapp://order/1".to_owned());
        Push { id: Uuid::from_u128(7), title, body, url, platform: Platform::Ios, token: token.to_owned() }
    }

    #[tokio::test]
    async fn each_push_is_written_to_a_file_and_tokens_request_failures() {
        let dir = tempfile::tempdir().unwrap();
        let mailbox = PushMailbox::new(&dir.path().join("push"));
        for _ in 0..2 {
            assert_eq!(mailbox.send(&push("mailbox:ann")).await.name(), "accepted");
        }
        for (tag, name) in [("gone", "gone"), ("reject", "rejected"), ("defer", "throttled")] {
            assert_eq!(mailbox.send(&push(&format!("mailbox:ann+{tag}"))).await.name(), name);
        }
        let files: Vec<_> = std::fs::read_dir(dir.path().join("push")).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 2, "a repeat is seen: {files:?}");
        let text: Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
        let id = Uuid::from_u128(7);
        let expected = json!({
            "token": "mailbox:ann", "platform": "IOS", "title": "Hello", "body": "✓", "url": "myapp://order/1", "messageId": id,
        });
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn unwritable_directory_is_an_outage() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(PushMailbox::new(file.path()).send(&push("mailbox:ann")).await.name(), "unavailable");
    }
}
