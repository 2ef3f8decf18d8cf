//! A launch takes nothing from the heap once its session has its buffers.

use std::ffi::CStr;

use metaneff_binding::testing::{add_model, model};
use metaneff_binding::{
    Artifact, Backend, BackendError, BackendInfo, Completion, ContractOptions, Core, Error,
    HostTensor, LoadRequest, MemoryStats, Placement, Runtime, TensorInfo,
};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::neff::NeffBuilder;
use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, PrimitiveType, ShapeProto,
};

/// A backend that answers everything at once and does nothing.
#[derive(Debug)]
struct Null;

impl Backend for Null {
    type Tensor = usize;
    type TensorSet = ();
    type Model = ();

    fn info(&self) -> BackendInfo {
        BackendInfo::new("null", 1, 1)
    }

    fn load(&self, _request: &LoadRequest) -> Result<(), BackendError> {
        Ok(())
    }

    fn unload(&self, _model: ()) -> Result<(), BackendError> {
        Ok(())
    }

    fn model_tensors(&self, _model: &()) -> Result<Vec<TensorInfo>, BackendError> {
        Ok(Vec::new())
    }

    fn model_core(&self, _model: &()) -> Result<Core, BackendError> {
        Ok(Core::new(0))
    }

    fn allocate(
        &self,
        _placement: Placement,
        _core: Core,
        size: usize,
        _name: &CStr,
    ) -> Result<usize, BackendError> {
        Ok(size)
    }

    fn slice(
        &self,
        _tensor: &usize,
        _offset: usize,
        size: usize,
        _name: &CStr,
    ) -> Result<usize, BackendError> {
        Ok(size)
    }

    fn free(&self, _tensor: usize) {}

    fn tensor_size(&self, tensor: &usize) -> usize {
        *tensor
    }

    fn write(&self, _tensor: &usize, _offset: usize, _data: &[u8]) -> Result<(), BackendError> {
        Ok(())
    }

    fn read(&self, _tensor: &usize, _offset: usize, _out: &mut [u8]) -> Result<(), BackendError> {
        Ok(())
    }

    fn copy(
        &self,
        _source: &usize,
        _source_offset: usize,
        _target: &usize,
        _target_offset: usize,
        _size: usize,
    ) -> Result<(), BackendError> {
        Ok(())
    }

    fn tensor_set(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn bind(&self, _set: &mut (), _name: &CStr, _tensor: &usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn destroy_set(&self, _set: ()) {}

    fn execute(
        &self,
        _model: &(),
        _inputs: &(),
        _outputs: &mut (),
    ) -> Result<Completion, BackendError> {
        Ok(Completion::Clean)
    }

    fn memory_stats(&self, _core: Core) -> Result<MemoryStats, BackendError> {
        Ok(MemoryStats::new(0, 0))
    }
}

fn options() -> metaneff_binding::LoadOptions {
    metaneff_binding::LoadOptions::new().without_comparison()
}

#[test]
fn a_launch_with_host_inputs() -> Result<(), Error> {
    let runtime = Runtime::new(Null);
    let model = runtime.load_with(&add_model(), &options())?;
    let mut session = model.session()?;
    let (a, b) = (session.slot(0)?.clone(), session.slot(1)?.clone());
    let data = [1.0_f32, 2.0];
    let mut result = [0; 8];
    let mut launch = || -> Result<(), Error> {
        let x = a.validate(HostTensor::from_slice([2], &data)?)?;
        let y = b.validate(HostTensor::from_slice([2], &data)?)?;
        let outputs = session
            .bind([x, y])?
            .execute(())?
            .reject_nan()?
            .into_outputs();
        outputs.get(0)?.read_into(&mut result)?;
        Ok(())
    };
    launch()?;
    let heap = allocation_counter::measure(|| {
        for _ in 0..8 {
            assert!(launch().is_ok());
        }
    });
    assert_eq!(heap.count_total, 0);
    Ok(())
}

#[test]
fn a_launch_with_states_and_device_inputs() -> Result<(), Error> {
    let tensor = |name: &'static str, role| MetaTensor {
        name: name.into(),
        shape: vec![4, 4, 4, 4],
        data_type: 1,
        r#type: role,
        ..MetaTensor::default()
    };
    let artifact = model(&MetaNeff {
        input_tensors: vec![
            tensor("input0", 1),
            tensor("input1", 2),
            tensor("input2", 0),
        ],
        output_tensors: vec![
            tensor("output0", 0),
            tensor("output1", 0),
            tensor("output2", 0),
        ],
        output_aliases_to: [(1, 1), (2, 2)].into(),
        ..MetaNeff::default()
    })?;
    let runtime = Runtime::new(Null);
    let model = runtime.load_with(&artifact, &options())?;
    let mut session = model.session()?;
    let zeros = |ordinal: usize| -> Result<_, Error> {
        let zeros = HostTensor::zeros(metaneff_binding::DType::F32, [4, 4, 4, 4])?;
        Ok(session.upload(session.slot(ordinal)?.validate(zeros)?)?)
    };
    let (x, mut cache) = (zeros(0)?, Some(zeros(2)?));
    let mut states = Some(session.zero_states()?);
    let mut launch = || -> Result<(), Error> {
        if let (Some(held), Some(kept)) = (states.take(), cache.take()) {
            let executed = session.bind((&x, kept))?.execute(held)?;
            let (mut outputs, next) = executed.tolerate_nan().into_parts();
            cache = Some(outputs.take(2)?);
            states = Some(next);
        }
        Ok(())
    };
    launch()?;
    let heap = allocation_counter::measure(|| {
        for _ in 0..8 {
            assert!(launch().is_ok());
        }
    });
    assert_eq!(heap.count_total, 0);
    assert!(states.is_some() && cache.is_some());
    Ok(())
}

/// A NEFF of a module with one parameter, which is its result.
fn program() -> bytes::Bytes {
    let shape = ShapeProto {
        element_type: PrimitiveType::F32.into(),
        dimensions: vec![2],
        ..ShapeProto::default()
    };
    let module = HloModuleProto {
        computations: vec![HloComputationProto {
            instructions: vec![HloInstructionProto {
                name: "p0".to_owned(),
                opcode: "parameter".to_owned(),
                shape: Some(shape),
                ..HloInstructionProto::default()
            }],
            ..HloComputationProto::default()
        }],
        ..HloModuleProto::default()
    };
    let module = prost::Message::encode_to_vec(&module);
    NeffBuilder::from_hlo(module)
        .expect("a module of one parameter")
        .build()
}

#[test]
fn an_edit_does_not_copy_the_graph() -> Result<(), Error> {
    const GRAPH: usize = 64 << 20;
    let mut message = MetaNeff {
        input_tensors: vec![MetaTensor {
            name: "input0".into(),
            shape: vec![2],
            data_type: 1,
            ..MetaTensor::default()
        }],
        output_tensors: vec![MetaTensor {
            name: "output0".into(),
            shape: vec![2],
            data_type: 1,
            ..MetaTensor::default()
        }],
        ..MetaNeff::default()
    };
    message.serialized_graph_def = vec![0; GRAPH].into();
    let wire = prost::Message::encode_to_vec(&message);
    let artifact =
        Artifact::from_bytes_with(program(), wire, &ContractOptions::new().without_graph())?;
    let mut edited = None;
    let heap = allocation_counter::measure(|| {
        edited = artifact.with_dynamic_batching(true).ok();
    });
    assert!(edited.is_some());
    assert!(heap.bytes_total < 1 << 16, "{} bytes", heap.bytes_total);
    Ok(())
}
