//! Real modules, packed as NEFFs and executed.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

use bytes::Bytes;
use metaneff_backend_sim::{
    CustomCalls, DotRounding, ExtraNames, Instance, NanPolicy, OobPolicy, Sim, SimBuilder,
    SimModel, SimTensor,
};
use metaneff_binding::{
    Backend, BackendError, Cause, CollectiveContext, Completion, Core, LoadRequest, Placement, Side,
};
use metaneff_schema::neff::NeffBuilder;
use metaneff_schema::nrt::{NrtDtype, Status};
use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, PrimitiveType, RandomDistribution,
    ShapeProto,
};
use prost::Message;

const CORE: Core = Core::new(0);

/// What an execution answered, and its outputs' bytes.
type Ran = (Result<Completion, BackendError>, Vec<Vec<u8>>);

fn path(module: &str, file: &str) -> PathBuf {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    data.join(module).join(file)
}

fn graph(module: &str) -> Bytes {
    fs::read(path(module, "module.pb")).unwrap().into()
}

fn packed(module: &str) -> Bytes {
    NeffBuilder::from_hlo(graph(module)).unwrap().build()
}

/// The elements' bytes of `PREFIX{i}.npy`, for as many as there are.
fn arrays(module: &str, prefix: &str) -> Vec<Vec<u8>> {
    let files = (0..).map(|i| path(module, &format!("{prefix}{i}.npy")));
    let present = files.take_while(|file| file.exists());
    present.map(|file| elements(&file)).collect()
}

fn elements(file: &Path) -> Vec<u8> {
    let mut reader = fs::File::open(file).unwrap();
    npyz::NpyFile::new(&mut reader).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    bytes
}

fn load(sim: &Sim, module: &str) -> SimModel {
    sim.load(&LoadRequest::new(packed(module)).on(CORE))
        .unwrap()
}

/// Executes on fresh tensors; the outputs are read also after a failure.
fn run(sim: &Sim, model: &SimModel, inputs: &[Vec<u8>]) -> Ran {
    let mut sets = [sim.tensor_set().unwrap(), sim.tensor_set().unwrap()];
    let mut tensors: [Vec<SimTensor>; 2] = Default::default();
    for info in sim.model_tensors(model).unwrap() {
        let name = CString::new(info.name).unwrap();
        let side = usize::from(info.side == Side::Output);
        let tensor = sim
            .allocate(Placement::Device, CORE, info.size, &name)
            .unwrap();
        if info.side == Side::Input {
            sim.write(&tensor, 0, &inputs[tensors[0].len()]).unwrap();
        }
        sim.bind(&mut sets[side], &name, &tensor).unwrap();
        tensors[side].push(tensor);
    }
    let [from, mut to] = sets;
    let result = sim.execute(model, &from, &mut to);
    let read = |tensor: &SimTensor| {
        let mut bytes = vec![0; sim.tensor_size(tensor)];
        sim.read(tensor, 0, &mut bytes).unwrap();
        bytes
    };
    let outputs = tensors[1].iter().map(read).collect();
    sim.destroy_set(from);
    sim.destroy_set(to);
    for tensor in tensors.into_iter().flatten() {
        sim.free(tensor);
    }
    (result, outputs)
}

fn golden(builder: SimBuilder, module: &str) -> Sim {
    let sim = builder.build().unwrap();
    let model = load(&sim, module);
    let (result, outputs) = run(&sim, &model, &arrays(module, "input"));
    assert_eq!(result, Ok(Completion::Clean), "{module}");
    assert_eq!(outputs, arrays(module, "expected"), "{module}");
    sim.unload(model).unwrap();
    assert_eq!(sim.live_objects().total(), 0);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
    sim
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (chunks, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    chunks
        .iter()
        .map(|chunk| f32::from_le_bytes(*chunk))
        .collect()
}

#[test]
fn outputs_are_the_golden_ones() {
    for module in [
        "binary__add__u64",
        "control__hlo_input_output_alias",
        "control__while_count",
        "gather__rows_oob__f32",
    ] {
        let sim = golden(Sim::builder(), module);
        assert_eq!(sim.transfers().unwrap().executions, 1);
    }
}

#[test]
fn a_logical_core_of_two_runs_what_one_runs() {
    let trn2 = Sim::builder().instance(Instance::Trn2_48xlarge);
    golden(trn2, "control__while_count");
}

#[test]
fn wide_integers_are_reported_as_a_neff_shows_them() {
    let sim = Sim::builder().build().unwrap();
    let model = load(&sim, "binary__add__u64");
    let tensors = sim.model_tensors(&model).unwrap();
    let seen: Vec<_> = tensors
        .iter()
        .map(|t| (t.name.as_str(), t.side, t.size, t.dtype, t.shape.as_slice()))
        .collect();
    let wide = |name, side| (name, side, 1800, NrtDtype::UINT32, &[450][..]);
    assert_eq!(
        seen,
        [
            wide("input0", Side::Input),
            wide("input1", Side::Input),
            wide("output0", Side::Output)
        ]
    );
    let scalar = load(&sim, "control__while_count");
    let scalar = &sim.model_tensors(&scalar).unwrap()[0];
    assert_eq!((scalar.shape.as_slice(), scalar.size), (&[1][..], 4));
}

#[test]
fn donated_inputs_become_the_outputs() {
    let sim = Sim::builder().build().unwrap();
    let model = load(&sim, "control__hlo_input_output_alias");
    let inputs = arrays("control__hlo_input_output_alias", "input");
    let tensor = |bytes: &[u8]| {
        let tensor = sim.allocate(Placement::Device, CORE, 8, c"state").unwrap();
        sim.write(&tensor, 0, bytes).unwrap();
        tensor
    };
    let (a, b) = (tensor(&inputs[0]), tensor(&inputs[1]));
    let mut from = sim.tensor_set().unwrap();
    sim.bind(&mut from, c"input0", &a).unwrap();
    sim.bind(&mut from, c"input1", &b).unwrap();
    // The alias map of the module crosses: output 0 takes input 1's memory.
    let mut to = sim.tensor_set().unwrap();
    sim.bind(&mut to, c"output0", &b).unwrap();
    sim.bind(&mut to, c"output1", &a).unwrap();
    let (mut x, mut y) = (floats(&inputs[0]), floats(&inputs[1]));
    let before = sim.transfers().unwrap();
    for _ in 0..5 {
        assert_eq!(sim.execute(&model, &from, &mut to), Ok(Completion::Clean));
        let step = |f: fn(f32, f32) -> f32| x.iter().zip(&y).map(|(x, y)| f(*x, *y)).collect();
        (y, x) = (step(|x, y| x + y), step(|x, y| x * y));
    }
    let after = sim.transfers().unwrap();
    assert_eq!(after.executions - before.executions, 5);
    assert_eq!((after.writes, after.copies), (before.writes, 0));
    let read = |tensor| {
        let mut bytes = [0; 8];
        sim.read(tensor, 0, &mut bytes).unwrap();
        floats(&bytes)
    };
    assert_eq!((read(&a), read(&b)), (x, y));
}

#[test]
fn a_nan_in_an_output_is_a_completion() {
    let module = "dot__nan_inf__f32";
    let answer = |builder: SimBuilder| {
        let sim = builder.build().unwrap();
        let model = load(&sim, module);
        let (result, outputs) = run(&sim, &model, &arrays(module, "input"));
        let golden = floats(&arrays(module, "expected")[0]);
        for (got, want) in floats(&outputs[0]).into_iter().zip(golden) {
            assert!(got == want || got.is_nan() && want.is_nan(), "{got} {want}");
        }
        (result.unwrap(), sim.last_run(&model).unwrap().status)
    };
    let heard = answer(Sim::builder());
    assert_eq!(
        heard,
        (
            Completion::NumericalError,
            Status::EXEC_COMPLETED_WITH_NUM_ERR
        )
    );
    let deaf = answer(Sim::builder().nan_policy(NanPolicy::Ignore));
    assert_eq!(deaf, (Completion::Clean, Status::SUCCESS));
}

#[test]
fn an_index_outside_fails_where_the_policy_is_strict() {
    let module = "gather__rows_oob__f32";
    let strict = Sim::builder().oob_policy(OobPolicy::Strict);
    let sim = strict.build().unwrap();
    let model = load(&sim, module);
    let (result, outputs) = run(&sim, &model, &arrays(module, "input"));
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::EXEC_OOB);
    assert!(
        error.to_string().contains("gather instruction `r`"),
        "{error}"
    );
    assert!(outputs[0].iter().all(|byte| *byte == 0));
}

#[test]
fn a_loop_beyond_its_budget_is_a_timeout() {
    let module = "control__while_count";
    let sim = Sim::builder().step_budget(10_000).build().unwrap();
    let model = load(&sim, module);
    let (result, _) = run(&sim, &model, &[i32::MAX.to_le_bytes().to_vec()]);
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(error.to_string().contains("10000 steps"), "{error}");
    let limit = std::time::Duration::from_millis(20);
    let sim = Sim::builder()
        .execution_timeout(Some(limit))
        .build()
        .unwrap();
    let model = load(&sim, module);
    let (result, _) = run(&sim, &model, &[i32::MAX.to_le_bytes().to_vec()]);
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(
        matches!(error.cause(), Cause::Deadline { limit_ms: 20, .. }),
        "{error}"
    );
    let (result, _) = run(&sim, &model, &[3_i32.to_le_bytes().to_vec()]);
    assert_eq!(result, Ok(Completion::Clean));
}

#[test]
fn matrix_operands_are_rounded_where_asked() {
    let module = "dot__attn_qk__f32";
    let product = |builder: SimBuilder| {
        let sim = builder.build().unwrap();
        let model = load(&sim, module);
        let (result, outputs) = run(&sim, &model, &arrays(module, "input"));
        assert_eq!(result, Ok(Completion::Clean));
        floats(&outputs[0])
    };
    let golden = floats(&arrays(module, "expected")[0]);
    let largest = |got: &[f32]| {
        let differences = got
            .iter()
            .zip(&golden)
            .map(|(got, want)| (got - want).abs());
        differences.fold(0.0, f32::max)
    };
    let exact = product(Sim::builder());
    for (got, want) in exact.iter().zip(&golden) {
        assert!(
            (got - want).abs() <= 2e-6 + 2e-5 * want.abs(),
            "{got} {want}"
        );
    }
    let rounded = product(Sim::builder().dot_rounding(DotRounding::Bf16));
    assert!(largest(&rounded) > largest(&exact));
    assert!(largest(&rounded) < 0.1);
}

#[test]
fn the_graph_of_the_request_is_used_where_the_neff_has_none() {
    let sim = Sim::builder().build().unwrap();
    let module = "control__while_count";
    let neff = without_graph(&packed(module));
    let error = sim.load(&LoadRequest::new(neff.clone())).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let Cause::Neff { detail } = error.cause() else {
        panic!("{error}");
    };
    assert!(detail.starts_with("no graph to execute"), "{detail}");
    let request = LoadRequest::new(neff.clone()).with_graph(graph(module));
    let model = sim.load(&request).unwrap();
    let (result, outputs) = run(&sim, &model, &arrays(module, "input"));
    assert_eq!(result, Ok(Completion::Clean));
    assert_eq!(outputs, arrays(module, "expected"));
    // The graph of another model does not fit.
    let request = LoadRequest::new(neff).with_graph(graph("control__hlo_input_output_alias"));
    let error = sim.load(&request).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    for finding in [
        "`input0` has 4 bytes in the NEFF, 8",
        "`output1` of the graph",
    ] {
        assert!(error.to_string().contains(finding), "{error}");
    }
    let garbage = LoadRequest::new(without_graph(&packed(module)));
    let garbage = garbage.with_graph(Bytes::from_static(b"\xff\xff\xff"));
    assert_eq!(sim.load(&garbage).unwrap_err().status(), Status::INVALID);
}

/// The same container with its extra member called something else.
fn without_graph(neff: &Bytes) -> Bytes {
    use metaneff_schema::neff::{Neff, ParseOptions};

    let parsed = Neff::parse(neff.clone(), &ParseOptions::default()).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for member in parsed.members() {
        if parsed
            .graph()
            .is_some_and(|g| g.len() as u64 == member.size)
        {
            continue;
        }
        let contents = parsed.read_member(&member.name).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        tar.append_data(&mut header, &member.name, &contents[..])
            .unwrap();
    }
    let data = tar.into_inner().unwrap();
    let mut file = neff[..1024].to_vec();
    file[..8].copy_from_slice(&1_u64.to_le_bytes());
    file[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
    file.extend(data);
    file.into()
}

#[test]
fn gates_answer_their_status() {
    let sim = Sim::builder().build().unwrap();
    let module = || NeffBuilder::from_hlo(graph("control__while_count")).unwrap();
    let refused = |neff: Bytes| sim.load(&LoadRequest::new(neff)).unwrap_err();
    let newer = refused(module().feature_bits(1 << 40).build());
    assert_eq!(newer.status(), Status::UNSUPPORTED_NEFF_VERSION);
    let major = refused(module().version(3, 0).build());
    assert_eq!(major.status(), Status::UNSUPPORTED_NEFF_VERSION);
    assert_eq!(refused(Bytes::new()).status(), Status::INVALID);
    let cut = module().build();
    assert_eq!(
        refused(cut.slice(..cut.len() - 1)).status(),
        Status::INVALID
    );
    // Another architecture, unless old files are allowed.
    let cayman = module().target("cayman").build();
    assert_eq!(refused(cayman.clone()).status(), Status::INVALID);
    let lenient = Sim::builder().allow_legacy_neff(true).build().unwrap();
    lenient.load(&LoadRequest::new(cayman.clone())).unwrap();
    let trn2 = Sim::builder().instance(Instance::Trn2_3xlarge);
    trn2.build()
        .unwrap()
        .load(&LoadRequest::new(cayman))
        .unwrap();
    // A damaged hash counts only where hashes are compared.
    let mut damaged = module().build().to_vec();
    damaged[0xac] ^= 1;
    let damaged = Bytes::from(damaged);
    sim.load(&LoadRequest::new(damaged.clone())).unwrap();
    let strict = Sim::builder().validate_hash(true).build().unwrap();
    let error = strict.load(&LoadRequest::new(damaged)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert!(error.to_string().contains("MD5"), "{error}");
    // More cores than there are.
    let error = refused(module().cores(3, 1).build());
    assert_eq!(error.status(), Status::LOAD_NOT_ENOUGH_NC);
    assert_eq!(sim.live_objects().models, 1);
}

#[test]
fn extra_names_may_be_ignored() {
    let sim = Sim::builder()
        .extra_names(ExtraNames::Ignore)
        .build()
        .unwrap();
    let model = load(&sim, "control__while_count");
    let tensor = sim.allocate(Placement::Device, CORE, 4, c"t").unwrap();
    let mut sets = [sim.tensor_set().unwrap(), sim.tensor_set().unwrap()];
    for set in &mut sets {
        for name in [c"input0", c"output0", c"unknown"] {
            sim.bind(set, name, &tensor).unwrap();
        }
    }
    let [from, mut to] = sets;
    assert_eq!(sim.execute(&model, &from, &mut to), Ok(Completion::Clean));
    let mut one = [0; 4];
    sim.read(&tensor, 0, &mut one).unwrap();
    assert_eq!(floats(&one), [1.0]);
}

#[test]
fn eight_threads_get_what_one_gets() {
    let sim = Sim::builder().build().unwrap();
    let module = "dot__attn_qk__f32";
    let model = load(&sim, module);
    let inputs = arrays(module, "input");
    let (_, alone) = run(&sim, &model, &inputs);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let (result, outputs) = run(&sim, &model, &inputs);
                    assert_eq!(result, Ok(Completion::Clean));
                    assert_eq!(outputs, alone);
                }
            });
        }
    });
    assert_eq!(sim.core_stats(CORE).unwrap().executions, 401);
}

/// Executes a module of two ranks, each on a core and a thread of its own.
fn ranks(sim: &Sim, module: &str) -> Vec<Ran> {
    // One thread loads them one after the other, and waits for no one.
    let models: Vec<_> = [0, 1]
        .map(|rank| {
            let request = LoadRequest::new(packed(module)).on(Core::new(rank));
            sim.load(&request.with_collectives(CollectiveContext::new(rank, 2)))
                .unwrap()
        })
        .into();
    let array = |prefix: &str, rank| {
        let file = path(module, &format!("{prefix}0_r{rank}.npy"));
        file.exists().then(|| elements(&file))
    };
    let results = thread::scope(|scope| {
        let run = |(rank, model): (u32, &SimModel)| {
            let core = Core::new(rank);
            let mut sets = [sim.tensor_set().unwrap(), sim.tensor_set().unwrap()];
            let mut written = Vec::new();
            for info in sim.model_tensors(model).unwrap() {
                let name = CString::new(info.name).unwrap();
                let tensor = sim.allocate(Placement::Device, core, info.size, &name);
                let tensor = tensor.unwrap();
                let side = usize::from(info.side == Side::Output);
                if info.side == Side::Input {
                    sim.write(&tensor, 0, &array("input", rank).unwrap())
                        .unwrap();
                }
                sim.bind(&mut sets[side], &name, &tensor).unwrap();
                if info.side == Side::Output {
                    written.push(tensor);
                }
            }
            let [from, mut to] = sets;
            let result = sim.execute(model, &from, &mut to);
            let read = |tensor: &SimTensor| {
                let mut bytes = vec![0; sim.tensor_size(tensor)];
                sim.read(tensor, 0, &mut bytes).unwrap();
                bytes
            };
            (result, written.iter().map(read).collect())
        };
        let threads: Vec<_> = (0..)
            .zip(&models)
            .map(|rank| scope.spawn(move || run(rank)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
        threads.into_iter().map(join).collect()
    });
    for model in models {
        sim.unload(model).unwrap();
    }
    results
}

#[test]
fn ranks_of_one_process_meet() {
    let sim = Sim::builder().build().unwrap();
    for module in [
        "collective__all_reduce_add__f32",
        "collective__partition_id__u32",
    ] {
        for _ in 0..20 {
            for (rank, (result, outputs)) in ranks(&sim, module).into_iter().enumerate() {
                assert_eq!(result, Ok(Completion::Clean), "{module}");
                for (index, bytes) in outputs.iter().enumerate() {
                    let golden = path(module, &format!("expected{index}_r{rank}.npy"));
                    assert_eq!(*bytes, elements(&golden), "{module}, rank {rank}");
                }
            }
        }
    }
}

#[test]
fn a_rank_waits_for_its_peer_until_the_limit_or_the_end() {
    let module = "collective__all_reduce_add__f32";
    let limit = std::time::Duration::from_millis(10);
    let sim = Sim::builder()
        .execution_timeout(Some(limit))
        .build()
        .unwrap();
    let alone = LoadRequest::new(packed(module)).on(CORE);
    let alone = alone.with_collectives(CollectiveContext::new(1, 2));
    let model = sim.load(&alone).unwrap();
    let input = [vec![0; 16]];
    let error = run(&sim, &model, &input).0.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    for part in ["1 of 2 devices", "ranks that did not start: 0"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // The one that gave up has left nothing behind.
    let sim = Sim::builder().build().unwrap();
    let model = sim.load(&alone).unwrap();
    thread::scope(|scope| {
        let tensor = sim.allocate(Placement::Device, CORE, 16, c"t").unwrap();
        let mut sets = [sim.tensor_set().unwrap(), sim.tensor_set().unwrap()];
        sim.bind(&mut sets[0], c"input0", &tensor).unwrap();
        sim.bind(&mut sets[1], c"output0", &tensor).unwrap();
        let [from, mut to] = sets;
        let (sim, model) = (&sim, &model);
        let waiting = scope.spawn(move || sim.execute(model, &from, &mut to));
        while sim.core_stats(CORE).is_ok_and(|stats| stats.running == 0) {
            thread::yield_now();
        }
        sim.close();
        assert_eq!(
            waiting.join().unwrap().unwrap_err().status(),
            Status::CLOSED
        );
    });
}

/// A model of one instruction, which gives four numbers, on so many parameters
/// of these dimensions.
fn model_of(sim: &Sim, op: HloInstructionProto, parameters: i64, dims: &[i64]) -> SimModel {
    let shape = |dims: &[i64]| ShapeProto {
        element_type: PrimitiveType::F32.into(),
        dimensions: dims.to_vec(),
        ..ShapeProto::default()
    };
    let mut instructions: Vec<_> = (0..parameters)
        .map(|number| HloInstructionProto {
            name: format!("p{number}"),
            opcode: "parameter".into(),
            shape: Some(shape(dims)),
            id: number,
            parameter_number: number,
            ..HloInstructionProto::default()
        })
        .collect();
    instructions.push(HloInstructionProto {
        name: "root".into(),
        shape: Some(shape(&[4])),
        id: parameters,
        operand_ids: (0..parameters).collect(),
        ..op
    });
    let entry = HloComputationProto {
        name: "entry".into(),
        instructions,
        root_id: parameters,
        ..HloComputationProto::default()
    };
    let module = HloModuleProto {
        computations: vec![entry],
        ..HloModuleProto::default()
    };
    let graph = Bytes::from(module.encode_to_vec());
    let neff = NeffBuilder::from_hlo(graph).unwrap().build();
    sim.load(&LoadRequest::new(neff).on(CORE)).unwrap()
}

#[test]
fn custom_calls_run_the_targets_that_are_given() {
    let mut targets = CustomCalls::default();
    targets.register("Reversed", |call, results| {
        let values = call.operands[0].values::<f32>()?;
        let reversed = values.iter().rev();
        for (out, x) in results[0].values_mut::<f32>()?.iter_mut().zip(reversed) {
            *out = *x;
        }
        Ok(())
    });
    let input: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let answer = |builder: SimBuilder| {
        let sim = builder.build().unwrap();
        let call = HloInstructionProto {
            opcode: "custom-call".into(),
            custom_call_target: "Reversed".into(),
            ..HloInstructionProto::default()
        };
        let model = model_of(&sim, call, 1, &[4]);
        run(&sim, &model, std::slice::from_ref(&input))
    };
    let error = answer(Sim::builder()).0.unwrap_err();
    assert!(error.to_string().contains("`Reversed`"), "{error}");
    let (result, outputs) = answer(Sim::builder().custom_calls(targets));
    assert_eq!(result, Ok(Completion::Clean));
    assert_eq!(floats(&outputs[0]), [4.0, 3.0, 2.0, 1.0]);
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let drawn = |builder: SimBuilder| {
        let sim = builder.build().unwrap();
        let rng = HloInstructionProto {
            opcode: "rng".into(),
            distribution: RandomDistribution::RngUniform.into(),
            ..HloInstructionProto::default()
        };
        let model = model_of(&sim, rng, 2, &[]);
        let bounds = [0.0_f32, 1.0].map(|bound| bound.to_le_bytes().to_vec());
        let outputs = [0, 1].map(|_| {
            let (result, outputs) = run(&sim, &model, &bounds);
            assert_eq!(result, Ok(Completion::Clean));
            floats(&outputs[0])
        });
        assert_eq!(outputs[0], outputs[1]);
        assert!(outputs[0].iter().all(|x| (0.0..1.0).contains(x)));
        outputs
    };
    let seven = drawn(Sim::builder().rng_seed(7));
    assert_ne!(seven, drawn(Sim::builder()));
    let variables = [("METANEFF_SIM_RNG_SEED", "7")];
    assert_eq!(seven, drawn(SimBuilder::from_variables(variables).unwrap()));
}
