//! Asynchronous cleaning up out of `drop`, where nothing can be awaited.

/// Runs a future to its end on a thread of its own, so that it works inside any runtime, outside, and while panicking.
pub(crate) fn finish(work: impl Future<Output = ()> + Send + 'static) {
    let cleaner = std::thread::spawn(move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
            runtime.block_on(work);
        }
    });
    if cleaner.join().is_err() {
        eprintln!("cleaning up after a test panicked");
    }
}
