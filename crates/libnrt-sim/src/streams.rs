//! Debug streams: `ndebug_stream.h`.
//!
//! A device emits events where a kernel prints. The simulator has no kernels; it
//! emits one event for each output of an execution, as if the model printed what
//! it gives. A stream that no one is connected to costs nothing.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use metaneff_backend_sim::{SimModel, SimTensorSet};
use metaneff_binding::{Side, TensorInfo};
use metaneff_schema::nrt::NrtDtype;

use crate::runtime::lock;

/// `NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ`.
pub(crate) const TENSOR_READ: u32 = 1;

/// Bytes of a payload before the tensor's data.
const PAYLOAD: usize = 1024;

/// Bytes that the events of one stream may have together.
const MAX_BYTES: usize = 256 << 20;

/// The streams of a runtime.
#[derive(Debug)]
pub(crate) struct Streams {
    capacity: usize,
    connected: AtomicUsize,
    streams: Mutex<BTreeMap<RawFd, Stream>>,
}

#[derive(Debug)]
struct Stream {
    core: u32,
    /// The descriptor that the client polls, and the end that makes it readable.
    theirs: UnixStream,
    ours: UnixStream,
    events: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Streams {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            connected: AtomicUsize::new(0),
            streams: Mutex::default(),
        }
    }

    /// Connects a client to a core; `None` if it has one.
    pub(crate) fn connect(&self, core: u32) -> std::io::Result<Option<RawFd>> {
        let mut streams = lock(&self.streams);
        if streams.values().any(|stream| stream.core == core) {
            return Ok(None);
        }
        let (theirs, ours) = UnixStream::pair()?;
        let descriptor = theirs.as_raw_fd();
        let stream = Stream {
            core,
            theirs,
            ours,
            events: VecDeque::new(),
            bytes: 0,
        };
        streams.insert(descriptor, stream);
        self.connected.store(streams.len(), Ordering::Release);
        Ok(Some(descriptor))
    }

    /// Ends a connection; answers whether there was one.
    pub(crate) fn disconnect(&self, descriptor: RawFd) -> bool {
        let mut streams = lock(&self.streams);
        let stream = streams.remove(&descriptor);
        self.connected.store(streams.len(), Ordering::Release);
        stream.is_some()
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        let streams = std::mem::take(&mut *lock(&self.streams));
        self.connected.store(0, Ordering::Release);
        drop(streams);
    }

    /// The next event of a stream, if there is one; `None` if there is no such
    /// stream.
    pub(crate) fn next(&self, descriptor: RawFd) -> Option<Option<Vec<u8>>> {
        let mut streams = lock(&self.streams);
        let stream = streams.get_mut(&descriptor)?;
        let event = stream.events.pop_front();
        if let Some(event) = &event {
            stream.bytes -= event.len();
            if stream.events.is_empty() {
                // The one byte that says that there is something to read.
                let _ = stream.theirs.read(&mut [0]);
            }
        }
        Some(event)
    }

    /// Emits the outputs of an execution.
    pub(crate) fn outputs(&self, model: &SimModel, outputs: &SimTensorSet) {
        if self.connected.load(Ordering::Acquire) == 0 {
            return;
        }
        let core = model.core().index();
        let mut streams = lock(&self.streams);
        let Some(stream) = streams.values_mut().find(|stream| stream.core == core) else {
            return;
        };
        let outputs_of = model.tensors().iter();
        for info in outputs_of.filter(|info| info.side == Side::Output) {
            let Ok(name) = std::ffi::CString::new(info.name.as_str()) else {
                continue;
            };
            let size = PAYLOAD + info.size;
            if stream.events.len() >= self.capacity || stream.bytes + size > MAX_BYTES {
                continue;
            }
            let mut event = payload(core, info);
            if let Some(data) = outputs.bound(&name).and_then(|tensor| tensor.peek())
                && data.len() == info.size
            {
                event[PAYLOAD..].copy_from_slice(&data);
                stream.push(event);
            }
        }
    }
}

impl Stream {
    fn push(&mut self, event: Vec<u8>) {
        self.bytes += event.len();
        self.events.push_back(event);
        if self.events.len() == 1 {
            // The socket has room for one byte.
            let _ = self.ours.write(&[1]);
        }
    }
}

/// `ndebug_stream_payload_debug_tensor_read_t` with room for the data.
fn payload(core: u32, info: &TensorInfo) -> Vec<u8> {
    let mut payload = vec![0; PAYLOAD + info.size];
    let mut put = |at: usize, bytes: &[u8]| payload[at..at + bytes.len()].copy_from_slice(bytes);
    let cut = |text: &str, size: usize| text.as_bytes()[..text.len().min(size - 1)].to_vec();
    put(0, &cut(&info.name, 512));
    put(512, &core.to_ne_bytes());
    // The standard output of the two that a kernel can print to.
    put(516, &0_u32.to_ne_bytes());
    put(520, &cut(&name_of(info.dtype), 16));
    for (index, dimension) in info.shape.iter().take(8).enumerate() {
        put(536 + index * 8, &u64::from(*dimension).to_ne_bytes());
    }
    put(600, &info.size.to_ne_bytes());
    payload
}

/// `float32` of `NRT_DTYPE_FLOAT32`.
fn name_of(dtype: NrtDtype) -> String {
    let name = dtype.name().unwrap_or("unknown");
    let name = name.strip_prefix("NRT_DTYPE_").unwrap_or(name);
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_laid_out_as_the_header_has_it() {
        let info = TensorInfo::new("out", Side::Output, 24, NrtDtype::FLOAT32, vec![2, 3]);
        let payload = payload(5, &info);
        assert_eq!(payload.len(), 1024 + 24);
        assert_eq!(&payload[..4], b"out\0");
        assert_eq!(payload[512..516], 5_u32.to_ne_bytes());
        assert_eq!(&payload[520..528], b"float32\0");
        assert_eq!(payload[544..552], 3_u64.to_ne_bytes());
        assert_eq!(payload[600..608], 24_u64.to_ne_bytes());
    }

    #[test]
    fn a_core_has_one_client_who_sees_when_there_is_something() {
        let streams = Streams::new(2);
        let stream = streams.connect(1).unwrap().unwrap();
        assert_eq!(streams.connect(1).unwrap(), None);
        assert_eq!(streams.next(stream), Some(None));
        assert_eq!(streams.next(-1), None);
        for event in [vec![1], vec![2]] {
            lock(&streams.streams).get_mut(&stream).unwrap().push(event);
        }
        assert_eq!(streams.next(stream), Some(Some(vec![1])));
        assert_eq!(streams.next(stream), Some(Some(vec![2])));
        assert_eq!(streams.next(stream), Some(None));
        assert!(streams.disconnect(stream));
        assert!(!streams.disconnect(stream));
    }
}
