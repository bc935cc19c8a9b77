//! `\demo …`: what a person may do to the demo's nodes from its shell.

use std::time::Duration;

/// One command, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DemoCommand {
    /// `\demo`: the nodes, their processes and what is done to them.
    Status,
    /// Something is done to one node.
    Do { action: Action, node: String },
}

/// What is done to a node. A span ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `kill -9`; with a span the node is started again after it.
    Kill { back_after: Option<Duration> },
    /// Starts a killed node on its old data.
    Start,
    /// SIGSTOP; with a span the node goes on after it.
    Pause { span: Option<Duration> },
    /// SIGCONT, and an end to lag and partition.
    Resume,
    /// Every packet to and from the node is held back.
    Lag { span: Option<Duration>, delay: Duration },
    /// Every packet to and from the node is dropped.
    Partition { span: Option<Duration> },
}

/// How long `\demo lag` holds back each packet, each way, unless told otherwise.
pub(crate) const LAG_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that is not a partition in disguise.
pub(crate) const LAG_DELAY_MAX: Duration = Duration::from_secs(10);

/// What `\demo` takes.
pub(crate) const USAGE: &str = "usage: \\demo [kill|pause|partition NODE [SPAN] | lag NODE [SPAN [DELAY]] | resume|start NODE], \
                                as in `\\demo pause n1 10s`";

impl DemoCommand {
    /// Understands the words after `\demo`.
    ///
    /// # Errors
    /// A sentence that says what the command takes.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let Some((verb, rest)) = words.split_first() else {
            return Ok(Self::Status);
        };
        let Some((node, times)) = rest.split_first() else {
            return Err(USAGE.to_owned());
        };
        let times = times
            .iter()
            .map(|text| crate::span::parse(text))
            .collect::<Result<Vec<_>, _>>()?;
        let action = match (*verb, times.as_slice()) {
            ("kill", [] | [_]) => Action::Kill {
                back_after: times.first().copied(),
            },
            ("start", []) => Action::Start,
            ("pause", [] | [_]) => Action::Pause {
                span: times.first().copied(),
            },
            ("resume", []) => Action::Resume,
            ("partition", [] | [_]) => Action::Partition {
                span: times.first().copied(),
            },
            ("lag", [] | [_] | [_, _]) => {
                let delay = times.get(1).copied().unwrap_or(LAG_DELAY);
                if delay > LAG_DELAY_MAX {
                    return Err(format!(
                        "a delay is at most {} s; `\\demo partition` drops packets",
                        LAG_DELAY_MAX.as_secs()
                    ));
                }
                Action::Lag {
                    span: times.first().copied(),
                    delay,
                }
            }
            _ => return Err(USAGE.to_owned()),
        };
        Ok(Self::Do {
            action,
            node: (*node).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(words: &[&str]) -> Action {
        match DemoCommand::parse(words).expect("a command") {
            DemoCommand::Do { action, node } => {
                assert_eq!(node, "n3");
                action
            }
            DemoCommand::Status => panic!("an action"),
        }
    }

    #[test]
    fn the_span_says_how_long() {
        let ten = Some(Duration::from_secs(10));
        assert_eq!(action(&["kill", "n3"]), Action::Kill { back_after: None });
        assert_eq!(action(&["kill", "n3", "10s"]), Action::Kill { back_after: ten });
        assert_eq!(action(&["pause", "n3", "10s"]), Action::Pause { span: ten });
        assert_eq!(action(&["partition", "n3", "10s"]), Action::Partition { span: ten });
        assert_eq!(
            action(&["lag", "n3", "10s"]),
            Action::Lag {
                span: ten,
                delay: LAG_DELAY
            }
        );
        assert_eq!(
            action(&["lag", "n3", "10s", "250ms"]),
            Action::Lag {
                span: ten,
                delay: Duration::from_millis(250)
            }
        );
        assert_eq!(action(&["resume", "n3"]), Action::Resume);
        assert_eq!(DemoCommand::parse(&[]), Ok(DemoCommand::Status));
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [
            &["pause"][..],
            &["stop", "n3"],
            &["pause", "n3", "soon"],
            &["pause", "n3", "1s", "1s"],
            &["resume", "n3", "1s"],
            &["lag", "n3", "1s", "1h"],
        ] {
            DemoCommand::parse(words).expect_err("refused");
        }
    }
}
