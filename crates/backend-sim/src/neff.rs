//! Reading a NEFF and its graph.

use metaneff_binding::LoadRequest;
use metaneff_schema::nrt::Status;

use crate::config::Config;
use crate::program::{Compiled, Reader, Refusal};

/// Reads NEFFs, and executes their graphs with `metaneff-hlo`.
#[derive(Debug)]
pub(crate) struct NeffReader;

impl Reader for NeffReader {
    fn read(&self, _request: &LoadRequest, _config: &Config) -> Result<Compiled, Refusal> {
        Err(Refusal {
            status: Status::INVALID,
            detail: "no reader".to_owned(),
        })
    }
}
