//! What the process says when it ends: one table of exit codes for every command.

use std::process::ExitCode;

use candor_proto::ErrorCode;

/// How a command ended. Scripts branch on the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything that was asked for was done.
    Fine,
    /// A statement failed, or a node stopped on its own.
    Failed,
    /// No node could be reached, or an address could not be bound.
    Unreachable,
    /// The command line, the environment or the configuration file is wrong.
    Usage,
    /// No node admits the read under its staleness bound.
    StalenessUnmet,
    /// No node that leads the range is known.
    NoLeader,
    /// Ctrl-C, or a signal that asks to stop.
    Interrupted,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Unreachable => 2,
            Self::Usage => 3,
            Self::StalenessUnmet => 4,
            Self::NoLeader => 5,
            Self::Interrupted => 130,
        }
    }

    /// The exit for an error that a node answered with.
    pub(crate) const fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::StalenessUnmet => Self::StalenessUnmet,
            ErrorCode::NoLeader => Self::NoLeader,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_refusals_have_a_number_of_their_own() {
        for code in ErrorCode::ALL {
            let expected = match code.as_str() {
                "staleness-unmet" => 4,
                "no-leader" => 5,
                _ => 1,
            };
            assert_eq!(Exit::of(*code).code(), expected, "{code}");
        }
    }
}
