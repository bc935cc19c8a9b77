//! Transcripts of `EXPLAIN (ROUTE)`: `testscripts/route/*`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use candor_planner::{Fallback, Heard, OwnCopy, PeerView, Requirement, RouteRow, View, admit, explain, span};
use candor_proto::limits::staleness_floor;
use candor_proto::{Epoch, LogIndex, Mode, Position, RangeReport, Role};

use crate::domain::{peer, report};
use crate::transcript::{self, Command, Runner};

type Outcome = Result<String, Box<dyn Error>>;

/// S04 to S20, S45, S54, S56, S68: each script names the rows it shows.
#[test]
fn s18_explained_routes_are_those_of_the_transcripts() {
    for script in scripts("route") {
        let mut runner = Routes {
            view: View::alone("n2", Duration::from_secs(1)),
        };
        transcript::run(&mut runner, &script);
    }
}

/// The scripts of a folder, in order; none at all is a mistake.
pub(crate) fn scripts(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is part of the crate");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    paths
}

/// A span as statements write it, for example `1m30s`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, Box<dyn Error>> {
    let (text, factor) = match text {
        text if text.ends_with("ms") => (&text[..text.len() - 2], 1),
        text if text.ends_with('s') => (&text[..text.len() - 1], 1_000),
        text if text.ends_with('m') => (&text[..text.len() - 1], 60_000),
        other => return Err(format!("no unit in {other}").into()),
    };
    Ok(Duration::from_millis(text.parse::<u64>()? * factor))
}

struct Routes {
    view: View,
}

impl Runner for Routes {
    fn run(&mut self, command: &Command) -> Outcome {
        match command.name.as_str() {
            "awareness" => self.awareness(command),
            "me" => self.me(command),
            "peer" => self.peer(command),
            "forget" => self.forget(command),
            "read" | "write" => self.route(command),
            other => Err(format!("unknown command {other}").into()),
        }
    }
}

impl Routes {
    fn awareness(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        self.view.awareness = parse_span(args.next_pos().ok_or("interval")?)?;
        self.view.floor = staleness_floor(self.view.awareness);
        args.reject_next()?;
        Ok(String::new())
    }

    /// `me NAME [nocopy] [leads] [epoch=N] [index=N] [age=SPAN|unknown] [horizon=N] [region=R]`
    fn me(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        self.view.own.node = args.next_pos().ok_or("name")?.into();
        self.view.own.region = args.take_key("region").map(str::to_owned);
        let epoch = Epoch(args.take_key("epoch").unwrap_or("1").parse()?);
        let index = LogIndex(args.take_key("index").unwrap_or("0").parse()?);
        let horizon = LogIndex(args.take_key("horizon").unwrap_or("0").parse()?);
        let copy_age = age(args.take_key("age"))?;
        let flags: Vec<&str> = std::iter::from_fn(|| args.next_pos()).collect();
        self.view.own.known_epoch = epoch;
        let leads = flags.contains(&"leads");
        let copy = OwnCopy {
            leads,
            position: Position::new(epoch, index),
            horizon,
            copy_age,
        };
        self.view.own.copy = (!flags.contains(&"nocopy")).then_some(copy);
        Ok(String::new())
    }

    /// `peer NAME [leads] [nocopy] [unheard] [down] [draining] [shed] [epoch=N] [index=N] [age=…] [ago=SPAN] [region=R]
    /// [at=A] [clients=A] [http=A]`
    fn peer(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        let name = args.next_pos().ok_or("name")?;
        let epoch = args.take_key("epoch").unwrap_or("1").parse()?;
        let index = args.take_key("index").unwrap_or("0").parse()?;
        let copy_age = age(args.take_key("age"))?;
        let ago = parse_span(args.take_key("ago").unwrap_or("0s"))?;
        let region = args.take_key("region").map(str::to_owned);
        let (at, clients, http) = (args.take_key("at"), args.take_key("clients"), args.take_key("http"));
        let flags: Vec<&str> = std::iter::from_fn(|| args.next_pos()).collect();
        let has = |flag: &str| flags.contains(&flag);
        let said: Option<RangeReport> = (!has("nocopy")).then(|| report(has("leads"), epoch, index, copy_age));
        let mode = if has("shed") { Mode::Shed } else { Mode::Normal };
        let heard = Heard {
            ago,
            report: said,
            draining: has("draining"),
            mode,
        };
        self.view.peers.retain(|peer| peer.node.as_str() != name);
        self.view.peers.push(PeerView {
            at: at.map_or(format!("{name}:7501"), str::to_owned),
            clients_at: clients.map(str::to_owned),
            http_at: http.map(str::to_owned),
            region,
            linked: !has("down"),
            heard: (!has("unheard")).then_some(heard),
            ..peer(name, None)
        });
        Ok(String::new())
    }

    fn forget(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        let name = args.next_pos().ok_or("name")?;
        self.view.peers.retain(|peer| peer.node.as_str() != name);
        Ok(String::new())
    }

    /// `read [within=SPAN] [leader] [version=N] [at_least=N] [fallback]` or `write`: the table and the verdict.
    fn route(&mut self, command: &Command) -> Outcome {
        let mut args = command.consume_args();
        let mut requirement = match command.name.as_str() {
            "write" => Requirement::write("main"),
            _ => Requirement::read("main"),
        };
        requirement.staleness = args.take_key("within").map(parse_span).transpose()?;
        let number = |text: Option<&str>| text.map(|text| text.parse().map(LogIndex)).transpose();
        requirement.version = number(args.take_key("version"))?;
        requirement.at_least = number(args.take_key("at_least"))?;
        while let Some(flag) = args.next_pos() {
            match flag {
                "leader" => requirement.answered_by_leader = true,
                "fallback" => requirement.fallback = Fallback::Leader,
                other => return Err(format!("unknown clause {other}").into()),
            }
        }
        args.reject_next()?;
        let mut out = String::new();
        for row in explain(&requirement, &self.view) {
            writeln!(out, "{}", line(&row))?;
        }
        let verdict = admit(&requirement, &self.view);
        writeln!(out, "=> {}", verdict.summary(&self.view.own.node))?;
        if let candor_planner::Verdict::Redirect(redirect) = verdict {
            writeln!(out, "{}", serde_json::to_string(&redirect)?)?;
        } else if let candor_planner::Verdict::Refuse(refusal) = verdict {
            writeln!(out, "{}", serde_json::to_string(&refusal.to_body())?)?;
        }
        Ok(out)
    }
}

fn age(text: Option<&str>) -> Result<Option<Duration>, Box<dyn Error>> {
    match text {
        None | Some("unknown") => Ok(None),
        Some(text) => parse_span(text).map(Some),
    }
}

fn line(row: &RouteRow) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let role = match row.role {
        Some(Role::Leader) => "leader",
        Some(Role::Follower) => "follower",
        None => "-",
    };
    format!(
        "{} {:<3} {:<8} at {:<5} age {:<6} heard {:<5} {}: {}",
        if row.chosen { '>' } else { ' ' },
        row.node.as_str(),
        role,
        or_dash(row.position.map(|position| position.to_string())),
        or_dash(row.copy_age.map(span)),
        or_dash(row.heard_ago.map(span)),
        if row.admitted { "admitted" } else { "left out" },
        row.reason,
    )
}
