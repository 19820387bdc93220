//! `stile records show`: prints one record, as `/v1` answers it.

mod removal;

use std::io::{self, Write};

use stile_domain::records::request::parameters::Parameters;
use stile_domain::records::request::{GetRecord, PathNames, ReadOperation as _};
use stile_records::response_sink::ResponseSink;

use crate::cli::compose::owner;
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::invocation::Invocation;

/// Prints the record with the given key.
pub(super) fn run(invocation: Invocation<'_>) -> Result<(), Failure> {
    let Some((name, matches)) = invocation.matches.subcommand() else { return Ok(()) };
    if name != "show" {
        return removal::run(name, Invocation { matches, ..invocation });
    }
    let Invocation { environment, output, .. } = invocation;
    let owner = owner::open(matches, environment)?;
    let flags = [("connection_id", "connection"), ("preview_chars", "preview_chars")];
    let pairs = flags.into_iter().filter_map(|(parameter, flag)| {
        Some((parameter.to_owned(), flags::text(matches, flag)?.to_owned()))
    });
    let argument = |name| flags::text(matches, name).unwrap_or_default().to_owned();
    let (stream, key) = (argument("stream"), argument("key"));
    let parameters = Parameters::parse(GetRecord::PARAMETERS, &pairs.collect::<Vec<_>>())?;
    let names = PathNames { stream: &stream, key: &key };
    let request = GetRecord::from_parameters(names, &parameters).into();
    let mut sink = OutputSink { output, error: None };
    owner.services.answer_unjournalled(&owner.caller, owner.now, &request, &mut sink)?;
    sink.write("\n");
    sink.error.map_or(Ok(()), |error| Err(error.into()))
}

/// Standard output, with the first error of writing to it.
struct OutputSink<'o> {
    output: &'o mut dyn Write,
    error: Option<io::Error>,
}

impl ResponseSink for OutputSink<'_> {
    fn write(&mut self, part: &str) {
        if self.error.is_none() {
            self.error = self.output.write_all(part.as_bytes()).err();
        }
    }

    fn is_closed(&self) -> bool {
        self.error.is_some()
    }
}
