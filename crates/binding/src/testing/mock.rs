//! A mock of [`Backend`], made by mockall.

use std::ffi::CStr;
use std::time::Duration;

use mockall::mock;

use crate::backend::{
    Backend, BackendInfo, Completion, Core, LoadRequest, MemoryStats, Placement, TensorInfo,
    Transfers,
};
use crate::error::BackendError;

/// A handle of a [`MockBackend`]: the number that the test gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number for tests to choose")]
pub struct MockHandle(pub u64);

mock! {
    /// A backend that asserts its calls.
    #[derive(Debug)]
    pub Backend {}

    impl Backend for Backend {
        type Tensor = MockHandle;
        type TensorSet = MockHandle;
        type Model = MockHandle;

        fn info(&self) -> BackendInfo;
        fn load(&self, request: &LoadRequest) -> Result<MockHandle, BackendError>;
        fn unload(&self, model: MockHandle) -> Result<(), BackendError>;
        fn model_tensors(&self, model: &MockHandle) -> Result<Vec<TensorInfo>, BackendError>;
        fn model_core(&self, model: &MockHandle) -> Result<Core, BackendError>;
        fn allocate(
            &self,
            placement: Placement,
            core: Core,
            size: usize,
            name: &CStr,
        ) -> Result<MockHandle, BackendError>;
        fn slice(
            &self,
            tensor: &MockHandle,
            offset: usize,
            size: usize,
            name: &CStr,
        ) -> Result<MockHandle, BackendError>;
        fn free(&self, tensor: MockHandle);
        fn tensor_size(&self, tensor: &MockHandle) -> usize;
        fn write(&self, tensor: &MockHandle, offset: usize, data: &[u8]) -> Result<(), BackendError>;
        fn read(&self, tensor: &MockHandle, offset: usize, out: &mut [u8]) -> Result<(), BackendError>;
        fn copy(
            &self,
            source: &MockHandle,
            source_offset: usize,
            target: &MockHandle,
            target_offset: usize,
            size: usize,
        ) -> Result<(), BackendError>;
        fn tensor_set(&self) -> Result<MockHandle, BackendError>;
        fn bind(
            &self,
            set: &mut MockHandle,
            name: &CStr,
            tensor: &MockHandle,
        ) -> Result<(), BackendError>;
        fn destroy_set(&self, set: MockHandle);
        fn execute(
            &self,
            model: &MockHandle,
            inputs: &MockHandle,
            outputs: &mut MockHandle,
        ) -> Result<Completion, BackendError>;
        fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError>;
        fn transfers(&self) -> Option<Transfers>;
        fn execution_timeout(&self) -> Option<Duration>;
    }
}
