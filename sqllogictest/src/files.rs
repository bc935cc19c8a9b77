//! The files of a set of suites.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every `.slt` file below `folder`, sorted, without those that others include (`_….slt`).
pub(crate) fn suites(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = files(folder, |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.extension().is_some_and(|ending| ending == "slt") && !name.starts_with('_')
    })?;
    found.sort();
    Ok(found)
}

/// The files below `folder` that `wanted` wants, in no order.
pub(crate) fn files(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// `path` below `folder`, with `/`.
pub(crate) fn below(folder: &Path, path: &Path) -> String {
    let short = path.strip_prefix(folder).unwrap_or(path);
    short.to_string_lossy().replace('\\', "/")
}
