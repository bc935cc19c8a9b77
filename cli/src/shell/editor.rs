//! The line editor of a terminal: multi-line editing, history, colour, completion.
//!
//! Everything here looks at text and at one shared list of names; nothing here talks to a node.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::RwLock;
use reedline::{
    Color, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, Highlighter, IdeMenu, KeyCode,
    KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline,
    ReedlineEvent, ReedlineMenu, Span, StyledText, Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};

use super::lex::{self, Kind, Splitter};
use super::meta;
use super::words::{KEYWORDS, is_keyword};

/// Entries that the history file keeps.
const HISTORY_MAX: usize = 10_000;

const MENU: &str = "completion";

/// Tables and columns of the database in use, for completion.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Name and what it is: `table`, or the table that has the column.
    pub(crate) entries: Vec<(String, String)>,
}

/// Builds the editor. `stop` makes it return from anywhere, for signals.
pub(crate) fn editor(names: Arc<RwLock<Names>>, stop: Arc<AtomicBool>, color: bool) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    keys.add_binding(
        KeyModifiers::ALT,
        KeyCode::Enter,
        ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    );
    let menu = IdeMenu::default().with_name(MENU);
    let editor = Reedline::create()
        .with_validator(Box::new(Complete))
        .with_highlighter(Box::new(Colours { on: color }))
        .with_completer(Box::new(Completion { names }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_ansi_colors(color)
        .use_bracketed_paste(true)
        .with_break_signal(stop);
    // A shell without its history is still a shell.
    match history_file().and_then(|file| FileBackedHistory::with_file(HISTORY_MAX, file).ok()) {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// `$CANDOR_HISTORY`, or a file where the system keeps state.
fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("CANDOR_HISTORY") {
        return (!file.is_empty()).then(|| file.into());
    }
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    let folder = state.join("candor");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// Enter sends a command of the shell at once, and SQL when a semicolon ends it.
struct Complete;

impl Validator for Complete {
    fn validate(&self, text: &str) -> ValidationResult {
        if meta::is_meta(text) || text.trim().is_empty() {
            return ValidationResult::Complete;
        }
        let mut splitter = Splitter::default();
        splitter.push(text);
        splitter.push("\n");
        if splitter.is_idle() {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

struct Colours {
    on: bool,
}

impl Highlighter for Colours {
    fn highlight(&self, text: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        for token in lex::tokens(text) {
            let part = &text[token.span];
            let style = match token.kind {
                _ if !self.on => Color::Default.normal(),
                Kind::Word if is_keyword(part) => Color::Cyan.bold(),
                Kind::Number | Kind::Parameter => Color::Magenta.normal(),
                Kind::Text => Color::Green.normal(),
                Kind::Comment => Color::DarkGray.normal(),
                _ => Color::Default.normal(),
            };
            styled.push((style, part.to_owned()));
        }
        styled
    }
}

struct Completion {
    names: Arc<RwLock<Names>>,
}

impl Completer for Completion {
    fn complete(&mut self, text: &str, position: usize) -> CompletionResult {
        let before = &text[..position];
        let start = word_start(before);
        let found = if meta::is_meta(text) && !before.trim_start().contains(char::is_whitespace) {
            commands(before.trim_start())
        } else {
            candidates(&before[start..], &self.names.read())
        };
        let start = if meta::is_meta(text) && start > 0 && !before.trim_start().contains(char::is_whitespace) {
            before.len() - before.trim_start().len()
        } else {
            start
        };
        let suggestions: Vec<Suggestion> = found
            .into_iter()
            .map(|(value, description)| Suggestion {
                value,
                description,
                span: Span::new(start, position),
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// Where the word under the cursor begins.
fn word_start(before: &str) -> usize {
    before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
}

fn commands(prefix: &str) -> Vec<(String, Option<String>)> {
    let each = meta::COMMANDS.iter().flat_map(|(usage, meaning)| {
        let names = usage.split(", ").filter_map(|usage| usage.split(' ').next());
        names.map(|name| (name.to_owned(), Some((*meaning).to_owned())))
    });
    each.filter(|(name, _)| name.starts_with(prefix)).collect()
}

/// Names of the database first: they are what a person cannot know.
fn candidates(prefix: &str, names: &Names) -> Vec<(String, Option<String>)> {
    if prefix.is_empty() {
        return Vec::new();
    }
    let lower = prefix.to_lowercase();
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for (name, what) in &names.entries {
        if name.to_lowercase().starts_with(&lower) {
            match found.iter_mut().find(|(found, _)| found == name) {
                Some((_, Some(known))) => {
                    known.push_str(", ");
                    known.push_str(what);
                }
                _ => found.push((name.clone(), Some(what.clone()))),
            }
        }
    }
    let upper = prefix.to_uppercase();
    let as_typed = |keyword: &str| {
        if prefix.chars().all(|c| !c.is_uppercase()) {
            keyword.to_lowercase()
        } else {
            keyword.to_owned()
        }
    };
    let keywords = KEYWORDS.iter().filter(|keyword| keyword.starts_with(&upper));
    found.extend(keywords.map(|keyword| (as_typed(keyword), None)));
    found
}

/// `n2 main/main> `, with `*` inside a transaction.
#[derive(Clone, Debug)]
pub(crate) struct ShellPrompt {
    pub(crate) text: String,
}

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{:>width$}", "| ", width = self.text.chars().count() + 2))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing ",
        };
        Cow::Owned(format!(" ({failing}found for `{}`) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            entries: vec![
                ("orders".to_owned(), "table".to_owned()),
                ("id".to_owned(), "orders".to_owned()),
                ("id".to_owned(), "prices".to_owned()),
                ("staleness".to_owned(), "readings".to_owned()),
            ],
        }
    }

    #[test]
    fn enter_sends_what_is_complete() {
        let complete = |text: &str| matches!(Complete.validate(text), ValidationResult::Complete);
        assert!(complete("SELECT 1;"));
        assert!(complete("\\d"));
        assert!(complete(""));
        assert!(complete("SELECT 1; -- done"));
        assert!(!complete("SELECT 1"));
        assert!(!complete("SELECT ';"));
        assert!(!complete("SELECT 1; SELECT"));
    }

    #[test]
    fn names_come_before_keywords_and_keywords_follow_the_case_typed() {
        assert_eq!(
            candidates("sta", &names()),
            [
                ("staleness".to_owned(), Some("readings".to_owned())),
                ("staleness".to_owned(), None)
            ]
        );
        assert_eq!(candidates("STAL", &names())[1].0, "STALENESS");
        assert_eq!(
            candidates("id", &names()),
            [("id".to_owned(), Some("orders, prices".to_owned()))]
        );
        assert_eq!(candidates("", &names()), []);
    }

    #[test]
    fn the_word_under_the_cursor_is_what_is_replaced() {
        assert_eq!(word_start("SELECT ord"), 7);
        assert_eq!(word_start("orders.i"), 7);
        assert_eq!(word_start("é§x"), "é§".len());
        let mut completion = Completion {
            names: Arc::new(RwLock::new(names())),
        };
        let result = completion.complete("SELECT * FROM ord", 17);
        let first = &result.suggestions()[0];
        assert_eq!((first.value.as_str(), first.span), ("orders", Span::new(14, 17)));
        let result = completion.complete("\\con", 4);
        assert_eq!(result.suggestions()[0].value, "\\conninfo");
        assert_eq!(result.suggestions()[0].span, Span::new(0, 4));
    }

    #[test]
    fn colour_survives_broken_input_and_changes_no_text() {
        let text = "SELECT 'open -- \n 1";
        let styled = Colours { on: true }.highlight(text, 0);
        assert_eq!(
            styled.buffer.iter().map(|(_, part)| part.as_str()).collect::<String>(),
            text
        );
        assert_eq!(styled.buffer[0].0, Color::Cyan.bold());
    }
}
