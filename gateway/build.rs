//! Puts the dashboard into the program, where `make dashboard` has built it: a list of what lies in `dashboard/dist`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// What the compressed form of a file ends with.
const ZIPPED: &str = ".gz";

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let built = Path::new(&root).join("../dashboard/dist");
    println!("cargo::rerun-if-changed={}", built.display());
    let mut names = Vec::new();
    if built.join("index.html").is_file() {
        collect(&built, "", &mut names)?;
    }
    names.sort();

    let mut list = String::from("const FILES: &[File] = &[\n");
    let place = built.to_str().ok_or_else(|| io::Error::other("the path of the sources is not UTF-8"))?;
    let bytes = |name: &str| {
        let path = format!("{place}/{name}");
        format!("include_bytes!({path:?})")
    };
    for name in names.iter().filter(|name| name.strip_suffix(ZIPPED).is_none()) {
        let zipped = format!("{name}{ZIPPED}");
        let gzip = if names.contains(&zipped) { format!("Some({})", bytes(&zipped)) } else { "None".to_owned() };
        let path = format!("/{name}");
        writeln!(list, "    File {{ path: {path:?}, plain: {}, gzip: {gzip} }},", bytes(name))
            .map_err(io::Error::other)?;
    }
    list.push_str("];\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("dashboard_files.rs"), list)
}

/// The files below a directory, by their paths with slashes; what begins with a dot is left out.
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
