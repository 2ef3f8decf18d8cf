//! From messages to the verified form.
//!
//! Verification infers the shape of every instruction from its operands and
//! attributes and demands that the declared shape is that one. It also demands
//! what makes execution safe: ids are defined once and before their use, so
//! that neither operands nor calls can form a cycle; parameter numbers are
//! dense; literals have as many elements as their shapes; sizes fit 63 bits;
//! calls are not nested too deep. The rules are those of XLA's own shape
//! inference and verifier.

mod algebra;
mod collective;
mod control;
mod elementwise;
mod indexing;
mod movement;
mod opcode;
mod problem;
mod reduction;
mod scope;
mod shapes;
mod work;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, Kind, ProgramShapeProto,
};
use metaneff_schema::{DecodeError, decode_hlo, unwrap_hlo_proto};

use crate::error::Site;
use crate::ir::{
    Alias, Computation, ComputationIndex, Donor, Instruction, InstructionIndex, Module, Op,
};
use crate::shape::Shape;

use problem::{mismatch, require};
use scope::Scope;
use work::Work;

pub use problem::{Problem, VerifyError};

/// Calls that may be nested.
const MAX_CALL_DEPTH: usize = 128;

impl Module {
    /// Decodes and verifies a module: the bytes of an `HloModuleProto`, or of
    /// the `HloProto` in which some dumps wrap it.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says what is wrong and with which instruction.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_hlo::Module;
    ///
    /// assert!(Module::parse("no module").is_err());
    /// ```
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, VerifyError> {
        let bytes = bytes.into();
        let module = match decode_hlo(bytes.clone()) {
            Err(DecodeError::Wrapped) => decode_hlo(unwrap_hlo_proto(&bytes)?)?,
            decoded => decoded?,
        };
        Self::verify(&module)
    }

    /// Verifies a module.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says what is wrong and with which instruction.
    pub fn verify(proto: &HloModuleProto) -> Result<Self, VerifyError> {
        Self::verify_within(proto, &Work::new(proto))
    }

    fn verify_within(proto: &HloModuleProto, work: &Work) -> Result<Self, VerifyError> {
        let mut ids = HashMap::with_capacity(proto.computations.len());
        let mut computations = Vec::with_capacity(proto.computations.len());
        for computation in &proto.computations {
            let verified = self::computation(computation, &computations, &ids, work)?;
            let index = ComputationIndex(index(computations.len()));
            if ids.insert(computation.id, index).is_some() {
                return Err(VerifyError::Computation {
                    computation: computation.name.clone(),
                    problem: Problem::DuplicateId {
                        what: "computation",
                        id: computation.id,
                    },
                });
            }
            computations.push(verified);
        }
        module(proto, computations, &ids).map_err(|problem| VerifyError::Module {
            module: proto.name.clone(),
            problem,
        })
    }
}

/// Positions fit `u32`: a message cannot hold as many instructions.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn module(
    proto: &HloModuleProto,
    computations: Vec<Computation>,
    ids: &HashMap<i64, ComputationIndex>,
) -> Result<Module, Problem> {
    require(
        !computations.is_empty(),
        "number of computations",
        "1 or more",
        0,
    )?;
    let id = proto.entry_computation_id;
    let entry = *ids.get(&id).ok_or(Problem::UndefinedId {
        what: "entry computation",
        id,
    })?;
    let computation = &computations[entry.get()];
    let shapes = computation
        .parameters
        .iter()
        .map(|&index| computation.at(index).shape.clone());
    let mut parameters: Box<[Shape]> = shapes.collect();
    let mut result = computation.result_shape().clone();
    if let Some(program) = &proto.host_program_shape {
        (parameters, result) = program_shape(program, &parameters, &result)?;
    }
    let aliases = aliases(proto, &parameters, &result)?;
    let donors = donors(proto, &parameters, &aliases)?;
    let results = result
        .leaves()
        .into_iter()
        .cloned()
        .map(Shape::Array)
        .collect();
    Ok(Module {
        name: proto.name.as_str().into(),
        computations: computations.into(),
        entry,
        parameters,
        result,
        results,
        aliases,
        donors,
    })
}

/// The shapes of the program, which must be those of the entry but for
/// layouts.
fn program_shape(
    program: &ProgramShapeProto,
    parameters: &[Shape],
    result: &Shape,
) -> Result<(Box<[Shape]>, Shape), Problem> {
    let expected = parameters.len();
    let found = program.parameters.len();
    require(
        found == expected,
        "parameters of the program shape",
        expected,
        found,
    )?;
    let mut shapes = Vec::with_capacity(found);
    for (given, own) in program.parameters.iter().zip(parameters) {
        let shape = shapes::shape(given)?;
        require(
            shape.same(own),
            "parameter of the program shape",
            own,
            &shape,
        )?;
        shapes.push(shape);
    }
    let given = program.result.as_ref().map(shapes::shape).transpose()?;
    let given = given.ok_or_else(|| mismatch("result of the program shape", result, "none"))?;
    require(
        given.same(result),
        "result of the program shape",
        result,
        &given,
    )?;
    Ok((shapes.into(), given))
}

fn aliases(
    proto: &HloModuleProto,
    parameters: &[Shape],
    result: &Shape,
) -> Result<Box<[Alias]>, Problem> {
    let entries = proto
        .input_output_alias
        .as_ref()
        .map_or(&[][..], |alias| &alias.entries);
    let mut aliases: Vec<Alias> = Vec::with_capacity(entries.len());
    let (mut outputs, mut taken) = (HashSet::new(), HashSet::new());
    for entry in entries {
        let output = path(&entry.output_shape_index)?;
        let parameter_path = path(&entry.parameter_shape_index)?;
        let parameter = Scope::dim(
            "parameter of an alias",
            entry.parameter_number,
            parameters.len(),
        )?;
        let to = at_path(result, &output)?;
        let from = at_path(&parameters[parameter], &parameter_path)?;
        let bytes = |shape: &Shape| shape.as_array().map(crate::shape::ArrayShape::byte_size);
        require(
            bytes(to).is_some() && bytes(to) == bytes(from),
            "output of an alias",
            format_args!("as many bytes as {from}"),
            to,
        )?;
        require(
            outputs.insert(output.clone()),
            "output of an alias",
            "aliased once",
            format_args!("{output:?} twice"),
        )?;
        require(
            taken.insert((parameter, parameter_path.clone())),
            "parameter of an alias",
            "aliased once",
            format_args!("{parameter} twice"),
        )?;
        let must = entry.kind == i32::from(Kind::MustAlias);
        aliases.push(Alias {
            output,
            parameter,
            parameter_path,
            must,
        });
    }
    Ok(aliases.into())
}

/// The parameters whose buffers the caller gives away, which are arrays that no
/// alias names.
fn donors(
    proto: &HloModuleProto,
    parameters: &[Shape],
    aliases: &[Alias],
) -> Result<Box<[Donor]>, Problem> {
    let entries = proto.buffer_donor.as_ref();
    let entries = entries.map_or(&[][..], |donors| &donors.entries);
    let aliased: HashSet<(usize, &[usize])> = aliases
        .iter()
        .map(|alias| (alias.parameter, &*alias.parameter_path))
        .collect();
    let mut donors = Vec::with_capacity(entries.len());
    let mut taken = HashSet::new();
    for entry in entries {
        let path = path(&entry.parameter_shape_index)?;
        let parameter = Scope::dim(
            "parameter of a buffer donor",
            entry.parameter_number,
            parameters.len(),
        )?;
        let shape = at_path(&parameters[parameter], &path)?;
        require(
            shape.as_array().is_some(),
            "buffer donor",
            "an array",
            shape,
        )?;
        require(
            !aliased.contains(&(parameter, &*path)),
            "buffer donor",
            "a parameter without an alias",
            format_args!("{parameter} with one"),
        )?;
        require(
            taken.insert((parameter, path.clone())),
            "buffer donor",
            "named once",
            format_args!("{parameter} twice"),
        )?;
        donors.push(Donor { parameter, path });
    }
    Ok(donors.into())
}

fn path(values: &[i64]) -> Result<Vec<usize>, Problem> {
    values
        .iter()
        .map(|&value| Scope::size("index of an alias", value))
        .collect()
}

fn at_path<'a>(shape: &'a Shape, path: &[usize]) -> Result<&'a Shape, Problem> {
    path.iter().try_fold(shape, |shape, &index| {
        shape
            .as_tuple()
            .and_then(|elements| elements.get(index))
            .ok_or_else(|| {
                mismatch(
                    "index of an alias",
                    format_args!("one within {shape}"),
                    index,
                )
            })
    })
}

fn computation(
    proto: &HloComputationProto,
    computations: &[Computation],
    ids: &HashMap<i64, ComputationIndex>,
    work: &Work,
) -> Result<Computation, VerifyError> {
    let whole = |problem| VerifyError::Computation {
        computation: proto.name.clone(),
        problem,
    };
    let mut own: HashMap<i64, InstructionIndex> = HashMap::with_capacity(proto.instructions.len());
    let mut instructions: Vec<Instruction> = Vec::with_capacity(proto.instructions.len());
    let at = |given: &HloInstructionProto, problem| VerifyError::Instruction {
        site: Box::new(Site {
            opcode: given.opcode.clone(),
            instruction: given.name.clone(),
            computation: proto.name.clone(),
        }),
        problem,
    };
    let mut depth = 1;
    for given in &proto.instructions {
        let problem = |problem| at(given, problem);
        let verified =
            instruction(given, &instructions, &own, computations, ids, work).map_err(problem)?;
        for called in verified.op.computations() {
            depth = depth.max(computations[called.get()].depth + 1);
        }
        if depth > MAX_CALL_DEPTH {
            return Err(problem(Problem::Limit {
                what: "depth of calls",
                limit: MAX_CALL_DEPTH,
                found: depth,
            }));
        }
        let index = InstructionIndex(index(instructions.len()));
        if own.insert(given.id, index).is_some() {
            return Err(problem(Problem::DuplicateId {
                what: "instruction",
                id: given.id,
            }));
        }
        instructions.push(verified);
    }
    let root = own.get(&proto.root_id).copied();
    let root = root.ok_or_else(|| {
        whole(Problem::UndefinedId {
            what: "root instruction",
            id: proto.root_id,
        })
    })?;
    let parameters = parameters(&instructions)
        .map_err(|(position, problem)| at(&proto.instructions[position], problem))?;
    Ok(Computation {
        name: proto.name.as_str().into(),
        instructions: instructions.into(),
        parameters,
        root,
        depth,
    })
}

/// The parameters by number, which must be dense; or the position of one whose
/// number is not.
fn parameters(instructions: &[Instruction]) -> Result<Box<[InstructionIndex]>, (usize, Problem)> {
    let mut numbered: Vec<(usize, InstructionIndex)> = instructions
        .iter()
        .enumerate()
        .filter_map(|(position, instruction)| match instruction.op {
            Op::Parameter { number } => Some((number, InstructionIndex(index(position)))),
            _ => None,
        })
        .collect();
    numbered.sort_unstable();
    for (expected, &(found, index)) in numbered.iter().enumerate() {
        require(found == expected, "parameter number", expected, found)
            .map_err(|problem| (index.get(), problem))?;
    }
    Ok(numbered.into_iter().map(|(_, index)| index).collect())
}

fn instruction(
    proto: &HloInstructionProto,
    instructions: &[Instruction],
    own: &HashMap<i64, InstructionIndex>,
    computations: &[Computation],
    ids: &HashMap<i64, ComputationIndex>,
    work: &Work,
) -> Result<Instruction, Problem> {
    let shape = proto
        .shape
        .as_ref()
        .ok_or_else(|| mismatch("shape", "one", "none"))?;
    let shape = shapes::shape(shape)?;
    let operands = proto
        .operand_ids
        .iter()
        .map(|id| {
            own.get(id).copied().ok_or(Problem::UndefinedId {
                what: "operand",
                id: *id,
            })
        })
        .collect::<Result<Box<[_]>, _>>()?;
    if let Some(&id) = proto
        .control_predecessor_ids
        .iter()
        .find(|id| !own.contains_key(id))
    {
        return Err(Problem::UndefinedId {
            what: "control predecessor",
            id,
        });
    }
    let operand_shapes: Vec<&Shape> = operands
        .iter()
        .map(|index| &instructions[index.get()].shape)
        .collect();
    let operand_opcodes: Vec<&str> = operands
        .iter()
        .map(|index| &*instructions[index.get()].opcode)
        .collect();
    work.look(&shape)?;
    work.spend(operands.len())?;
    let op = opcode::check(&Scope {
        proto,
        declared: &shape,
        operands: &operand_shapes,
        opcodes: &operand_opcodes,
        work,
        computations,
        ids,
    })?;
    Ok(Instruction {
        name: proto.name.as_str().into(),
        opcode: proto.opcode.as_str().into(),
        op,
        shape,
        operands,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaneff_schema::xla::{PrimitiveType, ShapeProto};

    fn scalar() -> ShapeProto {
        ShapeProto {
            element_type: PrimitiveType::F32.into(),
            ..ShapeProto::default()
        }
    }

    fn instruction(id: i64, opcode: &str, operands: &[i64]) -> HloInstructionProto {
        HloInstructionProto {
            name: format!("i{id}"),
            opcode: opcode.into(),
            shape: Some(scalar()),
            id,
            operand_ids: operands.to_vec(),
            ..HloInstructionProto::default()
        }
    }

    fn module_of(computations: Vec<HloComputationProto>) -> HloModuleProto {
        HloModuleProto {
            entry_computation_id: computations.last().map_or(0, |entry| entry.id),
            computations,
            ..HloModuleProto::default()
        }
    }

    fn computation_of(id: i64, instructions: Vec<HloInstructionProto>) -> HloComputationProto {
        HloComputationProto {
            id,
            root_id: instructions.last().map_or(0, |root| root.id),
            instructions,
            ..HloComputationProto::default()
        }
    }

    /// A chain of `n` sums.
    fn chain(n: i64) -> HloModuleProto {
        let mut instructions = vec![instruction(0, "parameter", &[])];
        instructions.extend((1..n).map(|id| instruction(id, "add", &[id - 1, id - 1])));
        module_of(vec![computation_of(0, instructions)])
    }

    /// `n` computations, called one after another.
    fn calls(n: i64) -> HloModuleProto {
        let mut computations: Vec<_> = (1..=n)
            .map(|id| {
                let parameter = instruction(0, "parameter", &[]);
                computation_of(id, vec![parameter, instruction(1, "negate", &[0])])
            })
            .collect();
        let mut instructions = vec![instruction(0, "parameter", &[])];
        instructions.extend((1..=n).map(|id| HloInstructionProto {
            called_computation_ids: vec![id],
            ..instruction(id, "call", &[id - 1])
        }));
        computations.push(computation_of(0, instructions));
        module_of(computations)
    }

    /// A tuple of `n` elements, each of which is taken.
    fn elements(n: i64) -> HloModuleProto {
        let mut wide = instruction(1, "tuple", &[]);
        wide.operand_ids = (0..n).map(|_| 0).collect();
        wide.shape = Some(ShapeProto {
            element_type: PrimitiveType::Tuple.into(),
            tuple_shapes: (0..n).map(|_| scalar()).collect(),
            ..ShapeProto::default()
        });
        let mut instructions = vec![instruction(0, "parameter", &[]), wide];
        instructions.extend((0..n).map(|index| HloInstructionProto {
            tuple_index: index,
            ..instruction(2 + index, "get-tuple-element", &[1])
        }));
        module_of(vec![computation_of(0, instructions)])
    }

    #[test]
    fn work_is_linear_in_the_message() {
        for (name, family) in [
            ("chain", chain as fn(i64) -> HloModuleProto),
            ("calls", calls),
            ("elements", elements),
        ] {
            let spent = |n| {
                let proto = family(n);
                let work = Work::new(&proto);
                Module::verify_within(&proto, &work).unwrap();
                work.spent()
            };
            let (once, tenfold) = (spent(300), spent(3000));
            assert!(once > 300, "{name}: {once}");
            // A constant part may be negative; what is quadratic grows a hundredfold.
            assert!(tenfold <= 11 * once, "{name}: {once}, then {tenfold}");
        }
    }
}
