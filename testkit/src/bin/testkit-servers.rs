//! `testkit-servers start|stop`: the servers that tests share, started ahead of a run and stopped after it.

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("start") => testkit::servers::start().await,
        Some("stop") => testkit::servers::stop().await?,
        _ => anyhow::bail!("usage: testkit-servers start|stop"),
    }
    Ok(())
}
