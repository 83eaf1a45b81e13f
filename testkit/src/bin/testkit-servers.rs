//! `testkit-servers start|stop`: starts the shared test servers before a run, and stops them after it.

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("start") => testkit::servers::start().await,
        Some("stop") => testkit::servers::stop().await?,
        _ => anyhow::bail!("usage: testkit-servers start|stop"),
    }
    Ok(())
}
