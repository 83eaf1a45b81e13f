//! Embeds the dashboard, if `make dashboard` has built it, and the documentation site.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

use anyhow::{Context, Result};

/// Suffix of compressed files.
const GZIP: &str = ".gz";

fn main() -> Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let out = env::var("OUT_DIR")?;
    dashboard(&Path::new(&root).join("../dashboard/dist"), Path::new(&out))?;
    docs(&Path::new(&root).join("../docs"), Path::new(&out))
}

/// Lists the files of the dashboard in `dashboard_files.rs`.
fn dashboard(built: &Path, out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed={}", built.display());
    let mut names = Vec::new();
    if built.join("index.html").is_file() {
        collect(built, "", &mut names)?;
    }
    names.sort();

    let mut list = String::from("const FILES: &[File] = &[\n");
    let folder = built.to_str().context("the path of the sources is not UTF-8")?;
    let bytes = |name: &str| {
        let path = format!("{folder}/{name}");
        format!("include_bytes!({path:?})")
    };
    for name in names.iter().filter(|name| name.strip_suffix(GZIP).is_none()) {
        let zipped = format!("{name}{GZIP}");
        let gzip = if names.contains(&zipped) { format!("Some({})", bytes(&zipped)) } else { "None".to_owned() };
        let path = format!("/{name}");
        writeln!(list, "    File {{ path: {path:?}, plain: {}, gzip: {gzip} }},", bytes(name))?;
    }
    list.push_str("];\n");
    Ok(fs::write(out.join("dashboard_files.rs"), list)?)
}

/// Builds the documentation site below `docs/` and lists its files in `docs_files.rs`.
fn docs(sources: &Path, out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut list = String::from("const FILES: &[(&str, &[u8])] = &[\n");
    for (number, file) in docs_site::build(sources)?.files.iter().enumerate() {
        let stored = out.join(format!("docs-{number}"));
        fs::write(&stored, &file.bytes)?;
        let path = format!("{}{}", docs_site::BASE, file.path);
        writeln!(list, "    ({path:?}, include_bytes!({:?})),", stored.to_str().context("OUT_DIR is not UTF-8")?)?;
    }
    list.push_str("];\n");
    Ok(fs::write(out.join("docs_files.rs"), list)?)
}

/// Collects the paths of the files below a directory, with slashes, except hidden ones.
fn collect(directory: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{prefix}{name}/"), names)?;
        } else {
            names.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}
