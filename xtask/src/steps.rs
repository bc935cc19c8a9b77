//! The steps that are one or two cargo commands.
//!
//! All of them name the whole workspace and the same profile, so that they share one set of compiled dependencies with
//! `cargo test --workspace`: naming one package would give DataFusion another set of features and build it again.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{Workspace, errors_doc};

/// How long the fuzz targets run in CI, all together.
pub(crate) const FUZZ_SECONDS: u64 = 60;

/// The fuzz package stands apart from the workspace, because its instrumented build would rebuild every dependency.
const FUZZ: &str = "fuzz";

pub(crate) fn fmt_check(workspace: &Workspace) -> Result<()> {
    run(cargo(workspace).args(["fmt", "--all", "--check"]))
}

pub(crate) fn clippy(workspace: &Workspace) -> Result<()> {
    run(cargo(workspace).args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

pub(crate) fn doc(workspace: &Workspace) -> Result<()> {
    run(cargo(workspace)
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        // The one flag that differs from the other steps: it reaches rustdoc alone, which compiles no dependency.
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// The suites start the program that is built beside them, so everything is built first, as the tests build it.
pub(crate) fn slt(workspace: &Workspace) -> Result<()> {
    run(cargo(workspace).args(["test", "--workspace", "--locked", "--no-run"]))?;
    run(cargo(workspace).args(["test", "--workspace", "--locked", "--test", "slt", "--", "--nocapture"]))
}

/// Runs `candor-conformance`, which starts the program that is built beside it.
pub(crate) fn conformance(workspace: &Workspace, args: &[String]) -> Result<()> {
    run(cargo(workspace).args(["build", "--workspace", "--bins", "--locked"]))?;
    let beside = std::env::current_exe()?.with_file_name("candor-conformance");
    run(Command::new(beside).current_dir(&workspace.root).args(args))
}

pub(crate) fn conformance_sample(workspace: &Workspace) -> Result<()> {
    conformance(workspace, &["--sample".to_owned()])
}

pub(crate) fn heavy(workspace: &Workspace) -> Result<()> {
    run(cargo(workspace).args([
        "test",
        "--workspace",
        "--locked",
        "--test",
        "heavy",
        "--",
        "--nocapture",
    ]))
}

pub(crate) fn fuzz_smoke(workspace: &Workspace) -> Result<()> {
    fuzz(workspace, FUZZ_SECONDS)
}

/// Gives each fuzz target an equal share of `seconds`, from its seeds, with its dictionary.
pub(crate) fn fuzz(workspace: &Workspace, seconds: u64) -> Result<()> {
    let targets = fuzz_targets(workspace)?;
    let share = (seconds / targets.len() as u64).max(1);
    for target in targets {
        let corpus = format!("corpus/{target}");
        let finds = workspace.path(FUZZ).join(&corpus);
        std::fs::create_dir_all(&finds).with_context(|| format!("cannot make {}", finds.display()))?;
        run(cargo(workspace)
            // Its `.cargo/config.toml` holds the flags that instrument, and counts only from there.
            .current_dir(workspace.path(FUZZ))
            .args(["run", "--release", "--locked", "--bin", &target, "--"])
            .args([
                format!("-max_total_time={share}"),
                "-timeout=10".to_owned(),
                format!("-dict={target}.dict"),
            ])
            .args([corpus, format!("seeds/{target}")]))?;
    }
    Ok(())
}

/// The names of the fuzz package's binaries.
fn fuzz_targets(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest = workspace.read(&format!("{FUZZ}/Cargo.toml"))?;
    let targets: Vec<String> = crate::toml::blocks(&manifest, "[[bin]]")
        .filter_map(|block| crate::toml::string(block, "name"))
        .collect();
    if targets.is_empty() {
        bail!("{FUZZ}/Cargo.toml declares no [[bin]]");
    }
    Ok(targets)
}

/// Writes the generated pages, applies clippy's machine-applicable suggestions and formats.
pub(crate) fn fix(workspace: &Workspace) -> Result<()> {
    errors_doc::write(workspace)?;
    run(cargo(workspace).args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
    ]))?;
    run(cargo(workspace).args(["fmt", "--all"]))
}

/// The cargo that runs this program, in the workspace's root.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&workspace.root);
    // Set by the `cargo run` that started this program, and not meant for the commands it starts.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_MANIFEST_PATH");
    command
}

/// Runs a command with its output shown.
fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    println!("   {line}");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = show(command);
    let output = command.output().with_context(|| format!("cannot run {line}"))?;
    if !output.status.success() {
        bail!("{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{line} printed bytes that are no UTF-8"))
}

fn show(command: &Command) -> String {
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    format!("cargo {}", args.join(" "))
}
