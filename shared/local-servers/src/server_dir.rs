//! The directory of one server: its lock, its port and password, its pid file and its log.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LocalError, Process, port};

/// How often a starting server's readiness is polled.
const POLL: Duration = Duration::from_millis(15);

#[derive(Clone, Debug)]
pub(super) struct ServerDir {
    pub path: PathBuf,
    server: &'static str,
}

/// Held while a server is started. The system releases it when the file is closed.
pub(super) struct DirLock(#[expect(dead_code, reason = "held for its lock")] fs::File);

pub(super) enum Readiness {
    Ready,
    /// The process ended.
    Ended,
    TimedOut,
}

impl ServerDir {
    /// Returns the directory without creating it.
    pub fn at(path: &Path, server: &'static str) -> Result<Self, LocalError> {
        let path = std::path::absolute(path).map_err(LocalError::io("find", path))?;
        Ok(Self { path, server })
    }

    /// Creates the directory and takes its lock. Waits for a concurrent start of the same server.
    pub async fn lock(&self) -> Result<DirLock, LocalError> {
        // PostgreSQL's user may traverse it; only the owner may list it.
        let created = fs::DirBuilder::new().recursive(true).mode(0o711).create(&self.path);
        created.map_err(LocalError::io("create", &self.path))?;
        let path = self.path.join("lock");
        let file = fs::File::create(&path).map_err(LocalError::io("create", &path))?;
        let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
        let locked = locked.map_err(std::io::Error::other).and_then(|result| result);
        locked.map(DirLock).map_err(LocalError::io("lock", &path))
    }

    pub fn pid_file(&self) -> PathBuf {
        self.path.join("pid")
    }

    pub fn log_file(&self) -> PathBuf {
        self.path.join("server.log")
    }

    /// Returns the server's process, if it runs.
    pub fn process(&self) -> Result<Option<Process>, LocalError> {
        Process::attach(&self.pid_file())
    }

    pub fn error(&self, problem: impl Into<String>) -> LocalError {
        LocalError::server(self.server, problem, &self.log_file())
    }

    /// Returns the error for a running server whose port or password file is missing.
    pub fn incomplete(&self) -> LocalError {
        self.error("runs, but a port or password file is missing; stop it and start it again")
    }

    /// Returns the stored password; `None` before the first start.
    pub fn password(&self) -> Result<Option<String>, LocalError> {
        read(&self.path.join("password"))
    }

    /// Returns the stored password. Generates it at the first start.
    pub fn ensure_password(&self) -> Result<String, LocalError> {
        if let Some(password) = self.password()? {
            return Ok(password);
        }
        let password = hex::encode(rand::random::<[u8; 16]>());
        write_private(&self.path.join("password"), &password)?;
        Ok(password)
    }

    /// Returns the port stored under `name`; `None` before the first start.
    pub fn stored_port(&self, name: &str) -> Result<Option<u16>, LocalError> {
        Ok(read(&self.path.join(name))?.and_then(|text| text.parse().ok()))
    }

    /// Chooses the fixed port, or the stored one if it is free, or a free one. Stores the choice.
    pub fn choose_port(&self, name: &str, fixed: Option<u16>) -> Result<u16, LocalError> {
        let wanted = fixed.or(self.stored_port(name)?);
        let port = match wanted.filter(|port| port::is_free(*port)) {
            Some(port) => port,
            None if fixed.is_none() => port::free(),
            None => {
                let (server, port) = (self.server, fixed.unwrap_or_default());
                let problem = format!(
                    "{server}: port {port} is in use; stop the process that listens on it, or choose another port"
                );
                return Err(LocalError::Refused(problem));
            }
        };
        write_private(&self.path.join(name), &port.to_string())?;
        Ok(port)
    }

    /// Polls until `ready` returns true, the process has ended, or the time is up.
    pub async fn wait_ready<F: Future<Output = bool>>(
        &self,
        process: &Process,
        timeout: Duration,
        ready: impl Fn() -> F,
    ) -> Readiness {
        let polling = async {
            loop {
                // A check may hang, for example if a suspended process listens on the port.
                if tokio::time::timeout(Duration::from_secs(2), ready()).await.unwrap_or(false) {
                    return Readiness::Ready;
                }
                if !process.is_running() {
                    return Readiness::Ended;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(timeout, polling).await.unwrap_or(Readiness::TimedOut)
    }
}

fn read(path: &Path) -> Result<Option<String>, LocalError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LocalError::io("read", path)(error)),
    }
}

/// Writes a whole file that only its owner may read. A reader sees either the old text or the new.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), LocalError> {
    let temporary = path.with_added_extension(format!("{:08x}", rand::random::<u32>()));
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        writeln!(file, "{text}")?;
        fs::rename(&temporary, path)
    };
    write().map_err(LocalError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_and_password_are_stored() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = ServerDir::at(&temporary.path().join("a/b"), "x").unwrap();
        assert_eq!(dir.password().unwrap(), None);
        let _lock = dir.lock().await.unwrap();
        let (password, port) = (dir.ensure_password().unwrap(), dir.choose_port("port", None).unwrap());
        assert_eq!(password.len(), 32);
        assert_eq!((dir.ensure_password().unwrap(), dir.choose_port("port", None).unwrap()), (password, port));

        let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert_ne!(dir.choose_port("port", None).unwrap(), port, "another process listens on the stored port");
        let refused = dir.choose_port("port", Some(port)).unwrap_err().to_string();
        assert!(refused.contains(&port.to_string()), "{refused}");
    }
}
