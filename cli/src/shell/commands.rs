//! The shell's own commands: most are a query of the node's own tables under a short name.

use std::time::Duration;

use candor_client::Column;
use serde_json::Value;

use super::footer::{Asked, span_text};
use super::meta::{self, Meta, Pin};
use super::output::Place;
use super::{Flow, Shell, format, help, schema};
use crate::exit::Exit;

/// The nodes that this one knows of.
const NODES: &str =
    "SELECT name AS node, http_at AS http, roles, region, linked, heard_ms_ago FROM system.peers ORDER BY name";

/// How far this node's own copies are.
const COPIES: &str =
    "SELECT range, leader, epoch, position, copy_age_ms, collects_from FROM system.ranges ORDER BY range";

/// How far those are who collect from this node.
const FOLLOWERS: &str = "SELECT node, range, position, behind_entries, behind_bytes, quiet_for_ms, copy_age_ms \
                         FROM system.followers ORDER BY range, node";

/// A text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as an unquoted identifier means it: folded, unless it was quoted.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// Which of `information_schema`'s rows are of the database in use.
fn in_database(database: Option<&str>) -> String {
    match database {
        Some(database) => format!("table_schema = {}", quoted(database)),
        None => "table_schema NOT IN ('information_schema', 'system')".to_owned(),
    }
}

/// Its tables and views.
fn tables(database: Option<&str>) -> String {
    format!(
        "SELECT table_name AS name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END AS kind \
         FROM information_schema.tables WHERE {} ORDER BY table_name",
        in_database(database)
    )
}

/// The columns of one of them, for what has no document.
fn columns(name: &str, database: Option<&str>) -> String {
    format!(
        "SELECT column_name AS \"column\", column_type AS type, is_nullable AS nullable, column_default AS \"default\" \
         FROM information_schema.columns WHERE {} AND table_name = {} ORDER BY ordinal_position",
        in_database(database),
        quoted(&folded(name))
    )
}

/// Whether a statement may have changed what completion knows.
pub(super) fn changes_names(statement: &str) -> bool {
    let verb = verb(statement).to_uppercase();
    ["CREATE", "DEFINE", "DROP", "REMOVE", "ALTER", "USE", "COMMIT"].contains(&verb.as_str())
}

/// The first word of a statement, for the spinner.
pub(super) fn verb(statement: &str) -> &str {
    statement.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("")
}

impl Shell {
    /// Runs one command.
    pub(super) async fn run_meta(&mut self, line: &str) -> Flow {
        self.echo(line.trim());
        let flow = match meta::parse(line) {
            Ok(command) => self.run_command(command).await,
            Err(error) => self.complain(&error),
        };
        if self.settings.echo {
            self.output.note("");
        }
        flow
    }

    async fn run_command(&mut self, command: Meta) -> Flow {
        match command {
            Meta::Tables => {
                let query = tables(self.connection.database());
                self.run_once(&query).await
            }
            Meta::Describe(name) => self.describe(&name).await,
            Meta::Schema(name) => self.schema(name.as_deref()).await,
            Meta::Databases => self.databases().await,
            Meta::Expanded(on) => {
                self.settings.expanded = on.unwrap_or(!self.settings.expanded);
                self.said("expanded")
            }
            Meta::Timing(on) => {
                let is_off = self.settings.footer == super::settings::Footer::Off;
                let on = on.unwrap_or(is_off);
                self.settings.footer = if on {
                    super::settings::Footer::On
                } else {
                    super::settings::Footer::Off
                };
                self.said("footer")
            }
            Meta::Watch { every, times } => self.watch(every, times).await,
            Meta::Include(file) => self.include(&file).await,
            Meta::Output(file) => match self.output.redirect(file.as_deref()) {
                Ok(()) => Flow::Go,
                Err(error) => self.complain(&format!("answers cannot be sent there: {error}")),
            },
            Meta::ConnInfo => {
                self.output.note(&self.connection.describe());
                Flow::Go
            }
            Meta::Nodes => self.run_once(NODES).await,
            Meta::Lag => self.lag().await,
            Meta::Pin(pin) => self.pin(pin).await,
            Meta::Set(None) => {
                for (name, value) in self.settings.all() {
                    self.output.note(&format!("{name:<9} {value}"));
                }
                Flow::Go
            }
            Meta::Set(Some((name, value))) => match self.settings.set(&name, &value) {
                Ok(()) => Flow::Go,
                Err(error) => self.complain(&error),
            },
            Meta::Sleep(span) => self.sleep(span).await,
            Meta::Demo(command) => match self.demo.clone() {
                None => self.complain("this is not a demo's shell: `candor demo` starts one"),
                Some(demo) => match demo.perform(&command).await {
                    Ok(said) => {
                        self.output.note(&said);
                        Flow::Go
                    }
                    Err(error) => self.complain(&crate::sentence(&error)),
                },
            },
            Meta::Help => {
                self.output.note(&help::commands());
                Flow::Go
            }
            Meta::SqlHelp(topic) => match help::sql(topic.as_deref()) {
                Ok(text) => {
                    self.output.note(&text);
                    Flow::Go
                }
                Err(error) => self.complain(&error),
            },
            Meta::Quit => Flow::Leave(Exit::Fine),
        }
    }

    /// Says what a setting has become, to a person.
    fn said(&self, name: &str) -> Flow {
        if self.output.place() != Place::Script {
            for (_, value) in self.settings.all().iter().filter(|(setting, _)| *setting == name) {
                self.output.note(&format!("{name} is {value}"));
            }
        }
        Flow::Go
    }

    /// `\d NAME`: the columns of a collection or view.
    async fn describe(&mut self, name: &str) -> Flow {
        let unknown = match self.connection.document(&format!("INFO FOR COLLECTION {name}")).await {
            Ok(document) => return self.show_local(&schema::COLUMNS, &schema::columns(&document)),
            Err(error) => error,
        };
        // A view has no document of its own.
        let query = columns(name, self.connection.database());
        match self.connection.rows(&query).await {
            Ok(rows) if !rows.is_empty() => self.run_once(&query).await,
            _ => self.complain(&crate::sentence(&unknown)),
        }
    }

    /// `.schema`: the statements that make what is there.
    async fn schema(&mut self, name: Option<&str>) -> Flow {
        match self.connection.document("INFO FOR DATABASE").await {
            Ok(document) => {
                let statements = schema::statements(&document, name.map(folded).as_deref());
                let out = self.output.answers();
                let written = statements.iter().try_for_each(|statement| writeln!(out, "{statement}"));
                match written.and_then(|()| self.output.flush()) {
                    Ok(()) => Flow::Go,
                    Err(error) => self.output_failed(&error),
                }
            }
            Err(error) => self.complain(&crate::sentence(&error)),
        }
    }

    /// `\l`: every namespace that this node holds, with its databases.
    async fn databases(&mut self) -> Flow {
        let root = match self.connection.document("INFO FOR ROOT").await {
            Ok(root) => root,
            Err(error) => return self.complain(&crate::sentence(&error)),
        };
        let mut rows = Vec::new();
        for range in root["namespaces"].as_array().into_iter().flatten() {
            let databases = match range["range"].as_str() {
                Some(namespace) => self.connection.databases(namespace).await.ok(),
                None => None,
            };
            let databases = databases.map_or(Value::Null, |names| Value::String(names.join(", ")));
            rows.push(vec![
                range["range"].clone(),
                databases,
                range["leader"].clone(),
                range["epoch"].clone(),
            ]);
        }
        self.show_local(&["namespace", "databases", "leader", "epoch"], &rows)
    }

    /// Rows that the shell has put together itself.
    fn show_local(&mut self, names: &[&str], rows: &[Vec<Value>]) -> Flow {
        let columns: Vec<Column> = names
            .iter()
            .map(|name| Column {
                name: (*name).to_owned(),
                r#type: "TEXT".to_owned(),
            })
            .collect();
        let layout = self.output.layout(&self.settings);
        let written = format::write_rows(self.output.answers(), &columns, rows, layout);
        match written.and_then(|_| self.output.flush()) {
            Ok(()) => Flow::Go,
            Err(error) => self.output_failed(&error),
        }
    }

    /// The followers as their leader sees them, and where that cannot be asked this node's own copies.
    async fn lag(&mut self) -> Flow {
        match self.connection.leader_answer(FOLLOWERS).await {
            Ok(Some((leader, answer))) => {
                self.output
                    .note(&format!("as {leader} sees those who collect from it:"));
                self.show(
                    &answer,
                    Asked {
                        statement: FOLLOWERS,
                        from: None,
                    },
                )
            }
            Ok(None) => {
                self.output.note("no leader can be asked; this node's own copies:");
                self.run_once(COPIES).await
            }
            Err(error) => self.complain(&crate::sentence(&error)),
        }
    }

    async fn pin(&mut self, pin: Pin) -> Flow {
        match pin {
            Pin::Show => {}
            Pin::Off => self.connection.unpin(),
            Pin::To(node) => match self.connection.pin_to(&node).await {
                Ok(true) => {}
                Ok(false) => {
                    return self.complain(&format!(
                        "nobody has said where {node} answers; `\\nodes` lists the known ones"
                    ));
                }
                Err(error) => return self.complain(&crate::sentence(&error)),
            },
        }
        let said = match self.connection.pinned() {
            Some(node) => format!("every statement starts at {node}"),
            None => "nothing is pinned: a settled redirect moves the shell".to_owned(),
        };
        self.output.note(&said);
        Flow::Go
    }

    async fn sleep(&mut self, span: Duration) -> Flow {
        tokio::select! {
            () = tokio::time::sleep(span) => Flow::Go,
            () = self.interrupts.wait() => self.canceled(),
        }
    }

    /// Repeats the last statement.
    async fn watch(&mut self, every: Duration, times: Option<u32>) -> Flow {
        let Some(statement) = self.last.clone() else {
            return self.complain("there is no statement to repeat yet");
        };
        let mut rounds = 0;
        loop {
            rounds += 1;
            self.output
                .note(&format!("-- every {}, round {rounds}", span_text(every)));
            let flow = self.run_once(&statement).await;
            if flow != Flow::Go || times.is_some_and(|times| rounds >= times) {
                return flow;
            }
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                // A person who stops watching has canceled nothing.
                () = self.interrupts.wait() => {
                    return if self.output.place() == Place::Terminal { Flow::Go } else { self.canceled() };
                }
            }
        }
    }

    /// Learns the names that completion offers. Without them completion still knows the keywords.
    pub(super) async fn refresh_names(&mut self) {
        let query = format!(
            "SELECT table_name, column_name FROM information_schema.columns WHERE {} ORDER BY table_name, ordinal_position",
            in_database(self.connection.database())
        );
        let Ok(rows) = self.connection.rows(&query).await else {
            return;
        };
        let mut entries: Vec<(String, String)> = Vec::new();
        for row in &rows {
            if let [Some(table), Some(column)] = [0, 1].map(|index| row.get(index).and_then(format::text_of)) {
                if !entries.iter().any(|(name, what)| *name == table && what == "table") {
                    entries.push((table.clone(), "table".to_owned()));
                }
                entries.push((column, table));
            }
        }
        self.names.write().entries = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_and_quoted_as_in_sql() {
        assert_eq!(folded("Orders"), "orders");
        assert_eq!(folded("\"Or\"\"ders\""), "Or\"ders");
        assert!(columns("o'rders", None).contains("'o''rders'"));
    }

    #[test]
    fn definitions_refresh_completion_and_reads_do_not() {
        assert!(changes_names("define collection x") && changes_names("USE DATABASE d") && !changes_names("SELECT 1"));
    }
}
