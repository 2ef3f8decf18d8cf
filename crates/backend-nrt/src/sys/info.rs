//! The tensors at a model's boundary: `nrt_get_model_tensor_info`.

use std::ptr::{self, NonNull};

use metaneff_binding::{BackendError, Side, TensorInfo};
use metaneff_schema::nrt::NrtDtype;

use super::abi::{RawTensorInfo, RawTensorInfoArray};
use super::handle::NrtModel;
use super::session::{Call, Session};
use super::symbols::Symbols;

/// Tensors that a model has at most. A model has a few thousand; the limit keeps
/// a count that is not one from being taken for one.
const MAX_TENSORS: u64 = 1 << 20;

/// Dimensions that a tensor has at most.
const MAX_RANK: u32 = 64;

/// Given back to the library when it goes, on the way out of an error too.
struct Array<'a> {
    symbols: &'a Symbols,
    pointer: NonNull<RawTensorInfoArray>,
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        // SAFETY: the library made the array, and this is its only owner.
        let _status = unsafe { (self.symbols.nrt_free_model_tensor_info)(self.pointer.as_ptr()) };
    }
}

impl Session {
    pub(crate) fn model_tensors(&self, model: &NrtModel) -> Result<Vec<TensorInfo>, BackendError> {
        let call = self.call("nrt_get_model_tensor_info")?;
        let model = call.pointer(&model.handle)?;
        let function = call.symbols.nrt_get_model_tensor_info;
        let mut pointer = ptr::null_mut();
        // SAFETY: the model is this session's; the call writes one pointer.
        let status = unsafe { function(model, &raw mut pointer) };
        call.answer(status)?;
        let Some(pointer) = NonNull::new(pointer) else {
            return Err(call.broken("the library answered success and a null array".into()));
        };
        if !pointer.is_aligned() {
            return Err(call.broken(format!("the array is at {pointer:p}, which is not aligned")));
        }
        let array = Array {
            symbols: call.symbols,
            pointer,
        };
        read(&call, &array)
    }
}

fn read(call: &Call<'_>, array: &Array<'_>) -> Result<Vec<TensorInfo>, BackendError> {
    let start = array.pointer.as_ptr();
    // SAFETY: the library made the array, which begins with its count, and the
    // pointer is aligned.
    let count = unsafe { (*start).count };
    let count = match usize::try_from(count) {
        Ok(len) if count <= MAX_TENSORS => len,
        _ => {
            let detail = format!("the array counts {count} tensors, at most {MAX_TENSORS} can be");
            return Err(call.broken(detail));
        }
    };
    // SAFETY: the field is within the array's head; its address is formed
    // without reading.
    let first = unsafe { (&raw const (*start).entries).cast::<RawTensorInfo>() };
    let mut tensors = Vec::new();
    for index in 0..count {
        // SAFETY: the array has `count` entries.
        let entry = unsafe { first.add(index) };
        // SAFETY: an entry of the array, aligned as the array is; every bit
        // pattern is a value of the type.
        let entry = unsafe { entry.read() };
        let tensor = describe(&entry)
            .map_err(|detail| call.broken(format!("tensor {index} of {count}: {detail}")))?;
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn describe(entry: &RawTensorInfo) -> Result<TensorInfo, String> {
    let Some(end) = entry.name.iter().position(|byte| *byte == 0) else {
        return Err(format!(
            "the name has no end within {} bytes",
            entry.name.len()
        ));
    };
    let name = str::from_utf8(&entry.name[..end])
        .map_err(|error| format!("the name is not UTF-8: {error}"))?;
    let side = match entry.usage {
        0 => Side::Input,
        1 => Side::Output,
        usage => return Err(format!("`{name}` has usage {usage}, expected 0 or 1")),
    };
    if isize::try_from(entry.size).is_err() {
        return Err(format!(
            "`{name}` has {} bytes, which no tensor can have",
            entry.size
        ));
    }
    let shape = shape(entry).map_err(|detail| format!("`{name}` {detail}"))?;
    Ok(TensorInfo::new(
        name,
        side,
        entry.size,
        NrtDtype(entry.dtype),
        shape,
    ))
}

fn shape(entry: &RawTensorInfo) -> Result<Vec<u32>, String> {
    let RawTensorInfo { shape, ndim, .. } = *entry;
    if ndim == 0 {
        return Ok(Vec::new());
    }
    if ndim > MAX_RANK {
        return Err(format!("has {ndim} dimensions, at most {MAX_RANK} can be"));
    }
    if shape.is_null() || !shape.is_aligned() {
        return Err(format!(
            "has {ndim} dimensions at {shape:p}, which is no place for them"
        ));
    }
    let mut dimensions = Vec::new();
    for index in 0..ndim as usize {
        // SAFETY: the library says that the shape has `ndim` numbers.
        let dimension = unsafe { shape.add(index) };
        // SAFETY: as above; the pointer is neither null nor misaligned.
        dimensions.push(unsafe { dimension.read() });
    }
    Ok(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::abi::NAME_MAX;

    fn entry(name: &[u8]) -> RawTensorInfo {
        let mut bytes = [0; NAME_MAX];
        bytes[..name.len()].copy_from_slice(name);
        RawTensorInfo {
            name: bytes,
            usage: 1,
            size: 12,
            dtype: 0x77,
            shape: ptr::null(),
            ndim: 0,
        }
    }

    #[test]
    fn an_entry_is_described() {
        let dimensions = [2_u32, 3];
        let mut raw = entry(b"output0");
        raw.shape = dimensions.as_ptr();
        raw.ndim = 2;
        let info = describe(&raw).unwrap();
        assert_eq!(info.name, "output0");
        assert_eq!(info.side, Side::Output);
        assert_eq!((info.size, info.dtype), (12, NrtDtype(0x77)));
        assert_eq!(info.shape, [2, 3]);
    }

    #[test]
    fn hostile_entries_are_refused() {
        assert!(
            describe(&entry(&[b'x'; NAME_MAX]))
                .unwrap_err()
                .contains("no end")
        );
        assert!(describe(&entry(b"\xff")).unwrap_err().contains("UTF-8"));
        let mut usage = entry(b"a");
        usage.usage = 9;
        assert!(describe(&usage).unwrap_err().contains("`a` has usage 9"));
        let mut size = entry(b"a");
        size.size = usize::MAX;
        assert!(describe(&size).unwrap_err().contains("no tensor"));
        let mut rank = entry(b"a");
        rank.ndim = MAX_RANK + 1;
        assert!(describe(&rank).unwrap_err().contains("65 dimensions"));
        rank.ndim = 1;
        assert!(describe(&rank).unwrap_err().contains("no place"));
        rank.shape = ptr::without_provenance(3);
        assert!(describe(&rank).unwrap_err().contains("no place"));
    }
}
