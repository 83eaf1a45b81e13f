//! NATS for one test: the shared server, with a stream prefix of its own.

use async_nats::jetstream;
use futures_util::TryStreamExt;

use crate::{background, must, random_name, servers};

/// A URL and a stream prefix; streams with the prefix are deleted with this value.
#[derive(Debug)]
pub struct TestNats {
    url: String,
    prefix: String,
}

impl TestNats {
    /// Panics with the reason if NATS is unavailable.
    pub async fn create() -> Self {
        Self { url: servers::nats().await.url(), prefix: format!("t{}_", random_name()) }
    }

    /// Returns the value for `NATS_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the value for `STREAM_PREFIX`: letters, digits and `_`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub async fn client(&self) -> async_nats::Client {
        must("connecting to the test NATS", connect(&self.url).await)
    }

    pub async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(self.client().await)
    }
}

impl Drop for TestNats {
    fn drop(&mut self) {
        let (url, prefix) = (std::mem::take(&mut self.url), std::mem::take(&mut self.prefix));
        background::finish(async move {
            if let Err(error) = delete(&url, &prefix).await {
                eprintln!("could not delete the streams {prefix}*: {error:#}");
            }
        });
    }
}

/// Connects with the user and password in the URL, which the client itself ignores.
pub(crate) async fn connect(url: &str) -> anyhow::Result<async_nats::Client> {
    let address: async_nats::ServerAddr = url.parse()?;
    let (user, password) = address.username().zip(address.password()).unwrap_or_default();
    let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    Ok(options.connect(address.clone()).await?)
}

async fn delete(url: &str, prefix: &str) -> anyhow::Result<()> {
    let jetstream = jetstream::new(connect(url).await?);
    let names: Vec<String> = jetstream.stream_names().try_collect().await?;
    let bare = |name: &str| name.trim_start_matches("KV_").trim_start_matches("OBJ_").starts_with(prefix);
    for name in names.iter().filter(|name| bare(name)) {
        jetstream.delete_stream(name).await?;
    }
    Ok(())
}
