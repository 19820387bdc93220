//! Reads documents in a child process: this program itself, started with the command
//! `extract-text` and the kind of document.
//!
//! The child receives the bytes on its standard input and answers with the text on its standard
//! output. Before it reads a byte it limits its memory and its processor time and gives up the
//! right to write files. The parent ends it at a deadline. A child that crashes, hangs or grows
//! costs the text of one attachment.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use stile_domain::document::{DocumentKind, DocumentReader, DocumentText, NoText};

use super::in_process::in_this_process;
use super::tidy::{Extracted, MAX_TEXT_BYTES, of_wire, tidied, to_wire};
use super::{epub, office, pdf};

/// The command that starts a child, before the name of a kind.
pub const COMMAND: &str = "extract-text";

/// The most memory of a child, in bytes.
const MEMORY: u64 = 1024 * 1024 * 1024;
/// The most processor time of a child, in seconds.
const CPU_SECONDS: u64 = 10;
/// The longest time that a child may take. It waits for a processor, too.
const DEADLINE: Duration = Duration::from_secs(60);
/// The most bytes of the labels and titles of a document's parts.
const MAX_LABEL_BYTES: usize = 1024 * 1024;
/// What a child exits with if the document is damaged or too large.
const DAMAGED: u8 = 3;
const TOO_LARGE: u8 = 4;

/// Starts child processes that read documents.
#[derive(Clone, Debug)]
pub struct TextReader {
    program: PathBuf,
}

impl DocumentReader for TextReader {
    fn text(&self, kind: DocumentKind, bytes: &[u8]) -> Result<DocumentText, NoText> {
        let Extracted { title, parts } = match in_this_process(kind, bytes) {
            Some(read) => read?,
            None => self.read(kind, bytes).map_err(|_| NoText::NotNow)??,
        };
        Ok(DocumentText::new(&parts).titled(title))
    }
}

impl TextReader {
    /// Creates a reader that starts a program, which is to be this one.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Returns the title and the parts of a document.
    ///
    /// # Errors
    /// No child can be started.
    pub(super) fn read(
        &self,
        kind: DocumentKind,
        bytes: &[u8],
    ) -> io::Result<Result<Extracted, NoText>> {
        let Some(name) = kind.name() else { return Ok(Err(NoText::Damaged)) };
        let mut command = Command::new(&self.program);
        command.args([COMMAND, name]).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let answered = thread::scope(|scope| {
            let (input, output) = (child.stdin.take(), child.stdout.take());
            scope.spawn(move || {
                // A child that ends early reads no further.
                let _ = input.map(|mut input| input.write_all(bytes));
            });
            let (sender, answer) = mpsc::channel();
            scope.spawn(move || {
                let _ = sender.send(output.map(answer_of));
            });
            let answered = answer.recv_timeout(DEADLINE).ok().flatten();
            if answered.is_none() {
                // Both threads end with the child.
                let _ = child.kill();
            }
            answered
        });
        Ok(result_of(child, answered))
    }
}

/// Reads the answer of a child, and no more of it than is used.
fn answer_of(output: impl Read) -> Vec<u8> {
    let mut answer = Vec::new();
    // What was read before a failure counts, and the exit code says whether it is a text.
    let _ = output.take((MAX_TEXT_BYTES + MAX_LABEL_BYTES) as u64).read_to_end(&mut answer);
    answer
}

fn result_of(mut child: Child, answered: Option<Vec<u8>>) -> Result<Extracted, NoText> {
    let status = child.wait().map_err(|_| NoText::NotNow)?;
    match (status.code(), answered) {
        (Some(0), Some(answer)) => {
            std::str::from_utf8(&answer).ok().and_then(of_wire).ok_or(NoText::Damaged)
        }
        (Some(code), Some(_)) if code == i32::from(TOO_LARGE) => Err(NoText::TooLarge),
        // A library that panicked did not understand the document.
        (Some(_), Some(_)) => Err(NoText::Damaged),
        // The kernel or the parent ended the child.
        _ => Err(NoText::TooLarge),
    }
}

/// Reads a document as the child. Returns the exit code.
pub fn run(kind: DocumentKind, input: impl Read, mut output: impl Write) -> u8 {
    let answered = limit_resources().and_then(|()| {
        let mut bytes = Vec::new();
        let mut input = input;
        input.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let Ok(bytes) = answered else { return TOO_LARGE };
    let read = match kind {
        DocumentKind::Pdf => pdf::document(&bytes),
        DocumentKind::OfficeOpenXml => office::office_open_xml(&bytes),
        DocumentKind::OpenDocument => office::open_document(&bytes),
        DocumentKind::Epub => epub::book(&bytes),
        DocumentKind::Plain | DocumentKind::Html | DocumentKind::Rtf | DocumentKind::Mail => {
            Err(NoText::Damaged)
        }
    };
    match read.map(|read| to_wire(&tidied(read))) {
        Ok(wire) if wire.len() >= MAX_TEXT_BYTES + MAX_LABEL_BYTES => TOO_LARGE,
        Ok(wire) => {
            let written = output.write_all(wire.as_bytes()).and_then(|()| output.flush());
            if written.is_ok() { 0 } else { DAMAGED }
        }
        Err(NoText::Damaged) => DAMAGED,
        Err(NoText::TooLarge | NoText::NotNow) => TOO_LARGE,
    }
}

/// Limits what this process may use from here on.
#[cfg(unix)]
fn limit_resources() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, most) in [
        (Resource::As, MEMORY),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Limits what this process may use from here on. It may still write files.
#[cfg(windows)]
fn limit_resources() -> io::Result<()> {
    let memory = usize::try_from(MEMORY).unwrap_or(usize::MAX);
    stile_windows::machine::limit_this_process(memory, CPU_SECONDS as u32)
}
