//! Who may know whom. A crate that is missing here, or a dependency that its line does not name, is a finding: the
//! line is changed in the same commit, which says why.

use anyhow::Result;

use crate::steps::{cargo, output};
use crate::{Workspace, toml};

/// What one crate may depend on directly.
pub(crate) struct Crate {
    pub(crate) folder: &'static str,
    /// Holds plain functions and values only: see `purity`.
    pub(crate) pure: bool,
    dependencies: &'static str,
    dev_dependencies: &'static str,
}

/// Every crate of the workspace, in the order in which they build on each other.
pub(crate) const CRATES: &[Crate] = &[
    Crate {
        folder: "proto",
        pure: true,
        dependencies: "serde serde_json thiserror",
        dev_dependencies: "postcard proptest",
    },
    Crate {
        folder: "parser",
        pure: true,
        dependencies: "candor-proto miette nom serde sqlparser thiserror",
        dev_dependencies: "proptest",
    },
    Crate {
        folder: "planner",
        pure: true,
        dependencies: "candor-proto miette serde thiserror",
        dev_dependencies: "serde_json",
    },
    Crate {
        folder: "storage",
        pure: false,
        dependencies: "candor-proto arrow arrow-ipc bytes crc32fast hashbrown object_store parking_lot parquet postcard \
            ring rustix serde sha2 thiserror tracing twox-hash uuid",
        dev_dependencies: "object_store proptest tempfile",
    },
    Crate {
        folder: "engine",
        pure: false,
        dependencies: "candor-parser candor-proto candor-storage arrow async-trait bytes chrono chrono-tz datafusion \
            futures memchr object_store parking_lot parquet regex serde serde_json sqlparser thiserror tokio tracing uuid",
        dev_dependencies: "tempfile tpchgen",
    },
    Crate {
        folder: "cluster",
        pure: false,
        dependencies: "candor-planner candor-proto candor-storage arrow bytes crc32fast futures parking_lot \
            postcard quinn raft rcgen ring rustls rustls-pki-types serde slog thiserror tokio \
            tokio-util tracing x509-parser",
        dev_dependencies: "proptest tempfile",
    },
    Crate {
        folder: "server",
        pure: false,
        dependencies: "candor-cluster candor-engine candor-parser candor-planner candor-proto candor-storage \
            arrow axum bytes futures http http-body-util hyper hyper-util metrics \
            metrics-exporter-prometheus parking_lot ring serde serde_json sqlparser thiserror tokio \
            tokio-stream tokio-util tower tracing",
        dev_dependencies: "candor-client reqwest tempfile",
    },
    Crate {
        folder: "client",
        pure: false,
        dependencies: "candor-planner candor-proto bytes futures reqwest serde serde_json thiserror tokio",
        dev_dependencies: "axum",
    },
    Crate {
        folder: "cli",
        pure: false,
        dependencies: "candor-client candor-cluster candor-engine candor-parser candor-planner candor-proto \
            candor-server candor-storage anyhow clap comfy-table futures indicatif miette mimalloc \
            parking_lot reedline reqwest rustix serde serde_json sqlparser tempfile thiserror tokio \
            toml tracing tracing-subscriber",
        dev_dependencies: "candor-sqllogictest arrow",
    },
    Crate {
        folder: "sqllogictest",
        pure: false,
        dependencies: "candor-client candor-proto anyhow async-trait clap md-5 regex serde serde_json sqllogictest \
            tempfile thiserror tokio toml tpchgen",
        dev_dependencies: "",
    },
    Crate {
        folder: "bench",
        pure: false,
        dependencies: "candor-client candor-engine candor-parser candor-planner candor-proto candor-sqllogictest \
            candor-storage anyhow clap futures serde_json tempfile tokio",
        dev_dependencies: "",
    },
    Crate {
        folder: "xtask",
        pure: false,
        dependencies: "anyhow clap",
        dev_dependencies: "",
    },
];

/// Compares each manifest with its line of [`CRATES`].
pub(super) fn check_manifests(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let members = toml::strings(&workspace.read("Cargo.toml")?, "[workspace]", "members");
    for member in &members {
        if !CRATES.iter().any(|known| known.folder == member) {
            findings.push(format!(
                "{member}: no line in xtask/src/tidy/crates.rs says what it may depend on"
            ));
        }
    }
    for one in CRATES {
        let path = format!("{}/Cargo.toml", one.folder);
        let manifest = workspace.read(&path)?;
        if !toml::table(&manifest, "[lints]").any(|line| line == "workspace = true") {
            findings.push(format!("{path}: [lints] workspace = true is missing"));
        }
        for (header, allowed) in [
            ("[dependencies]", one.dependencies),
            ("[build-dependencies]", ""),
            ("[dev-dependencies]", one.dev_dependencies),
        ] {
            for dependency in toml::dependencies(&manifest, header) {
                let mut names = allowed.split_ascii_whitespace().chain(also_allowed(header, one));
                if !names.any(|name| name == dependency) {
                    findings.push(format!("{path}: {dependency} is not allowed in {header}"));
                }
            }
        }
    }
    Ok(findings)
}

/// Tests may name again, with other features, what the crate itself uses.
fn also_allowed(header: &str, one: &Crate) -> impl Iterator<Item = &'static str> {
    let list = if header == "[dev-dependencies]" {
        one.dependencies
    } else {
        ""
    };
    list.split_ascii_whitespace()
}

/// What may not be reached even through others.
pub(super) fn check_trees(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let lock = workspace.read("Cargo.lock")?;
    if toml::blocks(&lock, "[[package]]").any(|block| toml::string(block, "name").as_deref() == Some("aws-lc-sys")) {
        findings.push("Cargo.lock: aws-lc-sys; `cargo tree -i aws-lc-sys` tells who brings it".to_owned());
    }
    for one in CRATES {
        let forbidden: &[&str] = match one.folder {
            _ if one.pure => &["tokio", "datafusion", "rand"],
            "storage" => &["tokio", "datafusion", "sqlparser"],
            "cluster" | "client" => &["datafusion", "sqlparser"],
            _ => continue,
        };
        let package = format!("candor-{}", one.folder);
        let tree = output(cargo(workspace).args([
            "tree",
            "--locked",
            "--package",
            &package,
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]))?;
        for name in forbidden {
            if tree.lines().any(|line| line.split(' ').next() == Some(name)) {
                findings.push(format!(
                    "{package} reaches {name}; `cargo tree -i {name} -p {package}` tells how"
                ));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_engine_plans_sql_and_pure_crates_hold_no_runtime() {
        for one in CRATES {
            let all = format!(" {} {} ", one.dependencies, one.dev_dependencies);
            assert_eq!(all.contains(" datafusion "), one.folder == "engine", "{}", one.folder);
            for word in [" tokio ", " futures ", " async-trait "] {
                assert!(!(one.pure && all.contains(word)), "{}: {word}", one.folder);
            }
        }
    }
}
