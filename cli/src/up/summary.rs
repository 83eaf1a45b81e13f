//! Output of `up`: the credentials, as JSON and for a shell, and a short introduction.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::private_file;
use crate::run_dir::RunDir;
use crate::services;
use crate::state::{FirstProject, State};

/// Contents of `credentials.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// Ends in `/api/v1`.
    pub base_url: String,
    pub dashboard_url: String,
    pub project_id: String,
    pub public_key: String,
    pub secret_key: String,
    pub webhook_secret: String,
    pub admin_email: String,
    pub admin_password: String,
    /// Absolute path.
    pub mail_dir: String,
    /// Absolute path of the files for pushes to devices whose tokens begin with `mailbox:`.
    pub push_dir: String,
}

impl Credentials {
    pub fn of(dir: &RunDir, state: &State) -> Self {
        Self::at(&services::origin(state), state.first.clone(), dir.path())
    }

    /// Builds the credentials. `mailbox_dir` contains the mailbox's folders `mail` and `push`.
    pub fn at(origin: &str, first: FirstProject, mailbox_dir: &Path) -> Self {
        Self {
            base_url: format!("{origin}/api/v1"),
            dashboard_url: format!("{origin}/"),
            project_id: first.id.to_string(),
            public_key: first.public_key,
            secret_key: first.secret_key,
            webhook_secret: first.webhook_secret,
            admin_email: first.admin_email,
            admin_password: first.admin_password,
            mail_dir: mailbox_dir.join("mail").display().to_string(),
            push_dir: mailbox_dir.join("push").display().to_string(),
        }
    }
}

/// Writes `credentials.json`, and `env` for `. .run/env`.
pub fn write_credentials(dir: &RunDir, credentials: &Credentials) -> Result<()> {
    let json = serde_json::to_vec_pretty(credentials)?;
    // Write the JSON last: if it exists, both files are complete.
    for (path, content) in [(dir.env_file(), shell(credentials).into_bytes()), (dir.credentials_file(), json)] {
        private_file::write(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Formats the values for the first requests as POSIX shell variables.
fn shell(credentials: &Credentials) -> String {
    let variables = [
        ("REKINDLE_URL", &credentials.base_url),
        ("REKINDLE_PROJECT_ID", &credentials.project_id),
        ("REKINDLE_PUBLIC_KEY", &credentials.public_key),
        ("REKINDLE_SECRET_KEY", &credentials.secret_key),
        ("REKINDLE_MAIL_DIR", &credentials.mail_dir),
    ];
    let line = |(name, value): (&str, &String)| format!("export {name}='{}'\n", value.replace('\'', "'\\''"));
    variables.map(line).concat()
}

pub fn print(dir: &RunDir, state: &State) {
    let (file, env) = (dir.credentials_file().display().to_string(), dir.env_file().display().to_string());
    print!("{}", text(&Credentials::of(dir, state), &file, &env));
}

fn text(credentials: &Credentials, file: &str, env: &str) -> String {
    let Credentials {
        base_url,
        dashboard_url,
        public_key,
        secret_key,
        admin_email,
        admin_password,
        mail_dir,
        push_dir,
        ..
    } = credentials;
    format!(
        "
Rekindle is up.

  dashboard    {dashboard_url}
  API          {base_url}
  public key   {public_key}
  secret key   {secret_key}
  admin        {admin_email}, password {admin_password}
  mail         {mail_dir}
  push         {push_dir}
  all values   {file}, or in a shell: . {env}

Send a first event and read it back:

  curl -sS {base_url}/events -H 'x-api-key: {public_key}' -H 'content-type: application/json' -H 'prefer: wait=5' -d '{{\"event\":\"hello\",\"user_id\":\"ada\",\"properties\":{{\"from\":\"curl\"}}}}'
  curl -sS '{base_url}/events?limit=1' -H 'x-api-key: {secret_key}'

"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_reads_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("it's $HOME")).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        state.ports.gateway = Some(8080);
        write_credentials(&dir, &Credentials::of(&dir, &state)).unwrap();
        let read = r#". "$1/env" && printf '%s %s' "$REKINDLE_URL" "$REKINDLE_MAIL_DIR""#;
        let output = std::process::Command::new("sh").args(["-c", read, "sh"]).arg(dir.path()).output().unwrap();
        let expected = format!("http://127.0.0.1:8080/api/v1 {}", dir.mail().display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }

    #[test]
    fn the_credentials_have_the_documented_fields() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        state.ports.gateway = Some(8080);
        write_credentials(&dir, &Credentials::of(&dir, &state)).unwrap();
        let text = std::fs::read_to_string(dir.credentials_file()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "adminEmail",
                "adminPassword",
                "baseUrl",
                "dashboardUrl",
                "mailDir",
                "projectId",
                "publicKey",
                "pushDir",
                "secretKey",
                "webhookSecret"
            ]
        );
        assert_eq!(json["baseUrl"], "http://127.0.0.1:8080/api/v1");
        assert!(Path::new(json["mailDir"].as_str().unwrap()).is_absolute());
    }
}
