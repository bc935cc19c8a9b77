//! The machine and the build that figures belong to.

use std::path::Path;

/// One line: processor, cores, memory, kernel.
pub(crate) fn describe() -> String {
    let field = |file: &str, key: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let value = text
            .lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key));
        value.map_or_else(|| "?".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field("/proc/meminfo", "MemTotal");
    let gibibytes = memory
        .split(' ')
        .next()
        .and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1_048_576.0;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "machine: {}, {cores} cores, {gibibytes:.0} GiB, Linux {}, load before {}",
        field("/proc/cpuinfo", "model name"),
        kernel.trim(),
        load.split(' ').next().unwrap_or("?"),
    )
}

/// Which profile built the program, by the folder that cargo puts it in.
pub(crate) fn build_of(binary: &Path) -> &'static str {
    let in_folder = |name: &str| binary.components().any(|part| part.as_os_str() == name);
    match (in_folder("release"), in_folder("debug")) {
        (true, _) => "release build",
        (_, true) => "development build: figures say little",
        _ => "unknown build",
    }
}

/// Memory that a process holds now, bytes.
pub(crate) fn resident_bytes(process_id: u32) -> Option<u64> {
    status_bytes(process_id, "VmRSS:")
}

/// The most memory that a process has held, bytes.
pub(crate) fn peak_bytes(process_id: u32) -> Option<u64> {
    status_bytes(process_id, "VmHWM:")
}

fn status_bytes(process_id: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
