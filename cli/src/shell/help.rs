//! `\?` and `\h`: what can be typed, in a few lines each.

use super::meta::COMMANDS;

/// The commands of the shell.
pub(crate) fn commands() -> String {
    let width = COMMANDS.iter().map(|(usage, _)| usage.len()).max().unwrap_or(0);
    let lines: Vec<String> = COMMANDS
        .iter()
        .map(|(usage, meaning)| format!("{usage:width$}  {meaning}"))
        .collect();
    lines.join("\n")
}

/// Topics of the dialect: name, statement forms, what they mean.
const TOPICS: &[(&str, &str)] = &[
    (
        "staleness",
        "SELECT … STALENESS 30s;\n\
         Only a node whose copy is at most 30 s old may answer. No node qualifies: the read is refused, never answered\n\
         by an older copy and never sent to the leader. The tightest bound is twice the awareness interval.\n\
         Units: ms s m h d w, also 1m30s. SET staleness = '30s' is for every read that names no bound.",
    ),
    (
        "answered",
        "SELECT … ANSWERED BY LEADER;    SELECT … ANSWERED BY ANY;\n\
         LEADER admits only the node that decides writes for these records; another node redirects there.\n\
         ANY is what a read means that says nothing. It combines with STALENESS.",
    ),
    (
        "version",
        "SELECT … VERSION 1042;    SELECT … AT LEAST VERSION 1042 [WAIT 2s];\n\
         VERSION reads one point of history. AT LEAST VERSION waits for a write that you know of, by default 2 s:\n\
         every answer's receipt names its version. VERSION and STALENESS are two answers to one question: refused.",
    ),
    (
        "explain",
        "EXPLAIN (ROUTE) SELECT … STALENESS 30s;    EXPLAIN [ANALYZE] SELECT …;\n\
         ROUTE shows every known node with its role, epoch and age, whether it may answer, and why not. Nothing runs.",
    ),
    (
        "define",
        "DEFINE NAMESPACE name;    DEFINE DATABASE name;    DEFINE COLLECTION name [(columns as in CREATE TABLE)];\n\
         DEFINE REPLICA name AT 'host:port' [HTTP AT 'host:port'] [ROLES readable|coordinating|writable] [REGION 'r'];\n\
         A collection without columns is open: it has a key `id` and grows columns as rows arrive. REMOVE undoes each.",
    ),
    (
        "use",
        "USE NAMESPACE n [DATABASE d];    RETURN session::context();\n\
         A namespace is what is replicated and led as one. The context names node, namespace and database.",
    ),
    (
        "info",
        "INFO FOR NODE | ROOT | NAMESPACE | DATABASE | COLLECTION name;\n\
         One document. cluster.peers is what was declared, cluster.followers is who has collected.",
    ),
    (
        "transactions",
        "BEGIN; … COMMIT;    BEGIN READ ONLY STALENESS 30s;    ROLLBACK;\n\
         Reads of one transaction see one point of history. A tail stands on BEGIN, not inside.",
    ),
    (
        "copy",
        "COPY t FROM '/path/file.csv' (FORMAT csv, HEADER);    COPY (SELECT …) TO '/path/file.parquet';\n\
         csv, ndjson and parquet. Paths are the node's.",
    ),
];

/// One topic, or the list of them.
///
/// # Errors
/// When there is no such topic.
pub(crate) fn sql(topic: Option<&str>) -> Result<String, String> {
    let names: Vec<&str> = TOPICS.iter().map(|(name, _)| *name).collect();
    let Some(topic) = topic else {
        return Ok(format!(
            "\\h TOPIC, with one of: {}\nEverything else is PostgreSQL's SQL.",
            names.join(", ")
        ));
    };
    let wanted = topic.to_lowercase();
    TOPICS
        .iter()
        .find(|(name, _)| wanted.starts_with(name) || name.starts_with(&wanted))
        .map(|(_, text)| (*text).to_owned())
        .ok_or_else(|| format!("no help on `{topic}`; there is {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_found_by_its_name_and_by_what_follows_it() {
        for (name, text) in TOPICS {
            assert_eq!(sql(Some(name)).as_deref(), Ok(*text));
        }
        assert!(sql(Some("answered by")).is_ok() && sql(Some("DEFINE REPLICA")).is_ok() && sql(Some("nope")).is_err());
    }

    #[test]
    fn every_command_is_listed() {
        assert_eq!(commands().lines().count(), COMMANDS.len());
    }
}
