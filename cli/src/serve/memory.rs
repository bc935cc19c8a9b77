//! How much memory a node may use, and who gets what of it.

/// Shares of the memory of a node, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Sorts, joins and aggregates of all statements.
    pub(crate) statements: u64,
    /// What was read from disk.
    pub(crate) cache: u64,
    /// Rows that are not on disk yet but for the log.
    pub(crate) rows: u64,
}

/// Less than this does not run a node, bytes.
const TOTAL_MIN: u64 = 128 << 20;

/// Assumed where the system does not say, bytes.
const MACHINE_UNKNOWN: u64 = 4 << 30;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Memory {
    /// Half for statements, three eighths for what is read, one eighth for rows.
    ///
    /// # Errors
    /// It is too little for a node.
    pub(crate) fn shared_out(total: u64) -> Result<Self, String> {
        if total < TOTAL_MIN {
            return Err(format!("a node needs at least {} MiB", TOTAL_MIN >> 20));
        }
        Ok(Self {
            statements: total / 2,
            cache: total / 8 * 3,
            rows: total / 8,
        })
    }
}

/// `2GiB`, `512MiB`, or a number of bytes.
///
/// # Errors
/// A sentence that names the units.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let unknown = || format!("`{text}` is not a size such as 2GiB, 512MiB or a number of bytes");
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text, 1));
    let number: u64 = number.trim_end().parse().map_err(|_| unknown())?;
    number.checked_mul(unit).ok_or_else(unknown)
}

/// The memory of this machine, or as much of it as the control group of this process may use, bytes.
pub(crate) fn of_the_machine() -> u64 {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let machine = total_of(&read("/proc/meminfo")).unwrap_or(MACHINE_UNKNOWN);
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
    machine.min(group)
}

/// What `/proc/meminfo` says.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("512MiB", 512 << 20),
            ("4 KiB", 4096),
            ("77", 77),
            ("1B", 1),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "2GB", "-1", "1.5GiB", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_do_not_exceed_the_whole() {
        let Memory {
            statements,
            cache,
            rows,
        } = Memory::shared_out(2 << 30).expect("enough");
        assert_eq!(statements + cache + rows, 2 << 30);
        assert!(Memory::shared_out(1 << 20).is_err());
    }

    #[test]
    fn the_machine_says_how_much_it_has() {
        assert_eq!(
            total_of("MemTotal:       24602144 kB\nMemFree: 1 kB\n"),
            Some(24_602_144 << 10)
        );
        assert_eq!(total_of("nothing"), None);
    }
}
