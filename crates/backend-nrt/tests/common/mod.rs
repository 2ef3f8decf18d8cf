//! A library of the tests' own, compiled with the system's C compiler. Every
//! [`Stub`] is a file of its own and so has a state of its own.

use std::ffi::{CString, c_char, c_int, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use libloading::Library;
use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_binding::{Backend, BackendError, Completion, Core, LoadRequest, Placement};

pub(crate) struct Stub {
    path: PathBuf,
    control: Library,
    folder: tempfile::TempDir,
}

impl Stub {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnrt_stub.so");
        compile(&path, flags);
        // SAFETY: the stub has no initialisers.
        let control = unsafe { Library::new(&path) }.unwrap();
        Self {
            path,
            control,
            folder,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder for the test's files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn options(&self) -> NrtOptions {
        NrtOptions::new().library(&self.path)
    }

    pub(crate) fn open(&self) -> Nrt {
        Nrt::open(&self.options()).unwrap()
    }

    /// Makes call number `after` from now on of `call` answer `status`, once.
    pub(crate) fn fail(&self, call: &str, after: c_long, status: c_int) {
        let call = CString::new(call).unwrap();
        // SAFETY: the stub's own function, of this type.
        let function = unsafe {
            self.control
                .get::<unsafe extern "C" fn(*const c_char, c_long, c_int)>(c"stub_fail")
        };
        // SAFETY: the text ends with NUL and is copied.
        unsafe { function.unwrap()(call.as_ptr(), after, status) };
    }

    /// Makes the next `call` succeed with a null handle.
    pub(crate) fn null(&self, call: &str) {
        let call = CString::new(call).unwrap();
        // SAFETY: the stub's own function, of this type.
        let function = unsafe {
            self.control
                .get::<unsafe extern "C" fn(*const c_char)>(c"stub_null")
        };
        // SAFETY: the text ends with NUL and is copied.
        unsafe { function.unwrap()(call.as_ptr()) };
    }

    pub(crate) fn touch_stack(&self) {
        self.set_int(c"stub_touch_stack", 1);
    }

    pub(crate) fn hostile(&self, kind: c_int) {
        self.set_int(c"stub_hostile", kind);
    }

    fn set_int(&self, name: &std::ffi::CStr, value: c_int) {
        // SAFETY: the stub's own function, of this type.
        let function = unsafe { self.control.get::<unsafe extern "C" fn(c_int)>(name) };
        // SAFETY: it sets a number.
        unsafe { function.unwrap()(value) };
    }

    pub(crate) fn stats_written(&self, bytes: c_long) {
        self.set_long(c"stub_stats_written", bytes);
    }

    pub(crate) fn execution_ms(&self, time: c_long) {
        self.set_long(c"stub_execution_ms", time);
    }

    fn set_long(&self, name: &std::ffi::CStr, value: c_long) {
        // SAFETY: the stub's own function, of this type.
        let function = unsafe { self.control.get::<unsafe extern "C" fn(c_long)>(name) };
        // SAFETY: it sets a number.
        unsafe { function.unwrap()(value) };
    }

    /// The calls since the last look.
    pub(crate) fn record(&self) -> Vec<String> {
        let mut text = vec![0_u8; 1 << 16];
        // SAFETY: the stub's own function, of this type.
        let function = unsafe {
            self.control
                .get::<unsafe extern "C" fn(*mut c_char, usize)>(c"stub_record")
        };
        // SAFETY: the buffer is as large as the size says.
        unsafe { function.unwrap()(text.as_mut_ptr().cast(), text.len()) };
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8(text[..end].to_vec()).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Core, rank and world of the last call that ranks make together.
    pub(crate) fn world(&self) -> String {
        let mut text = [0_u8; 64];
        // SAFETY: the stub's own function, of this type.
        let function = unsafe {
            self.control
                .get::<unsafe extern "C" fn(*mut c_char, usize)>(c"stub_world")
        };
        // SAFETY: the buffer is as large as the size says.
        unsafe { function.unwrap()(text.as_mut_ptr().cast(), text.len()) };
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    pub(crate) fn counter(&self, name: &str) -> c_long {
        let name = CString::new(name).unwrap();
        // SAFETY: the stub's own function, of this type.
        let function = unsafe {
            self.control
                .get::<unsafe extern "C" fn(*const c_char) -> c_long>(c"stub_counter")
        };
        // SAFETY: the text ends with NUL.
        unsafe { function.unwrap()(name.as_ptr()) }
    }

    /// Asserts that everything was given back.
    pub(crate) fn assert_nothing_lives(&self) {
        for name in ["models", "tensors", "sets", "arrays"] {
            assert_eq!(self.counter(name), 0, "{name}");
        }
    }
}

fn compile(path: &Path, flags: &[&str]) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub/nrt_stub.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O0", "-pthread", "-o"])
        .arg(path)
        .args(flags)
        .arg(source)
        .status()
        .expect("the tests need a C compiler");
    assert!(status.success());
}

/// The stub's model with its tensors and sets, ready to execute.
pub(crate) struct Toy<B: Backend> {
    pub(crate) model: B::Model,
    pub(crate) input: B::Tensor,
    pub(crate) output: B::Tensor,
    pub(crate) inputs: B::TensorSet,
    pub(crate) outputs: B::TensorSet,
}

impl<B: Backend> Toy<B> {
    pub(crate) fn new(backend: &B) -> Result<Self, BackendError> {
        let core = Core::new(0);
        let model = backend.load(&request().on(core))?;
        let input = backend.allocate(Placement::Device, core, 8, c"in")?;
        let output = backend.allocate(Placement::Device, core, 8, c"out")?;
        let mut inputs = backend.tensor_set()?;
        let mut outputs = backend.tensor_set()?;
        backend.bind(&mut inputs, c"input0", &input)?;
        backend.bind(&mut outputs, c"output0", &output)?;
        Ok(Self {
            model,
            input,
            output,
            inputs,
            outputs,
        })
    }

    pub(crate) fn execute(&mut self, backend: &B) -> Result<Completion, BackendError> {
        backend.execute(&self.model, &self.inputs, &mut self.outputs)
    }

    /// Gives everything back: the model first, sets after the tensors that they
    /// name, as clients of libnrt do.
    pub(crate) fn give_back(self, backend: &B) -> Result<(), BackendError> {
        let answer = backend.unload(self.model);
        backend.free(self.input);
        backend.free(self.output);
        backend.destroy_set(self.inputs);
        backend.destroy_set(self.outputs);
        answer
    }
}

pub(crate) fn request() -> LoadRequest {
    LoadRequest::new(Bytes::from_static(b"a NEFF, for all the stub knows"))
}
