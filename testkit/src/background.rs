//! Asynchronous cleanup in `drop`, which cannot await.

/// Runs a future to completion on a thread of its own, so that it works inside any runtime, outside of one, and while panicking.
pub(crate) fn finish(work: impl Future<Output = ()> + Send + 'static) {
    let cleaner = std::thread::spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
            runtime.block_on(work);
        }
    });
    if cleaner.join().is_err() {
        eprintln!("the cleanup after a test panicked");
    }
}
