//! The files of the project as git sees them: committed ones and new ones that are not ignored.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::Workspace;

/// A text file of the project.
pub(crate) struct Source {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Its whole text.
    pub(crate) text: String,
}

impl Source {
    /// The lines before the tests at the end of the file, numbered from 1, comments blanked out.
    ///
    /// A `//` inside a string literal ends the line too early; no rule here needs what follows one.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]")
            .map(|line| line.split("//").next().unwrap_or_default())
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Paths of the files below `folder` whose names end in one of `endings`.
pub(crate) fn paths(workspace: &Workspace, folder: &str, endings: &[&str]) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", folder])
        .current_dir(&workspace.root)
        .output()
        .context("cannot run git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listing = String::from_utf8(output.stdout).context("a path that is no UTF-8")?;
    let mut paths: Vec<String> = listing
        .lines()
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)))
        .filter(|path| workspace.path(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    Ok(paths)
}

/// The same files with their texts.
pub(crate) fn read(workspace: &Workspace, folder: &str, endings: &[&str]) -> Result<Vec<Source>> {
    paths(workspace, folder, endings)?
        .into_iter()
        .map(|path| workspace.read(&path).map(|text| Source { path, text }))
        .collect()
}
