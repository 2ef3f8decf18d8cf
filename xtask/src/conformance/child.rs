//! Cases in processes of their own.
//!
//! The parent writes ids to the child's standard input; the child runs the cases
//! in that order and writes a line an outcome. A child that crashes or passes the
//! deadline ends the case that it was at; a new one goes on behind it.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use metaneff_conformance::{
    Case, Expectation, Outcome, Report, Setup, Target, Verdict, cases, judge, order_cases,
};
use serde::{Deserialize, Serialize};

use super::targets::{Erased, Kind, Mock, Runtime, Simulated};
use crate::shell;

/// Time that a process may take to end after its last case.
const ENDING: Duration = Duration::from_secs(30);

/// Bytes of a child's last words that are kept.
const LAST_WORDS: usize = 2000;

/// Start of a line that is an outcome and nothing that a library printed.
const MARK: &str = "metaneff-outcome ";

/// One line of a child.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Runs the cases whose ids stand on standard input.
pub(super) fn serve(kind: Kind, library: Option<&Path>) -> crate::Outcome {
    match kind {
        Kind::Sim | Kind::Recoded => serve_on(&Simulated { kind }, &cases()),
        Kind::Any => serve_on(&Erased, &cases()),
        Kind::Mock => serve_on(&Mock, &order_cases()),
        Kind::NrtSim | Kind::Nrt => serve_on(&Runtime { kind, library }, &cases()),
    }
}

fn serve_on<T: Target>(target: &T, cases: &[Case<T::Backend>]) -> crate::Outcome {
    for id in io::stdin().lines() {
        let id = id?;
        let case = cases.iter().find(|case| case.id == id);
        let case = case.ok_or_else(|| format!("`{id}` is no case"))?;
        let outcome = judge(target, case);
        let line = serde_json::to_string(&Line { id, outcome })?;
        // One write a line, also beside a library that prints on its own.
        shell::say(&format!("\n{MARK}{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A run on one target.
pub(super) struct Run<'a> {
    pub(super) kind: Kind,
    pub(super) library: Option<&'a Path>,
    pub(super) deadline: u64,
    pub(super) bar: &'a ProgressBar,
}

impl Run<'_> {
    /// Runs the cases, those of equal set-up in one process where the set-up is
    /// said in the environment, and adds them to the report in their own order.
    pub(super) fn all<B>(
        &self,
        cases: &[Case<B>],
        expectations: &[Expectation],
        report: &mut Report,
    ) -> io::Result<()> {
        let mut outcomes: Vec<Option<Outcome>> = cases.iter().map(|_| None).collect();
        for group in self.groups(cases) {
            let setup = cases[group[0]].setup;
            let ids: VecDeque<_> = group.iter().map(|at| (*at, cases[*at].id)).collect();
            self.bar.set_message(self.kind.name());
            let start = || self.command(&setup);
            drive(start, ids, self.deadline, &mut |at, outcome| {
                outcomes[at] = Some(outcome);
                self.bar.inc(1);
            })?;
        }
        for (case, outcome) in cases.iter().zip(outcomes) {
            let lost = || failed("the case has no outcome".to_owned(), Duration::ZERO);
            let outcome = outcome.unwrap_or_else(lost);
            report.add(case, self.kind.name(), outcome, expectations);
        }
        Ok(())
    }

    /// Positions of the cases that one process runs.
    fn groups<B>(&self, cases: &[Case<B>]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Setup, Vec<usize>)> = Vec::new();
        for (at, case) in cases.iter().enumerate() {
            let same = |group: &&mut (Setup, Vec<usize>)| {
                !self.kind.reads_environment() || group.0 == case.setup
            };
            match groups.iter_mut().find(same) {
                Some((_, group)) => group.push(at),
                None => groups.push((case.setup, vec![at])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn command(&self, setup: &Setup) -> io::Result<Command> {
        let mut command = Command::new(this_program()?);
        command.args(["conformance", "--child", self.kind.name()]);
        if let Some(library) = self.library {
            command.arg("--lib").arg(library);
        }
        if self.kind != Kind::Nrt {
            // A case is set up by what it says and by nothing else.
            for (name, _) in std::env::vars_os() {
                let text = name.to_string_lossy();
                if text.starts_with("NEURON_") || text.starts_with("METANEFF_SIM_") {
                    command.env_remove(&name);
                }
            }
        }
        if self.kind.reads_environment() {
            command.envs(setup.variables());
        }
        Ok(command)
    }
}

/// Runs cases in as many processes as it takes: one that ends ends the case that
/// it was at, and another goes on behind it.
fn drive(
    start: impl Fn() -> io::Result<Command>,
    mut waiting: VecDeque<(usize, &'static str)>,
    deadline: u64,
    done: &mut impl FnMut(usize, Outcome),
) -> io::Result<()> {
    while !waiting.is_empty() {
        let mut process = Process::start(start()?, &waiting)?;
        while let Some((at, id)) = waiting.pop_front() {
            let (outcome, goes_on) = process.next(id, deadline, Instant::now());
            let outcome = match (goes_on, waiting.is_empty()) {
                (true, true) => process.end(outcome),
                _ => outcome,
            };
            done(at, outcome);
            if !goes_on {
                break;
            }
        }
    }
    Ok(())
}

/// A child with what it says.
struct Process {
    child: Child,
    lines: Receiver<String>,
    words: Option<JoinHandle<String>>,
}

impl Process {
    fn start(mut command: Command, ids: &VecDeque<(usize, &'static str)>) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipe = |name| io::Error::other(format!("the child has no {name}"));
        let mut input = child.stdin.take().ok_or_else(|| pipe("input"))?;
        let output = child.stdout.take().ok_or_else(|| pipe("output"))?;
        let errors = child.stderr.take().ok_or_else(|| pipe("error output"))?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let words = thread::spawn(move || last_words(errors));
        let text: String = ids.iter().map(|(_, id)| format!("{id}\n")).collect();
        // A child that ends early says so by its status.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        Ok(Self {
            child,
            lines,
            words: Some(words),
        })
    }

    /// Waits for the outcome of a case; false if the child is gone then.
    fn next(&mut self, id: &str, seconds: u64, start: Instant) -> (Outcome, bool) {
        let deadline = Duration::from_secs(seconds);
        loop {
            let left = deadline.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let line = line.strip_prefix(MARK);
                    let line = line.and_then(|line| serde_json::from_str::<Line>(line).ok());
                    match line {
                        Some(line) if line.id == id => return (line.outcome, true),
                        _ => {}
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let message = format!("did not end within {seconds} s");
                    let message = self.finish(message, true);
                    return (failed(message, start.elapsed()), false);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message = self.finish("the process ended".to_owned(), false);
                    return (failed(message, start.elapsed()), false);
                }
            }
        }
    }

    /// Waits for the child's end after its last case, which fails if the child
    /// does not end well.
    fn end(&mut self, outcome: Outcome) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < ENDING {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return outcome,
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                _ => break,
            }
        }
        let message = self.finish("the process did not end well after the case".into(), true);
        failed(message, start.elapsed())
    }

    /// Ends the child and adds its status and last words to a message.
    fn finish(&mut self, mut message: String, kill: bool) -> String {
        if kill {
            // It may have ended meanwhile.
            let _ = self.child.kill();
        }
        if let Ok(status) = self.child.wait()
            && !kill
        {
            message.push_str(&format!(": {}", ending(status)));
        }
        let words = self.words.take().and_then(|words| words.join().ok());
        if let Some(words) = words.filter(|words| !words.trim().is_empty()) {
            message.push_str(&format!("; its last words: {}", words.trim()));
        }
        message
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing is left behind, whichever way the run went.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program, also when a build has put another one into its place.
fn this_program() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() {
        Ok(own.to_owned())
    } else {
        std::env::current_exe()
    }
}

fn ending(status: ExitStatus) -> String {
    status.to_string()
}

fn failed(message: String, elapsed: Duration) -> Outcome {
    Outcome::new(Verdict::Failed { message }, elapsed)
}

/// The end of what a child writes to its error output.
fn last_words(mut errors: impl io::Read) -> String {
    let mut kept = Vec::new();
    let mut block = [0; 4096];
    while let Ok(count) = errors.read(&mut block) {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&block[..count]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that every case passed, but for those that crash, hang, fail, print
    /// nonsense, or spoil the process's end.
    const CHILD: &str = r#"
        spoilt=0
        while read id; do
            case $id in
                */crash/*) echo "about to crash" >&2; kill -9 $$ ;;
                */hang/*) exec sleep 600 ;;
                */noise/*) echo "metaneff-outcome {"; echo "hello" ;;
                */spoil/*) spoilt=3 ;;
            esac
            case $id in
                */fail/*) rest='"verdict":"failed","message":"it does not hold"' ;;
                *) rest='"verdict":"passed"' ;;
            esac
            echo "metaneff-outcome {\"id\":\"$id\",$rest,\"micros\":7}"
        done
        exit $spoilt
    "#;

    fn outcomes(ids: &[&'static str]) -> Vec<Result<(), String>> {
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", CHILD]);
            Ok(command)
        };
        let mut found = vec![Err("the case has no outcome".to_owned()); ids.len()];
        let waiting = ids.iter().copied().enumerate().collect();
        drive(start, waiting, 2, &mut |at, outcome| {
            found[at] = match outcome.verdict {
                Verdict::Passed => Ok(()),
                Verdict::Failed { message } => Err(message),
                other => Err(format!("{other:?}")),
            };
        })
        .unwrap();
        found
    }

    #[test]
    fn nothing_stops_at_a_failure() {
        let found = outcomes(&["a/fail/1", "a/pass/1", "a/fail/2", "a/noise/1", "a/pass/2"]);
        let failed = Err("it does not hold".to_owned());
        assert_eq!(found, [failed.clone(), Ok(()), failed, Ok(()), Ok(())]);
    }

    #[test]
    fn a_crash_fails_one_case_and_says_the_last_words() {
        let found = outcomes(&["a/pass/1", "a/crash/1", "a/crash/2", "a/pass/2"]);
        assert_eq!((&found[0], &found[3]), (&Ok(()), &Ok(())));
        for crashed in &found[1..3] {
            let message = crashed.as_ref().unwrap_err();
            assert!(message.contains("signal: 9"), "{message}");
            assert!(message.contains("about to crash"), "{message}");
        }
    }

    #[test]
    fn a_case_that_hangs_fails_and_the_next_one_runs() {
        let found = outcomes(&["a/hang/1", "a/pass/1"]);
        assert_eq!(found[0], Err("did not end within 2 s".to_owned()));
        assert_eq!(found[1], Ok(()));
    }

    #[test]
    fn a_process_that_does_not_end_well_fails_its_last_case() {
        let found = outcomes(&["a/spoil/1", "a/pass/1"]);
        assert_eq!(found[0], Ok(()));
        let message = found[1].as_ref().unwrap_err();
        assert!(message.contains("did not end well"), "{message}");
    }
}
