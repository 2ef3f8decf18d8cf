//! The calls of a backend themselves, without the layer above: a model, two
//! tensor sets and tensors that a case names by position.

use std::ffi::CStr;

use bytes::Bytes;
use metaneff_binding::{Backend, BackendError, Completion, Core, LoadRequest, Placement};
use metaneff_schema::nrt::Status;

use crate::case::{Failure, equal, refused};
use crate::models::subtract;

/// The core that cases use unless they are about cores.
pub(crate) const CORE: Core = Core::new(0);

/// A loaded model and two sets, with tensors that are freed at the end.
pub(crate) struct Raw<B: Backend> {
    pub(crate) model: B::Model,
    pub(crate) inputs: B::TensorSet,
    pub(crate) outputs: B::TensorSet,
    pub(crate) tensors: Vec<B::Tensor>,
}

impl<B: Backend> Raw<B> {
    /// With a loaded `input0 - input1` over `f32[2]`.
    pub(crate) fn new(backend: &B) -> Result<Self, Failure> {
        Self::load(backend, subtract()?.neff().clone())
    }

    /// With this model on core 0.
    pub(crate) fn load(backend: &B, neff: Bytes) -> Result<Self, Failure> {
        Ok(Self {
            model: backend.load(&LoadRequest::new(neff).on(CORE))?,
            inputs: backend.tensor_set()?,
            outputs: backend.tensor_set()?,
            tensors: Vec::new(),
        })
    }

    /// A device tensor of `f32` with these values.
    pub(crate) fn tensor(&mut self, backend: &B, values: [f32; 2]) -> Result<usize, Failure> {
        let bytes = bytes_of(&values);
        let tensor = allocate(backend, bytes.len())?;
        backend.write(&tensor, 0, &bytes)?;
        Ok(self.adopt(tensor))
    }

    /// Takes over a tensor, and says its position.
    pub(crate) fn adopt(&mut self, tensor: B::Tensor) -> usize {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    pub(crate) fn input(&mut self, backend: &B, name: &CStr, at: usize) -> Result<(), Failure> {
        Ok(backend.bind(&mut self.inputs, name, &self.tensors[at])?)
    }

    pub(crate) fn output(&mut self, backend: &B, at: usize) -> Result<(), Failure> {
        Ok(backend.bind(&mut self.outputs, c"output0", &self.tensors[at])?)
    }

    /// Binds fresh tensors: `a` and `b` as inputs, and one for the result, whose
    /// position it gives.
    pub(crate) fn bound(
        &mut self,
        backend: &B,
        a: [f32; 2],
        b: [f32; 2],
    ) -> Result<usize, Failure> {
        let a = self.tensor(backend, a)?;
        let b = self.tensor(backend, b)?;
        let result = self.tensor(backend, [0.0, 0.0])?;
        self.input(backend, c"input0", a)?;
        self.input(backend, c"input1", b)?;
        self.output(backend, result)?;
        Ok(result)
    }

    pub(crate) fn complete(&mut self, backend: &B) -> Result<Completion, BackendError> {
        backend.execute(&self.model, &self.inputs, &mut self.outputs)
    }

    /// As [`complete`](Self::complete), where both ways to complete will do.
    pub(crate) fn execute(&mut self, backend: &B) -> Result<(), BackendError> {
        self.complete(backend).map(drop)
    }

    pub(crate) fn floats(&self, backend: &B, at: usize) -> Result<Vec<f32>, Failure> {
        floats_of(backend, &self.tensors[at])
    }

    pub(crate) fn close(self, backend: &B) -> Result<(), Failure> {
        backend.destroy_set(self.inputs);
        backend.destroy_set(self.outputs);
        self.tensors
            .into_iter()
            .for_each(|tensor| backend.free(tensor));
        Ok(backend.unload(self.model)?)
    }
}

/// A device tensor on core 0.
pub(crate) fn allocate<B: Backend>(backend: &B, size: usize) -> Result<B::Tensor, BackendError> {
    backend.allocate(Placement::Device, CORE, size, c"t")
}

/// All bytes of a tensor.
pub(crate) fn read<B: Backend>(backend: &B, tensor: &B::Tensor) -> Result<Vec<u8>, BackendError> {
    let mut bytes = vec![0xaa; backend.tensor_size(tensor)];
    backend.read(tensor, 0, &mut bytes)?;
    Ok(bytes)
}

/// All elements of a tensor of `f32`.
pub(crate) fn floats_of<B: Backend>(backend: &B, tensor: &B::Tensor) -> Result<Vec<f32>, Failure> {
    let bytes = read(backend, tensor)?;
    let (chunks, _) = bytes.as_chunks::<4>();
    Ok(chunks
        .iter()
        .map(|chunk| f32::from_le_bytes(*chunk))
        .collect())
}

/// Elements as memory has them.
pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The call must answer INVALID.
#[track_caller]
pub(crate) fn invalid<T>(what: &str, result: Result<T, BackendError>) -> Result<(), Failure> {
    equal(what, refused(what, result)?.status(), Status::INVALID)
}
