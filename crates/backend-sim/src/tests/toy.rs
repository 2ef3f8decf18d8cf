//! Programs written as words.
//!
//! `in:NAME:BYTES` and `out:NAME:BYTES` are tensors; `graph-in`, `graph-out`,
//! `neff-in` and `neff-out` are known to one side only; `op:NAME` computes;
//! `cores:N`, `lnc:N` and `scratch:N` describe the package.

use std::sync::Arc;
use std::time::Instant;

use metaneff_binding::{LoadRequest, Side, TensorInfo};
use metaneff_hlo::array::Buffer;
use metaneff_schema::nrt::{NrtDtype, Status};

use crate::config::Config;
use crate::program::{Compiled, Failure, Job, Outcome, Package, Port, Program, Reader, Refusal};
use crate::world::{Absence, Meeting};
use crate::{NanPolicy, OobPolicy};

#[derive(Debug)]
pub(super) struct ToyReader;

#[derive(Debug, Default)]
struct Toy {
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    op: String,
}

impl Reader for ToyReader {
    fn read(&self, request: &LoadRequest, _: &Config) -> Result<Compiled, Refusal> {
        let graph = request.graph.as_ref().unwrap_or(&request.neff);
        let text = std::str::from_utf8(graph).unwrap();
        let mut toy = Toy::default();
        let mut package = Package {
            name: "toy".to_owned(),
            ..Package::default()
        };
        for word in text.split_whitespace() {
            let parts: Vec<_> = word.split(':').collect();
            let number = || parts[parts.len() - 1].parse().unwrap();
            let bytes = || usize::try_from(number()).unwrap();
            let port = || Port {
                name: parts[1].to_owned(),
                bytes: bytes(),
            };
            let info = |side| {
                let shape = vec![u32::try_from(bytes()).unwrap()];
                TensorInfo::new(parts[1], side, bytes(), NrtDtype::UINT8, shape)
            };
            match parts[0] {
                "in" => {
                    toy.inputs.push(port());
                    package.tensors.push(info(Side::Input));
                }
                "out" => {
                    toy.outputs.push(port());
                    package.tensors.push(info(Side::Output));
                }
                "graph-in" => toy.inputs.push(port()),
                "graph-out" => toy.outputs.push(port()),
                "neff-in" => package.tensors.push(info(Side::Input)),
                "neff-out" => package.tensors.push(info(Side::Output)),
                "op" => toy.op = parts[1].to_owned(),
                "cores" => package.physical_cores = u32::try_from(number()).unwrap(),
                "lnc" => package.virtual_core_size = u32::try_from(number()).unwrap(),
                "scratch" => package.scratch = number(),
                "gate" => {
                    return Err(Refusal {
                        status: Status::UNSUPPORTED_NEFF_VERSION,
                        detail: "major version 3".to_owned(),
                    });
                }
                other => panic!("unknown word {other}"),
            }
        }
        Ok(Compiled {
            package,
            program: Arc::new(toy),
            graph: graph.clone(),
        })
    }
}

impl Program for Toy {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, inputs: &[&[u8]], job: &Job<'_>) -> Result<Outcome, Failure> {
        for (bytes, port) in inputs.iter().zip(&self.inputs) {
            assert_eq!(bytes.len(), port.bytes);
        }
        let numerical_error = self.op == "nan" && job.numerics.nan_policy != NanPolicy::Ignore;
        let outputs: Vec<Vec<u8>> = match self.op.as_str() {
            "inc" | "nan" => increment(inputs),
            "swap" => inputs.iter().rev().map(|bytes| bytes.to_vec()).collect(),
            "oob" if job.numerics.oob_policy == OobPolicy::Strict => {
                return Err(Failure::OutOfBounds("index 9 of 8".to_owned()));
            }
            "oob" => increment(inputs),
            "spin" => return Err(spin(job)),
            "peer" => return Err(Failure::Peer("device 1 of the world failed".to_owned())),
            "memory" => return Err(Failure::Memory("9 bytes".to_owned())),
            "fail" => return Err(Failure::Other("unsupported".to_owned())),
            "gather" => vec![gather(inputs[0], job)?],
            other => panic!("unknown op {other}"),
        };
        let buffer = |bytes: Vec<u8>| Arc::new(Buffer::copied(&bytes).unwrap());
        Ok(Outcome {
            outputs: outputs.into_iter().map(buffer).collect(),
            numerical_error,
        })
    }
}

fn increment(inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let inc = |bytes: &&[u8]| bytes.iter().map(|b| b.wrapping_add(1)).collect();
    inputs.iter().map(inc).collect()
}

fn spin(job: &Job<'_>) -> Failure {
    if let Some(budget) = job.step_budget {
        return Failure::Steps(format!("{budget} steps are used up"));
    }
    while job.deadline.is_none_or(|at| Instant::now() < at) {
        std::thread::yield_now();
    }
    Failure::Deadline
}

fn gather(part: &[u8], job: &Job<'_>) -> Result<Vec<u8>, Failure> {
    let member = job.member.expect("a member of a world");
    let meeting = Meeting {
        channel: "toy",
        group: (0..member.context.world_size).collect(),
    };
    let rank = member.context.rank;
    match member.world.meet(&meeting, rank, part, job.deadline) {
        Ok(parts) => Ok(parts.concat()),
        Err(Absence::Closed) => Err(Failure::Closed),
        Err(absence) => Err(Failure::Absent(format!("{absence:?}"))),
    }
}
